#include "tern/graph/quantize.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <set>
#include <sstream>

#include "graph/passes/split.hpp"
#include "graph/quantize/ranges.hpp"
#include "graph/quantize/rewrite.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/graph/program.hpp"
#include "tern/modes/device.hpp"

namespace tern::graph {

using namespace quantizing;

namespace {

/// The graph for inference with its operators apart.
Structure prepared(const Graph& graph) {
  Structure structure = graph.structure();
  merge_common(structure);
  split_fused(structure);
  fold_batch_norm(structure);
  fold_constants(structure);
  remove_dead(structure);
  return structure;
}

/// What is left in float32 is joined again.
Graph finished(Structure structure) {
  fuse(structure, Rounding::fewer);
  remove_dead(structure);
  return Graph(std::move(structure));
}

/// The root of the mean squared difference, divided by the root of the mean square.
class Difference {
 public:
  void add(const Tensor& found, const Tensor& expected) {
    const std::vector<double> x = found.detach().values(), y = expected.detach().values();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double off = x[i] - y[i];
      error_ += off * off;
      square_ += y[i] * y[i];
    }
  }
  double value() const { return square_ > 0 ? std::sqrt(error_ / square_) : error_ > 0 ? infinity_ : 0; }

 private:
  static constexpr double infinity_ = std::numeric_limits<double>::infinity();
  double error_ = 0, square_ = 0;
};

double difference_of(const Graph& graph, const Graph& from, const std::vector<std::vector<Tensor>>& batches) {
  Difference difference;
  for (const std::vector<Tensor>& inputs : batches) {
    const std::vector<Tensor> found = graph.run(inputs), expected = from.run(inputs);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (is_floating(found[i].dtype())) difference.add(found[i], expected[i]);
  }
  return difference.value();
}

/// Seconds of the shortest of several calls, after two that prepare.
double seconds_of(int repeats, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  Scope& scope = current_scope();
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = -2; i < repeats; ++i) {
    const auto begin = Clock::now();
    call();
    scope.mode->memory->synchronize(scope.context.stream);
    if (i >= 0) shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return shortest;
}

class Quantizer {
 public:
  Quantizer(const Graph& graph, const std::vector<std::vector<Tensor>>& batches, const QuantizeOptions& options)
      : batches_(batches), options_(options), structure_(prepared(graph)), layers_(find_layers(structure_)) {
    std::set<int> values;
    for (const Layer& layer : layers_)
      for (const int id : {layer.x, layer.other, layer.result})
        if (id >= 0) values.insert(id);
    for (const Node& node : structure_.nodes)
      if (follows(structure_, node))
        for (const auto* ids : {&node.inputs, &node.results})
          for (const int id : *ids)
            if (id >= 0 && structure_.values[id].kind != Kind::constant) values.insert(id);
    std::erase_if(values, [&](int id) { return structure_.values[id].dtype != DType::float32; });
    observed_.assign(values.begin(), values.end());
    as_ = quantizations(structure_, observed_, batches, options);
    share_with_concatenations();
    // What keeps its input's quantization has it from the beginning.
    for (const Node& node : structure_.nodes)
      if (follows(structure_, node) && keeps_quantization(node) && as_.contains(node.inputs[0]))
        as_[node.results[0]] = as_[node.inputs[0]];
  }

  Graph run(QuantizeReport& report) {
    measure(report);
    Graph real = finished(structure_);
    Graph made = choose(report, real);
    report.error = difference_of(made, real, batches_);
    if (options_.repeats > 0) {
      const Program before(real, {.fold = false}), after(made, {.fold = false});
      report.float_seconds = seconds_of(options_.repeats, [&] { before(batches_[0]); });
      report.int8_seconds = seconds_of(options_.repeats, [&] { after(batches_[0]); });
      if (!options_.force && report.int8_seconds >= report.float_seconds) {
        for (QuantizedLayer& layer : report.layers) layer.quantized = false;
        report.error = 0;
        return real;
      }
    }
    return made;
  }

 private:
  /// Layers that only a concatenation reads have its quantization: nothing is rescaled there.
  void share_with_concatenations() {
    const std::vector<int> uses = structure_.uses();
    for (const Node& node : structure_.nodes) {
      if (node.op->name() != "cat" || !follows(structure_, node)) continue;
      for (const Layer& layer : layers_)
        if (uses[layer.result] == 1 && std::ranges::find(node.inputs, layer.result) != node.inputs.end())
          as_[layer.result] = as_.at(node.results[0]);
    }
  }

