#include "tern/graph/trace.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "graph/batch_text.hpp"
#include "memory/no_memory.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/observer.hpp"
#include "tern/operators/shape.hpp"

namespace tern::graph {

namespace {

/// Which tensor a handle is: two views of the same elements in the same way are one value.
using Identity = std::tuple<const Storage*, std::int64_t, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;

Identity identity_of(const Tensor& x) {
  return {x.shared_storage().get(),
          x.offset(),
          x.dtype(),
          {x.shape().begin(), x.shape().end()},
          {x.strides().begin(), x.strides().end()}};
}

struct Named {
  std::string name;
  Kind kind;
};

/// How a program is traced.
struct TraceRun {
  const std::vector<std::string>& names;  ///< of the inputs
  const std::map<Identity, Named>& state;
  bool runs = false;  ///< whether operators are run, because something reads results, or else inferred
};

/// Makes a graph of the operators that it hears, and refuses what it cannot see: elements that the host reads or
/// writes.
class Tracer final : public operators::OpListener, public Observer {
 public:
  Tracer(std::string name, const std::vector<Tensor>& inputs, const TraceRun& run)
      : state_(run.state), runs_(run.runs) {
    structure_.name = std::move(name);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string usual = inputs.size() == 1 ? "x" : message("x", i);
      structure_.inputs.push_back(
          add({.name = i < run.names.size() ? run.names[i] : usual, .kind = Kind::input}, inputs[i]));
      follow(inputs[i]);
    }
    begin();
  }
  ~Tracer() override { end(); }

  bool runs() const override { return runs_; }

  void called(const operators::OpCall& call) override {
    Node node{.op = &call.op, .attributes = call.attributes, .inputs = {}, .results = {}};
    for (const Tensor& input : call.inputs) node.inputs.push_back(input.defined() ? value_of(input, call.op) : -1);
    // Undefined inputs at the end are as good as none.
    while (!node.inputs.empty() && node.inputs.back() == -1) node.inputs.pop_back();
    const bool same = call.results.size() == 1 && values_.contains(identity_of(call.results[0]));
    if (same) return;  // hands its input on
    node.module = module_path();
    for (const Tensor& result : call.results) {
      node.results.push_back(add({.name = message('%', made_++)}, result));
      follow(result);
    }
    structure_.nodes.push_back(std::move(node));
  }

  void uses(Storage& storage, Memory&, bool reads, bool writes) override {
    if (!operators::listened() || !followed_.contains(&storage))
      return;  // an operator that is on the list, or not ours
    throw GraphError(message("graph: ", place(), reads && !writes ? "reads" : "writes",
                             " elements of a tensor that the program computes; a graph has no values to decide by. Use "
                             "operators instead of item(), values(), fill_() or copy_()"));
  }

  void draws(Generator&) override {
    if (!operators::listened()) return;  // the operator draws in each call of the graph
    throw GraphError(message("graph: ", place(),
                             "draws random numbers outside of operators, which the graph would hold "
                             "as constants. Use dropout or multinomial, or give them as an input"));
  }

  Structure finish(const std::vector<Tensor>& results) {
    end();
    for (const Tensor& result : results) {
      expects<GraphError>(result.defined(), "graph: a result of the program is undefined");
      structure_.results.push_back(value_of(result, operators::op("copy")));
    }
    return std::move(structure_);
  }

 private:
  static std::string place() {
    const std::string where = whereabouts();
    return where.empty() ? "the program " : where + " ";
  }

  /// "features.3"; empty in the module that the program called.
  static std::string module_path() {
    const std::string where = whereabouts();
    const std::string path = where.substr(0, where.find(", "));
    return path.find('(') == std::string::npos && path.size() < where.size() ? path : "";
  }

  void follow(const Tensor& x) {
    followed_.insert(x.shared_storage().get());
    alive_.push_back(x);
  }

  int value_of(const Tensor& x, const operators::Op& op) {
    const Identity identity = identity_of(x);
    if (const auto known = values_.find(identity); known != values_.end()) return known->second;
    expects<GraphError>(!followed_.contains(x.shared_storage().get()), "graph: ", place(), "hands ", op.name(),
                        " a tensor that no operator of the list made");
    alive_.push_back(x);
    Value value{.name = message("c", constants_), .kind = Kind::constant, .tensor = x.detach()};
    if (const auto found = state_.find(identity); found != state_.end()) {
      value.name = found->second.name;
      value.kind = found->second.kind;
      value.tensor = x;
    } else if (x.requires_grad() && x.is_leaf()) {
      value.name = message("p", parameters_++);
      value.kind = Kind::parameter;
      value.tensor = x;
    } else {
      ++constants_;
    }
    return add(std::move(value), x);
  }

  int add(Value value, const Tensor& x) {
    value.dtype = x.dtype();
    for (const std::int64_t size : x.shape()) value.shape.push_back({size, 0});
    const int id = structure_.add(std::move(value));
    values_.emplace(identity_of(x), id);
    return id;
  }

