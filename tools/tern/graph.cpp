// `tern graph`: a network as text, as a drawing, or as a program for inference.

#include <set>

#include "cells.hpp"
#include "errors.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "tern/graph/passes.hpp"
#include "tern/graph/trace.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

/// The operators and dtypes that TERN_OPERATORS needs, one a line: those of the file, and those that a Program makes of
/// them.
std::string operators_of(const graph::Graph& graph) {
  std::set<std::string> names;
  const std::set<DType> more{DType::float64, DType::int32, DType::int64, DType::boolean};
  const auto add = [&](const graph::Structure& structure) {
    for (const graph::Node& node : structure.nodes) {
      names.insert(node.op->name());
      if (node.op->name().find("quantize") != std::string::npos) continue;  // its integers are its own
      for (const auto& ids : {node.inputs, node.results})
        for (const int id : ids)
          if (id >= 0 && more.contains(structure.values[id].dtype))
            names.insert(std::string(name_of(structure.values[id].dtype)));
    }
  };
  add(graph.structure());
  add(graph::for_inference(graph).structure());
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

class GraphVerb : public Command {
 public:
  GraphVerb() {
    Option model = model_option(model_);
    Option net = choice_option("net", "a network without a model, such as lenet", benchmarks::nets(), net_);
    Option format = choice_option("format",
                                  "text, svg (a drawing), program (a file for graph::Program::load) or operators (a "
                                  "list for TERN_OPERATORS)",
                                  {"text", "svg", "program", "operators"}, format_);
    Option passes = choice_option(
        "passes", "none, same (those that keep every bit) or inference (batch normalisation folded into layers)",
        {"none", "same", "inference"}, passes_);
    Option out = text_option("out", "FILE", "where it goes (default: standard output)", out_);
    out.kind = Value::file;
    verb_ = {.name = "graph",
             .summary = "Shows a network as a graph: its operators, shapes and attributes.",
             .synopsis = "--net NET | --model FILE [--passes P] [--format F] [--out O]",
             .description =
                 "A line of the text names the results of an operator with dtype and shape, its inputs and "
                 "attributes, and behind # the module. {n} is the batch.",
             .examples = {"tern graph --net lenet",
                          "tern graph --model run --passes inference --format svg --out "
                          "graph.svg"}};
    for (Option* option : {&model, &net, &format, &passes, &out}) {
      option->group = "Graph";
      option->brief = true;
      verb_.options.push_back(std::move(*option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(model_.empty() != net_.empty(), "give --net or --model, one of them");
    expects<UsageError>(format_ != "program" || !out_.empty(), "--out is missing: where the program goes");
    graph::Graph graph = traced();
    if (passes_ == "same") graph = graph::optimized(graph);
    if (passes_ == "inference") graph = graph::for_inference(graph);
    if (format_ == "program") {
      keep_inputs(out_, {model_});
      graph.save(out_);
      return success;
    }
    const std::string text = format_ == "svg"         ? graph.svg()
                             : format_ == "operators" ? operators_of(graph)
                                                      : graph.text();
    if (out_.empty())
      print(text);
    else
      write_file(out_, text);
    return success;
  }

 private:
  graph::Graph traced() const {
    if (!model_.empty()) return load_graph(model_);
    const benchmarks::Net net = benchmarks::make_net(net_, 1);
    net.module->eval();
    return graph::trace(*net.module, zeros(net.input));
  }

  std::string model_, net_, format_ = "text", passes_ = "none", out_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_graph() { return std::make_unique<GraphVerb>(); }

}  // namespace tern::tool