  /// Error and times of each layer alone, in the first batch.
  void measure(QuantizeReport& report) {
    std::vector<int> ids = observed_;
    const std::vector<Tensor> found = values_of(structure_, ids, batches_[0]);
    const auto tensor_of = [&](int id) {
      return found[static_cast<std::size_t>(std::ranges::find(ids, id) - ids.begin())];
    };
    for (const Layer& layer : layers_) {
      const Node& node = structure_.nodes[layer.node];
      QuantizedLayer line{.name = node.module.empty() ? structure_.values[layer.result].name : node.module};
      const Graph real = finished(alone(structure_, layer)), stored(alone_stored(structure_, layer, as_));
      std::vector<Tensor> real_inputs, stored_inputs;
      for (const int id : {layer.x, layer.other == layer.x ? -1 : layer.other}) {
        if (id < 0) continue;
        real_inputs.push_back(tensor_of(id));
        stored_inputs.push_back(operators::quantize(real_inputs.back(), as_.at(id)));
      }
      Difference difference;
      difference.add(operators::dequantize(stored.run(stored_inputs)[0], as_.at(layer.result)),
                     tensor_of(layer.result));
      line.error = difference.value();
      if (options_.repeats > 0) {
        line.float_seconds = seconds_of(options_.repeats, [&] { real.run(real_inputs); });
        line.int8_seconds = seconds_of(options_.repeats, [&] { stored.run(stored_inputs); });
      }
      line.quantized = options_.force || options_.repeats == 0 || line.int8_seconds < line.float_seconds;
      report.layers.push_back(std::move(line));
    }
  }

  /// The quantised graph, after the worst layers have left until the bound holds.
  Graph choose(QuantizeReport& report, const Graph& real) {
    while (true) {
      std::vector<Layer> chosen;
      QuantizedLayer* worst = nullptr;
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        QuantizedLayer& line = report.layers[i];
        if (!line.quantized) continue;
        chosen.push_back(layers_[i]);
        if (worst == nullptr || line.error > worst->error) worst = &line;
      }
      if (worst == nullptr) return real;
      Structure stored = rewritten(structure_, chosen, as_);
      quantizing::join_concatenated(stored);
      Graph made = finished(std::move(stored));
      if (difference_of(made, real, batches_) <= options_.bound) return made;
      worst->quantized = false;
    }
  }

  const std::vector<std::vector<Tensor>>& batches_;
  const QuantizeOptions& options_;
  Structure structure_;
  std::vector<Layer> layers_;
  std::vector<int> observed_;
  std::map<int, Quantization> as_;
};

}  // namespace

std::string QuantizeReport::text() const {
  std::ostringstream text;
  std::size_t width = 5;
  for (const QuantizedLayer& layer : layers) width = std::max(width, layer.name.size());
  const auto milliseconds = [&](double seconds) {
    text << std::setw(10);
    if (seconds > 0)
      text << seconds * 1e3;
    else
      text << '-';
  };
  text << std::left << std::setw(static_cast<int>(width)) << "layer" << std::right
       << "   runs in    error  float32 ms  int8 ms\n"
       << std::fixed;
  for (const QuantizedLayer& layer : layers) {
    text << std::left << std::setw(static_cast<int>(width)) << layer.name << std::right << std::setw(10)
         << (layer.quantized ? "int8" : "float32") << std::setprecision(4) << std::setw(9) << layer.error << "  ";
    milliseconds(layer.float_seconds);
    milliseconds(layer.int8_seconds);
    text << '\n';
  }
  text << std::left << std::setw(static_cast<int>(width)) << "whole" << std::right << std::setw(19) << error << "  ";
  milliseconds(float_seconds);
  milliseconds(int8_seconds);
  text << '\n';
  return text.str();
}

Graph quantize(const Graph& graph, const std::vector<std::vector<Tensor>>& batches, const QuantizeOptions& options,
               QuantizeReport* report) {
  expects(!batches.empty(), "quantize: no batches to calibrate with");
  expects<NumericError>(options.percentile > 0 && options.percentile <= 100, "quantize: a percentile of ",
                        options.percentile, ", expected one in (0, 100]");
  for (const Node& node : graph.structure().nodes)
    expects(node.op->effect(node.attributes) != operators::Effect::changes, "quantize: ", node.op->name(),
            node.module.empty() ? "" : " of " + node.module, " trains; call eval() before the module is traced");
  const NoGrad no_grad;
  QuantizeReport own;
  QuantizeReport& result = report == nullptr ? own : *report;
  result = {};
  return Quantizer(graph, batches, options).run(result);
}

}  // namespace tern::graph