  Structure structure_;
  const std::map<Identity, Named>& state_;
  bool runs_;
  std::map<Identity, int> values_;
  std::set<const Storage*> followed_;
  std::vector<Tensor> alive_;  // so that no address comes twice
  int made_ = 0, constants_ = 0, parameters_ = 0;
};

/// Whether two constants of one dtype and shape have the same bytes.
bool same_constant(const Tensor& a, const Tensor& b) {
  if (a.shared_storage() == b.shared_storage()) return true;
  const operators::Listening nobody(nullptr);
  const Tensor own = a.detach().contiguous(), other = b.detach().contiguous();
  return with_type_of(own.dtype(), [&]<class T>(T) {
    const std::span<const T> left = own.read<T>(), right = other.read<T>();
    return left.size() == right.size() &&
           (left.empty() || std::memcmp(left.data(), right.data(), left.size_bytes()) == 0);
  });
}

/// Writes the batch into the shapes and attributes of `a`: `b` is the same program at another batch.
void join(Structure& a, const Structure& b, std::int64_t n, std::int64_t m) {
  expects<GraphError>(a.nodes.size() == b.nodes.size() && a.values.size() == b.values.size() && a.results == b.results,
                      "graph: the program does other work for another batch");
  std::vector<std::vector<Linear>> shapes;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const Value &own = a.values[i], &other = b.values[i];
    expects<GraphError>(own.kind == other.kind && own.dtype == other.dtype && own.shape.size() == other.shape.size(),
                        "graph: the program does other work for another batch");
    std::vector<Linear> shape;
    for (std::size_t d = 0; d < own.shape.size(); ++d)
      shape.push_back(joined_number(own.shape[d].fixed, n, other.shape[d].fixed, m));
    expects<GraphError>(!own.tensor.defined() || own.shape == other.shape, "graph: a constant has the batch's size");
    expects<GraphError>(!own.tensor.defined() || same_constant(own.tensor, other.tensor),
                        "graph: a constant depends on the batch");
    shapes.push_back(std::move(shape));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &own = a.nodes[i], &other = b.nodes[i];
    expects<GraphError>(own.op == other.op && own.inputs == other.inputs && own.results == other.results,
                        "graph: the program does other work for another batch");
    const std::string text = own.op->write(own.attributes), changed = other.op->write(other.attributes);
    texts.push_back(text == changed ? "" : joined_text(text, n, changed, m));
  }
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i].shape = std::move(shapes[i]);
  for (std::size_t i = 0; i < a.nodes.size(); ++i) a.nodes[i].by_batch = std::move(texts[i]);
  a.batch = n;
}

/// Throws unless `whole`, whose sizes follow the batch, is at batch m what was traced there: any two numbers lie on a
/// line, also a half that is rounded down, a remainder and a square.
void check_at(const Structure& whole, const Structure& other, std::int64_t m) {
  const auto need = [&](bool same) {
    expects<GraphError>(same, "graph: sizes at a batch of ", m, " are not on the line of the first two");
  };
  need(whole.nodes.size() == other.nodes.size() && whole.values.size() == other.values.size() &&
       whole.results == other.results);
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    const Value &own = whole.values[i], &there = other.values[i];
    need(own.kind == there.kind && own.shape.size() == there.shape.size() && own.shape_at(m) == there.shape_at(m));
    need(own.tensor.defined() == there.tensor.defined());
    need(!own.tensor.defined() || same_constant(own.tensor, there.tensor));
  }
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    const Node &own = whole.nodes[i], &there = other.nodes[i];
    need(own.op == there.op && own.inputs == there.inputs && own.results == there.results);
    const std::string text = own.by_batch.empty() ? own.op->write(own.attributes) : text_at(own.by_batch, m);
    need(text == there.op->write(there.attributes));
  }
}

/// The same at one example. There operators may vanish, such as an expand to what is there already, or become a copy;
/// of such a program the results are compared alone.
void check_at_one(const Structure& whole, const Structure& other) {
  bool vanished = whole.nodes.size() != other.nodes.size();
  for (std::size_t i = 0; !vanished && i < whole.nodes.size(); ++i)
    vanished = whole.nodes[i].op != other.nodes[i].op && other.nodes[i].op->name() == "copy";
  if (!vanished) return check_at(whole, other, 1);
  for (std::size_t i = 0; i < whole.results.size(); ++i)
    expects<GraphError>(whole.values[whole.results[i]].shape_at(1) == other.values[other.results[i]].shape_at(1),
                        "graph: another result at a batch of 1");
}

Structure trace_once(const std::string& name, const Function& function, const std::vector<Tensor>& examples,
                     const TraceRun& run) {
  const NoGrad no_grad;
  Tracer tracer(name, examples, run);
  const operators::Listening listening(&tracer);
  return tracer.finish(function(examples));
}

