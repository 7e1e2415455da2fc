#include "choices.hpp"

#include <map>

#include "cells.hpp"
#include "names.hpp"
#include "options.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

/// Records every decision of an operator, with its sizes.
class TakenAlgorithms final : public Observer {
 public:
  TakenAlgorithms() { begin(); }
  ~TakenAlgorithms() override { end(); }

  void after(const OperatorCall& call) override {
    if (call.algorithms().empty()) return;
    std::string sizes, algorithms;
    for (const Operand& operand : call.operands())
      if (operand.role == Role::in && operand.tensor->rank() > 1) sizes += message(" ", operand.tensor->shape());
    for (const auto& [decision, algorithm] : call.algorithms())
      algorithms += message(algorithms.empty() ? "" : ", ", decision, ":", algorithm);
    const std::string name = call.backward() ? message(call.name(), " backward") : call.name();
    const std::string line = "    " + padded(name, 18) + padded(sizes, 46) + "  " + algorithms;
    if (times_[line]++ == 0) order_.push_back(line);
  }

  std::string text() const {
    std::string text;
    for (const std::string& line : order_)
      text += line + (times_.at(line) > 1 ? message("  (", times_.at(line), " times)") : "") + "\n";
    return text;
  }

 private:
  std::map<std::string, int> times_;
  std::vector<std::string> order_;
};

std::string decisions_of(const Mode& mode) {
  if (mode.decisions.empty()) return "  every operator has one algorithm\n";
  std::string text;
  for (const Decision& decision : mode.decisions) {
    text += "  " + padded(decision.name, 20);
    for (const char* const algorithm : decision.algorithms)
      if (algorithm != nullptr) text += message(" ", algorithm);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string describe_choices(const std::string& net, std::int64_t batch, const Settings& settings) {
  std::vector<std::string> names;
  if (settings.mode == "fastest" || settings.mode == "auto") {
    for (const ModeStatus& status : modes())
      if (status.available) names.push_back(status.name);
  } else {
    names.push_back(settings.mode);
  }
  std::string text;
  for (const std::string& name : names) {
    text += message(text.empty() ? "" : "\n", name, " chooses between\n", decisions_of(mode(name)));
    if (mode(name).decisions.empty()) continue;
    for (const char* const phase : {"train", "infer"}) {
      benchmarks::Workload workload({net, name, phase, batch, precision_of(settings.precision)}, settings.threads);
      // A replay would show nothing: the first run is eager, and what it finds by trial is cached.
      const TakenAlgorithms taken;
      workload.run();
      text += message("  in ", net, ", ", std::string_view(phase) == "train" ? "training" : "inference", " of ", batch,
                      ", ", settings.precision, "\n", taken.text());
    }
  }
  return text;
}

}  // namespace tern::tool
