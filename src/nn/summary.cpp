#include "tern/nn/summary.hpp"

#include <iomanip>
#include <unordered_map>
#include <utility>

#include "memory/no_memory.hpp"
#include "nn/call_log.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"

namespace tern::nn {

/// Switches a module and all its children to evaluation, and back afterwards.
struct EvaluationScope {
  explicit EvaluationScope(const Module& module) {
    module.visit([this](const std::string&, const Module& below) {
      before.emplace_back(below.body_, below.body_->training);
      below.body_->training = false;
    });
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;
  ~EvaluationScope() {
    // A child that is registered twice occurs twice: its first entry has the original value.
    for (auto entry = before.rbegin(); entry != before.rend(); ++entry) entry->first->training = entry->second;
  }
  static const void* key(const Module& module) { return module.body_.get(); }
  static const std::vector<NamedTensor>& parameters(const Module& module) { return module.body_->parameters; }
  static bool leaf(const Module& module) { return module.body_->children.empty(); }

  std::vector<std::pair<std::shared_ptr<Module::Body>, bool>> before;
};

namespace {

/// Notes the layers of a call, and the operations of each without those of its children.
class Recorder final : public CallLog, public operators::OpListener, public Observer {
 public:
  Recorder(Summary& summary, const Module& root, bool runs) : summary_(summary), runs_(runs) {
    root.visit(
        [this](const std::string& path, const Module& module) { paths_.emplace(EvaluationScope::key(module), path); });
    begin();
  }
  ~Recorder() override { end(); }

  bool runs() const override { return runs_; }
  void called(const operators::OpCall& call) override { count(call.flops); }
  void after(const OperatorCall& call) override { count(call.flops()); }

  void calls(const Module&) override { flops_.push_back(0); }
  void called(const Module& module, const Tensor& x, const Tensor& y) override {
    Summary::Layer layer{.name = {}, .description = module.describe(), .output = y.shape()};
    if (const auto path = paths_.find(EvaluationScope::key(module)); path != paths_.end()) layer.name = path->second;
    for (const NamedTensor& own : EvaluationScope::parameters(module))
      if (own.tensor.defined()) layer.parameters += own.tensor.numel();
    layer.flops = static_cast<std::int64_t>(flops_.back());
    flops_.pop_back();
    summary_.flops += layer.flops;
    if (!EvaluationScope::leaf(module) && layer.parameters == 0 && layer.flops == 0) return;
    // An output that shares the input's elements costs nothing.
    const bool view = y.shared_storage() == x.shared_storage();
    layer.output_bytes = view ? 0 : static_cast<std::int64_t>(byte_count(y.shape(), size_of(y.dtype())));
    summary_.output_bytes += layer.output_bytes;
    summary_.layers.push_back(std::move(layer));
  }

 private:
  void count(double flops) {
    if (!flops_.empty()) flops_.back() += flops;
  }

  Summary& summary_;
  bool runs_;
  std::unordered_map<const void*, std::string> paths_;
  std::vector<double> flops_;  // of each module that is being called, the innermost last
};

/// Adds the layers of one call. Operators are inferred, or run.
void record_layers(Summary& summary, const Module& module, const Tensor& x, bool runs) {
  const EvaluationScope evaluation(module);
  const NoGrad no_grad;
  Recorder recorder(summary, module, runs);
  const operators::Listening listening(&recorder);
  module(x);
}

std::string thousands(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string megabytes(std::int64_t bytes) {
  PlainStream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

}  // namespace

Summary summary(const Module& module, const Shape& input) {
  Summary summary{.description = module.describe(), .input = input, .layers = {}};
  DType dtype = DType::float32;
  for (const Tensor& tensor : module.parameters()) {
    dtype = tensor.dtype();
    summary.parameters += tensor.numel();
    summary.parameter_bytes += static_cast<std::int64_t>(byte_count(tensor.shape(), size_of(dtype)));
  }
  try {
    Summary inferred = summary;
    record_layers(inferred, module, Tensor(input, dtype), false);
    return inferred;
  } catch (const NoElements&) {  // a module of the user's looks at values
    record_layers(summary, module, zeros(input, dtype), true);
    return summary;
  }
}

std::string Summary::text() const {
  std::vector<std::vector<std::string>> rows{{"layer", "output", "parameters", "FLOPs", "output bytes"}};
  for (const Layer& layer : layers)
    rows.push_back({layer.name.empty() ? layer.description : layer.name + " " + layer.description,
                    message(layer.output), thousands(layer.parameters), thousands(layer.flops),
                    thousands(layer.output_bytes)});
  std::vector<std::size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());

  PlainStream text;
  text << description << " on " << input << '\n';
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)  // words left-aligned, numbers right-aligned
      text << (i == 0 ? "" : "  ") << (i < 2 ? std::left : std::right) << std::setw(static_cast<int>(width[i]))
           << row[i];
    text << '\n';
  }
  text << thousands(parameters) << " parameters (" << megabytes(parameter_bytes) << "), " << thousands(flops)
       << " FLOPs, outputs " << megabytes(output_bytes) << '\n';
  return text.str();
}

}  // namespace tern::nn
