// `tern quantize`: a model that infers in 8 bits.

#include "tern/graph/quantize.hpp"

#include <algorithm>

#include "data_sets.hpp"
#include "errors.hpp"
#include "model_file.hpp"
#include "output.hpp"
#include "tern/graph/trace.hpp"
#include "tern/modes/device.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Quantize : public Command {
 public:
  Quantize() {
    verb_ = {.name = "quantize",
             .summary = "Makes a model that infers in 8 bits of a trained one.",
             .synopsis = "--model FILE --dataset DATA --out FILE [options]",
             .description =
                 "Runs the model over some examples, chooses how each activation is stored in 8 bits, and writes a "
                 "model for tern test, tern predict and tern bench. Of a set with a test part of its own the examples "
                 "come from the other part. A layer stays in float32 where 8 bits are not faster in this mode; the "
                 "worst layers return to float32 until the error is within --bound. The table lists both.",
             .examples = {"tern quantize --model digits --dataset mnist --out small.tern",
                          "tern test --model small.tern --dataset mnist"},
             .options = test_options(settings_, model_)};
    Option out = text_option("out", "FILE", "the model in 8 bits", out_);
    out.kind = Value::file;
    Option examples = integer_option("examples", "N", "to calibrate with (default: 256)", examples_, 1, 1 << 20);
    Option calibration = choice_option("calibration", "how the range of an activation is chosen",
                                       {"min-max", "percentile", "entropy"}, calibration_);
    Option bound{.name = "bound", .value = "E", .help = "largest error of the results, relative (default: 0.1)"};
    bound.set = [this](const std::string& text) {
      bound_ = parse_number("bound", text);
      expects<UsageError>(bound_ > 0, "--bound: found ", text, ", expected a number above 0");
    };
    Option force = switch_option("force", "also layers that are not faster in 8 bits", force_);
    for (Option* option : {&out, &examples, &calibration, &bound, &force}) {
      option->group = "Quantisation";
      option->brief = true;
      verb_.options.push_back(std::move(*option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(!settings_.dataset.empty(), "--dataset is missing: the examples to calibrate with");
    expects<UsageError>(!out_.empty(), "--out is missing: where the model goes");
    keep_inputs(out_, {model_, settings_.dataset});
    const Device device{settings_.mode, device_options(settings_)};
    const Model model = load_model(model_);
    const auto own = std::dynamic_pointer_cast<graph::Graph>(model.net);
    expects<UsageError>(own == nullptr || !computes_in_8_bits(*own), model.file,
                        " is in 8 bits already; quantise the model that it was made of");
    const std::vector<std::vector<Tensor>> batches = batches_for(model.blueprint);
    const graph::Graph whole = own != nullptr ? *own : graph::trace(*model.net, batches[0]);
    expects<UsageError>(whole.structure().batch > 0, model.file,
                        " takes one example at a time; export it with a symbolic batch");
    graph::QuantizeOptions options{.bound = bound_, .force = force_};
    if (calibration_ == "percentile") options.calibration = graph::Calibration::percentile;
    if (calibration_ == "entropy") options.calibration = graph::Calibration::entropy;
    graph::QuantizeReport report;
    const graph::Graph made = graph::quantize(whole, batches, options, &report);
    save_model(out_, model.blueprint, made);
    print(report.text());
    return success;
  }

 private:
  static bool computes_in_8_bits(const graph::Graph& graph) {
    return std::ranges::any_of(graph.structure().nodes,
                               [](const graph::Node& node) { return node.op->name().starts_with("quantized_"); });
  }
  std::vector<std::vector<Tensor>> batches_for(const Blueprint& blueprint) const {
    const Examples set = load_test_data(settings_, blueprint, Part::train, false);
    expects<FileError>(set.size() > 0, set.name(), ": found no examples to calibrate with");
    std::vector<std::vector<Tensor>> batches;
    std::int64_t left = examples_;
    for_each_batch(set, blueprint, 32, [&](const Tensor& x, const Tensor&) {
      batches.push_back({x.slice(0, 0, left)});
      left -= x.size(0);
      return left > 0;
    });
    return batches;
  }

  Settings settings_;
  std::string model_, out_, calibration_ = "min-max";
  std::int64_t examples_ = 256;
  double bound_ = 0.1;
  bool force_ = false;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_quantize() { return std::make_unique<Quantize>(); }

}  // namespace tern::tool