/// Examples with other numbers of rows: their elements do not matter.
std::vector<Tensor> with_rows(const std::vector<Tensor>& examples, std::int64_t rows, bool runs) {
  std::vector<Tensor> others;
  for (const Tensor& example : examples) {
    Shape shape = example.shape();
    shape[0] = rows;
    if (runs && rows < example.size(0)) {
      others.push_back(example.slice(0, 0, rows).clone());
    } else if (runs) {
      shape[0] -= example.size(0);
      others.push_back(operators::cat({example, operators::expand(example.slice(0, 0, 1), shape)}));
    } else {
      others.emplace_back(shape, example.dtype());
    }
  }
  return others;
}

/// Other batches at which the sizes must be where the first two say: near, and, where nothing is computed, far away;
/// and below, where a size may have reached its limit.
std::vector<std::int64_t> further(std::int64_t n, bool runs) {
  std::vector<std::int64_t> batches{n + 11};
  if (!runs) batches.push_back(n + 1021);
  if (n > 2) batches.push_back(2);
  if (n > 1) batches.push_back(1);
  return batches;
}

Structure traced(const std::string& name, const Function& function, const std::vector<Tensor>& examples, bool batch,
                 const TraceRun& run) {
  Structure structure = trace_once(name, function, examples, run);
  const auto follows = [&](const Tensor& x) { return x.rank() > 0 && x.size(0) == examples[0].size(0); };
  if (!batch || examples.empty() || examples[0].numel() == 0 || !std::ranges::all_of(examples, follows))
    return structure;
  const auto at = [&](std::int64_t rows) {
    return trace_once(name, function, with_rows(examples, rows, run.runs), run);
  };
  const std::int64_t n = examples[0].size(0);
  Structure whole = structure;
  try {
    join(whole, at(n + 1), n, n + 1);
  } catch (const GraphError&) {  // all sizes stay fixed
    return structure;
  } catch (const ShapeError&) {  // the program takes this batch alone
    return structure;
  }
  for (const std::int64_t rows : further(n, run.runs)) {
    std::optional<Structure> other;
    try {
      other = at(rows);
    } catch (const Error&) {  // not for the program, which will say so
      continue;
    }
    try {
      rows == 1 ? check_at_one(whole, *other) : check_at(whole, *other, rows);
    } catch (const GraphError&) {
      return structure;
    }
  }
  return whole;
}

/// Without running its operators, unless an operator needs the elements of a result: of a matrix to invert, of a mask
/// whose places are counted.
Graph traced(const std::string& name, const Function& function, const std::vector<Tensor>& given,
             const TraceOptions& options, const std::map<Identity, Named>& state) {
  std::vector<Tensor> examples;
  for (const Tensor& example : given) {
    expects<GraphError>(example.defined(), "graph: an example is undefined");
    // With elements of its own each is distinguished from the others, and from what the program holds.
    const operators::Listening nobody(nullptr);
    examples.push_back(example.detach().clone());
  }
  try {
    return Graph(traced(name, function, examples, options.batch, {options.inputs, state, false}));
  } catch (const NoElements&) {
    return Graph(traced(name, function, examples, options.batch, {options.inputs, state, true}));
  }
}

/// What a forward in training changes, put back at the end.
class Restored {
 public:
  explicit Restored(const nn::Module& module) {
    const NoGrad no_grad;
    for (const nn::NamedTensor& named : module.named_buffers())
      kept_.emplace_back(named.tensor, named.tensor.detach().clone());
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() {
    const NoGrad no_grad;
    try {
      for (auto& [tensor, before] : kept_) tensor.copy_(before);
    } catch (const std::exception&) {  // the error that is on its way says more
    }
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;
};

}  // namespace

Graph trace(const nn::Module& module, const std::vector<Tensor>& examples, const TraceOptions& options) {
  expects<GraphError>(examples.size() == 1, "graph: a module takes one input; trace a function that calls it with ",
                      examples.size());
  std::map<Identity, Named> state;
  for (const auto& [name, tensor] : module.named_parameters())
    state.emplace(identity_of(tensor), Named{name, Kind::parameter});
  for (const auto& [name, tensor] : module.named_buffers())
    state.emplace(identity_of(tensor), Named{name, Kind::buffer});
  const Restored restored(module);
  const std::string whole = module.describe();
  return traced(
      whole.substr(0, whole.find('(')), [&](const std::vector<Tensor>& x) { return std::vector{module(x[0])}; },
      examples, options, state);
}

Graph trace(const nn::Module& module, const Tensor& example, const TraceOptions& options) {
  return trace(module, std::vector{example}, options);
}

Graph trace(const Function& function, const std::vector<Tensor>& examples, const TraceOptions& options) {
  return traced("function", function, examples, options, {});
}

}  // namespace tern::graph
