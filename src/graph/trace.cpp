#include "tern/graph/trace.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <tuple>

#include "graph/batches.hpp"
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
    const auto known = call.results.size() == 1 ? values_.find(identity_of(call.results[0])) : values_.end();
    const bool same = known != values_.end() && std::ranges::find(node.inputs, known->second) != node.inputs.end();
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
    // Of two views that are alike the later one: each adds its own gradient.
    values_.insert_or_assign(identity_of(x), id);
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

/// A program that is traced at several batches.
class Batches {
 public:
  Batches(const std::string& name, const Function& function, const std::vector<Tensor>& examples, const TraceRun& run)
      : name_(name), function_(function), examples_(examples), run_(run), n_(examples[0].size(0)) {}

  /// The graph for any batch; where the program is none, `once` with the reason.
  Structure joined(const Structure& once) const {
    Structure fixed = once;
    const auto keep = [&](std::string reason) {
      if (reason.starts_with("graph: ")) reason = reason.substr(sizeof("graph:"));
      if (fixed.fixed_by.empty()) fixed.fixed_by = std::move(reason);
    };
    // An operator may hand on its input for the example alone: an expand to one row, or a slice of as many as there
    // are. The next two batches then say what there is to do.
    for (const bool next : {false, true}) {
      try {
        Structure whole = next ? at(n_ + 1) : once;
        const std::int64_t n = next ? n_ + 1 : n_;
        join(whole, at(n + 1), n, n + 1);
        const std::string reason = check(whole, next);
        if (reason.empty()) {
          if (!difference(whole, 0).empty()) whole.least = 1;
          return example_of(std::move(whole));
        }
        keep(reason);
      } catch (const GraphError& error) {
        keep(error.what());
      } catch (const ShapeError& error) {
        keep(error.what());
      }
    }
    return fixed;
  }

 private:
  Structure at(std::int64_t rows) const {
    return rows == n_ ? trace_once(name_, function_, examples_, run_)
                      : trace_once(name_, function_, with_rows(examples_, rows, run_.runs), run_);
  }

  /// Other batches at which the graph has to do what the program does: any two sizes lie on a line, also a half that is
  /// rounded down, a remainder and a square. Near, and, where nothing is computed, far away; and below, where a size
  /// may have reached its limit.
  std::string check(const Structure& whole, bool next) const {
    std::vector<std::int64_t> batches{n_ + 11};
    if (!run_.runs) batches.insert(batches.end(), {n_ + 1021, n_ + 1'000'003});
    for (const std::int64_t few : {3, 2, 1})
      if (few < n_) batches.push_back(few);
    if (next) batches.push_back(n_);
    for (const std::int64_t rows : batches)
      if (const std::string reason = difference(whole, rows); !reason.empty())
        return message("at a batch of ", rows, ' ', reason);
    return "";
  }

  std::string difference(const Structure& whole, std::int64_t rows) const {
    const auto traced = [&](const auto& trace) -> std::optional<Structure> {
      try {
        return trace();
      } catch (const NoElements&) {
        throw;
      } catch (const Error&) {
        return {};
      } catch (const std::bad_alloc&) {
        return {};
      }
    };
    const auto program = traced([&] { return at(rows); });
    const bool may_throw = rows > n_ + 1000;  // for want of memory
    if (program ? difference_at(whole, *program, rows).empty() : may_throw) return "";
    // Operators may vanish there, in the program and in the graph.
    const Graph graph(whole);
    const auto run = [&](const std::vector<Tensor>& x) { return graph.run(x); };
    const auto own = traced([&] { return trace_once(name_, run, with_rows(examples_, rows, run_.runs), run_); });
    if (!program) return own ? "the program throws, and the graph does not" : "";
    return own ? difference_of_work(*own, *program) : "the graph throws, and the program does not";
  }

  /// The same graph with the example's batch as its own.
  Structure example_of(Structure whole) const {
    for (Node& node : whole.nodes) node.attributes = whole.attributes_at(node, n_);
    whole.batch = n_;
    return whole;
  }

  const std::string& name_;
  const Function& function_;
  const std::vector<Tensor>& examples_;
  const TraceRun& run_;
  std::int64_t n_;
};

/// Throws where the program decides by sizes that follow from elements, as those of `nonzero`: with other elements it
/// then does other work.
void check_elements(const Structure& once, const std::string& name, const Function& function,
                    const std::vector<Tensor>& examples, const TraceRun& run) {
  using Change = std::function<Tensor(const Tensor&)>;
  const Change changes[]{[](const Tensor& x) { return zeros(x.shape(), x.dtype()); },
                         [](const Tensor& x) { return ones(x.shape(), x.dtype()); },
                         [](const Tensor& x) { return x.rank() > 0 ? operators::flip(x, {0}) : x.clone(); },
                         [](const Tensor& x) {
                           const bool several = x.rank() > 0 && x.size(0) > 0;
                           return several ? operators::copy(operators::expand(x.slice(0, 0, 1), x.shape())) : x.clone();
                         }};
  for (const Change& change : changes) {
    std::optional<Structure> other;
    try {
      std::vector<Tensor> others;
      for (const Tensor& example : examples) others.push_back(change(example));
      other = trace_once(name, function, others, run);
    } catch (const Error&) {  // no elements for this program
      continue;
    }
    const std::string reason = difference_of_work(once, *other, false);
    expects<GraphError>(reason.empty(), "graph: with other elements ", reason,
                        "; sizes that follow from elements, as those of nonzero, are none to decide by");
  }
}

Structure traced(const std::string& name, const Function& function, const std::vector<Tensor>& examples, bool batch,
                 const TraceRun& run) {
  const Structure once = trace_once(name, function, examples, run);
  if (run.runs) check_elements(once, name, function, examples, run);
  const auto follows = [&](const Tensor& x) { return x.rank() > 0 && x.size(0) == examples[0].size(0); };
  if (!batch || examples.empty() || examples[0].numel() == 0 || !std::ranges::all_of(examples, follows)) return once;
  return Batches(name, function, examples, run).joined(once);
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
