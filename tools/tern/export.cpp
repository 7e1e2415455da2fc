// `tern export`: writes the weights of a model for other programs.

#include <algorithm>

#include "blueprint_file.hpp"
#include "errors.hpp"
#include "model_file.hpp"
#include "nets.hpp"
#include "output.hpp"
#include "tern/io/file.hpp"
#include "tern/io/npy.hpp"
#include "tern/io/safetensors.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Export : public Command {
 public:
  Export() {
    Option model = model_option(model_);
    Option format =
        choice_option("format", "safetensors (one file) or npy (a folder)", {"safetensors", "npy"}, format_);
    Option out = text_option("out", "PATH", "the file, or the folder for npy", out_);
    out.kind = Value::file;
    verb_ = {
        .name = "export",
        .summary = "Writes the weights of a model for other programs: safetensors or NumPy files.",
        .synopsis = "--model FILE --out PATH [--format safetensors|npy]",
        .description =
            "safetensors: the parameters under the names that PyTorch gives them, and nothing else; "
            "safetensors.torch.load_file reads it. npy: a file per parameter for numpy.load, and model.json with the "
            "network, the classes and the scaling of the inputs.",
        .examples = {"tern export --model run --out weights.safetensors",
                     "tern export --model run --format npy --out weights"}};
    for (Option* option : {&model, &format, &out}) {
      option->group = "Results";
      option->brief = true;
      verb_.options.push_back(std::move(*option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(!out_.empty(), "--out is missing: where the weights go");
    for (const char* ending : {".npz", ".npy", ".pt", ".pth", ".onnx", ".h5"})
      expects<UsageError>(format_ == "npy" || !out_.ends_with(ending), "--out: ", out_,
                          " would be a safetensors file; "
                          "name it .safetensors, or give --format npy, which writes a folder of .npy files");
    keep_inputs(out_, {model_});
    const Model model = load_model(model_);
    const nn::State weights = model.net->state();
    if (format_ == "npy") {
      io::make_folders(out_);
      for (const auto& [name, tensor] : weights) io::save_npy(out_ + "/" + name + ".npy", tensor);
      write_file(out_ + "/model.json", to_json(model.blueprint).dump(2) + "\n");
    } else {
      io::save_safetensors(out_, weights);
    }
    print(message(weights.size(), " tensors of ", describe_net(model.blueprint), " in ", out_, "\n"));
    return success;
  }

 private:
  std::string model_, out_, format_ = "safetensors";
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }

}  // namespace tern::tool
