// `tern info`: what a bug report needs.

#include <map>

#include "cells.hpp"
#include "choices.hpp"
#include "errors.hpp"
#include "machine.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

/// Inputs, results, parameters and operators, a line for each.
std::string describe_graph(const graph::Graph& graph) {
  const graph::Structure& own = graph.structure();
  const auto size = [](const graph::Linear& each) {
    if (each.each == 0) return std::to_string(each.fixed);
    return message(each.each == 1 ? "" : std::to_string(each.each), 'n',
                   each.fixed == 0 ? "" : message('+', each.fixed));
  };
  const auto line = [&](const std::string& kind, const graph::Value& value) {
    std::string shape;
    for (const graph::Linear& each : value.shape) shape += (shape.empty() ? "" : ",") + size(each);
    return padded(kind, 12) + value.name + "  " + message(value.dtype) + "[" + shape + "]\n";
  };
  std::string text = padded("graph", 12) + own.name + (own.batch > 0 ? ", any batch n\n" : ", sizes are fixed\n");
  for (const int id : own.inputs) text += line("input", own.values[id]);
  for (const int id : own.results) text += line("result", own.values[id]);
  std::int64_t count = 0, tensors = 0;
  for (const graph::Value& value : own.values)
    if (value.kind == graph::Kind::parameter) {
      count += value.tensor.numel();
      ++tensors;
    }
  text += padded("parameters", 12) + grouped(count) + " in " + counted(tensors, "tensor") + "\n";
  std::map<std::string, std::int64_t> calls;
  for (const graph::Node& node : own.nodes) ++calls[node.op->name()];
  text += padded("operators", 12) + counted(std::ssize(own.nodes), "call") + "\n";
  for (const auto& [name, times] : calls) text += "  " + left_padded(std::to_string(times), 6) + "  " + name + "\n";
  return text;
}

class Info : public Command {
 public:
  Info() {
    Option json = switch_option("json", "as JSON", json_);
    json.group = "Results";
    json.brief = true;
    verb_ = {.name = "info",
             .summary = "Shows the version, the modes and why one is missing, and the machine.",
             .synopsis = "[--json | --choices NET | --model FILE]",
             .description =
                 "For bug reports. With --model, the inputs and results of a model or an ONNX file, its parameters, "
                 "and how often it calls which operator. With --choices, the algorithms of each mode's kernels, "
                 "and which they take in a net: TERN_ALGORITHM forces one of them by these names.",
             .examples = {"tern info", "tern info --choices lenet --batch 32", "tern info --model resnet18.onnx"},
             .options = {std::move(json)}};
    Option model = text_option("model", "FILE", "a model or an ONNX file, which is described", model_);
    model.group = "Model";
    model.brief = true;
    model.kind = Value::file;
    verb_.options.push_back(std::move(model));
    Options own{choice_option("choices", "the algorithms that kernels know and take in a net, such as lenet",
                              benchmarks::nets(), net_),
                integer_option("batch", "N", "images at a time for --choices (default: 32)", batch_, 1, 1 << 20)};
    for (Option& option : machine_options(settings_))
      if (option.name == "mode" || option.name == "threads" || option.name == "precision")
        own.push_back(std::move(option));
    for (Option& option : own) {
      option.group = "Choices";
      option.brief = true;
      verb_.options.push_back(std::move(option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    if (!net_.empty()) {
      expects<UsageError>(!json_, "--choices: its table has no --json form; leave one of them out");
      print(describe_choices(net_, batch_, settings_));
      return success;
    }
    if (!model_.empty()) {
      expects<UsageError>(!json_, "--model: its table has no --json form; leave one of them out");
      print(describe_graph(load_graph(model_)));
      return success;
    }
    const Json machine = describe_machine();
    if (json_) {
      print(machine.dump(2) + "\n");
      return success;
    }
    const auto line = [](const std::string& name, const std::string& value) { return padded(name, 11) + value + "\n"; };
    std::string text =
        line("tern", machine["version"].get<std::string>() + ", built by " + machine["compiler"].get<std::string>());
    text += line("system", machine["system"]) + line("processor", machine["processor"]);
    text += line("threads", machine["threads"].dump()) + line("memory", grouped(machine["memory_mib"]) + " MiB");
    text += "modes\n";
    const auto mode_line = [](const std::string& name, bool available, const std::string& about) {
      return "  " + padded(name, 12) + (available ? "yes  " : "no   ") + about + "\n";
    };
    for (const Json& mode : machine["modes"]) {
      text += mode_line(mode["name"], mode["available"], mode["reason"]);
      for (const Json& device : machine["devices"])
        if (device["mode"] == mode["name"] && device["index"] > 0)
          text += mode_line(device["name"], true, device["description"]);
    }
    text += "libraries\n";
    for (const auto& [name, version] : machine["libraries"].items())
      text += "  " + padded(name, 15) + version.get<std::string>() + "\n";
    print(text);
    return success;
  }

 private:
  bool json_ = false;
  std::string net_, model_;
  std::int64_t batch_ = 32;
  Settings settings_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_info() { return std::make_unique<Info>(); }

}  // namespace tern::tool
