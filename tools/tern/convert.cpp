// `tern convert`: a model in another kind of file.

#include "errors.hpp"
#include "model_file.hpp"
#include "nets.hpp"
#include "onnx_model.hpp"
#include "output.hpp"
#include "tern/graph/trace.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Convert : public Command {
 public:
  Convert() {
    Option model = model_option(model_);
    Option out = text_option("out", "FILE", "a file for ONNX (.onnx) or for the library (.tern)", out_);
    out.kind = Value::file;
    verb_ = {.name = "convert",
             .summary = "Writes a model as an ONNX file, or an ONNX file as a model.",
             .synopsis = "--model FILE --out FILE",
             .description =
                 "The ending of --out says what it becomes. Both hold the network as a graph, with the classes and the "
                 "scaling of the inputs. An ONNX file with several inputs or results, or with other results than "
                 "scores of classes, becomes a program for graph::Program::load.",
             .examples = {"tern convert --model run --out digits.onnx",
                          "tern convert --model resnet18.onnx --out "
                          "resnet18.tern"}};
    for (Option* option : {&model, &out}) {
      option->group = "Files";
      option->brief = true;
      verb_.options.push_back(std::move(*option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file, an ONNX file or the folder of a run");
    expects<UsageError>(is_onnx(out_) || out_.ends_with(".tern"), "--out: found '", out_,
                        "', expected a name that ends in .onnx or .tern");
    keep_inputs(out_, {model_});
    const std::optional<Model> model = model_in();
    const graph::Graph graph = model && !is_onnx(model_) ? graph_of(*model) : load_graph(model_);
    const std::optional<Blueprint> blueprint = model ? std::optional(model->blueprint) : std::nullopt;
    if (is_onnx(out_))
      blueprint ? save_onnx(out_, *blueprint, graph) : save_onnx(out_, graph);
    else if (blueprint && graph.structure().batch > 0)
      save_model(out_, *blueprint, graph);
    else
      graph.save(out_);
    print(message(graph.structure().nodes.size(), " operators",
                  blueprint ? message(" of ", describe_net(*blueprint)) : std::string(), " in ", out_, "\n"));
    return success;
  }

 private:
  /// Absent for an ONNX file that is no model of classes.
  std::optional<Model> model_in() const {
    if (!is_onnx(model_)) return load_model(model_);
    try {
      return load_model(model_);
    } catch (const FileError&) {
      return {};
    }
  }

  std::string model_, out_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_convert() { return std::make_unique<Convert>(); }

}  // namespace tern::tool
