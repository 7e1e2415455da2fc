#include "tern/graph/graph.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/batch_text.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/observer.hpp"

namespace tern::graph {

namespace {

/// Part of a module's path, with the parameters that have its name.
class Holder final : public nn::Module {
 public:
  Tensor forward(const Tensor&) const override { throw Error("graph: a part of a graph cannot run alone"); }
  std::string describe() const override { return "Part"; }

  /// Keeps whether it takes a gradient, which a parameter is made to.
  void hold(const std::string& name, const Value& value) {
    const std::size_t dot = name.find('.');
    if (dot != std::string::npos) return part(name.substr(0, dot)).hold(name.substr(dot + 1), value);
    if (value.kind == Kind::buffer) {
      buffer(name, value.tensor);
      return;
    }
    Tensor tensor = value.tensor;
    const bool trained = tensor.requires_grad();
    parameter(name, tensor);
    if (!trained) tensor.set_requires_grad(false);
  }

 private:
  Holder& part(const std::string& name) {
    for (const auto& [known, holder] : parts_)
      if (known == name) return *holder;
    const auto holder = std::make_shared<Holder>();
    add_child(name, holder);
    parts_.emplace_back(name, holder);
    return *holder;
  }
  std::vector<std::pair<std::string, std::shared_ptr<Holder>>> parts_;
};

/// Which node runs, for the messages of errors.
class InNode final : public Whereabouts {
 public:
  InNode(const Structure& structure, const Node& node) : structure_(structure), node_(node) {}
  std::string describe() const override {
    const std::string value = node_.results.empty() ? "" : structure_.values[node_.results[0]].name + " = ";
    return message("graph ", structure_.name, ", ", value, node_.op->name(),
                   node_.module.empty() ? "" : " of " + node_.module);
  }

 private:
  const Structure& structure_;
  const Node& node_;
};

void check(const Structure& structure) {
  std::vector<bool> made(structure.values.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < structure.values.size(); ++i) {
    const Value& value = structure.values[i];
    expects<GraphError>(names.insert(value.name).second, "graph: two values are named '", value.name, "'");
    made[i] = value.kind != Kind::result;
    const bool holds = value.kind == Kind::parameter || value.kind == Kind::buffer || value.kind == Kind::constant;
    expects<GraphError>(!holds || value.tensor.defined(), "graph: '", value.name, "' has no tensor");
  }
  const auto known = [&](int id) { return id >= 0 && static_cast<std::size_t>(id) < made.size(); };
  for (const Node& node : structure.nodes) {
    expects<GraphError>(node.op != nullptr, "graph: a node has no operator");
    for (const int id : node.inputs)
      expects<GraphError>(id == -1 || (known(id) && made[id]), "graph: ", node.op->name(),
                          " reads a value that nothing before it makes");
    for (const int id : node.results) {
      expects<GraphError>(known(id) && !made[id], "graph: ", node.op->name(), " makes a value that is there already");
      made[id] = true;
    }
  }
  for (const int id : structure.inputs)
    expects<GraphError>(known(id) && structure.values[id].kind == Kind::input, "graph: an input is none");
  for (const int id : structure.results)
    expects<GraphError>(known(id) && made[id], "graph: a result of the graph is never made");
}

}  // namespace

Shape Value::shape_at(std::int64_t n) const {
  Shape sizes;
  for (const Linear& size : shape) sizes.push_back(size.at(n));
  return sizes;
}

std::vector<int> Structure::uses() const {
  std::vector<int> count(values.size());
  for (const Node& node : nodes)
    for (const int id : node.inputs)
      if (id >= 0) ++count[id];
  for (const int id : results) ++count[id];
  return count;
}

int Structure::add(Value value) {
  const auto taken = [&](const std::string& wanted) {
    return std::ranges::any_of(values, [&](const Value& other) { return other.name == wanted; });
  };
  const std::string own = value.name;
  for (int i = 2; taken(value.name); ++i) value.name = message(own, "_", i);
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

operators::Attributes Structure::attributes_at(const Node& node, std::int64_t n) const {
  return node.by_batch.empty() || n == batch ? node.attributes : node.op->read(text_at(node.by_batch, n));
}

Graph::Graph(Structure structure) : body_(std::make_shared<Body>()) {
  check(structure);
  body_->structure = std::move(structure);
  const Structure& own = body_->structure;
  // What is read last by a node is needed no longer behind it.
  std::vector<int> last(own.values.size(), -1);
  for (std::size_t i = 0; i < own.nodes.size(); ++i) {
    for (const int id : own.nodes[i].inputs)
      if (id >= 0) last[id] = static_cast<int>(i);
    for (const int id : own.nodes[i].results) last[id] = static_cast<int>(i);
  }
  for (const int id : own.results) last[id] = -1;
  body_->dies.resize(own.nodes.size());
  for (std::size_t id = 0; id < last.size(); ++id)
    if (last[id] >= 0) body_->dies[last[id]].push_back(static_cast<int>(id));

  std::vector<std::pair<std::string, std::shared_ptr<Holder>>> parts;
  for (const Value& value : own.values) {
    if (value.kind != Kind::parameter && value.kind != Kind::buffer) continue;
    const std::size_t dot = value.name.find('.');
    if (dot == std::string::npos && value.kind == Kind::buffer) {
      buffer(value.name, value.tensor);
    } else if (dot == std::string::npos) {
      Tensor tensor = value.tensor;
      const bool trained = tensor.requires_grad();
      parameter(value.name, tensor);
      if (!trained) tensor.set_requires_grad(false);
    } else {
      const std::string first = value.name.substr(0, dot);
      auto part = std::ranges::find(parts, first, [](const auto& each) { return each.first; });
      if (part == parts.end()) part = parts.insert(parts.end(), {first, std::make_shared<Holder>()});
      part->second->hold(value.name.substr(dot + 1), value);
    }
  }
  for (auto& [name, part] : parts) add_child(name, std::move(part));
}

std::int64_t Graph::batch_of(const std::vector<Tensor>& inputs) const {
  const Structure& own = structure();
  expects(inputs.size() == own.inputs.size(), "graph ", own.name, ": ", inputs.size(), " inputs, expected ",
          own.inputs.size());
  std::int64_t n = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = own.values[own.inputs[i]];
    const Tensor& x = inputs[i];
    expects(x.defined(), "graph ", own.name, ": input ", value.name, " is undefined");
    expects<DTypeError>(x.dtype() == value.dtype, "graph ", own.name, ": input ", value.name, " is ", x.dtype(),
                        ", expected ", value.dtype);
    const bool fits = x.rank() == static_cast<int>(value.shape.size());
    for (int d = 0; fits && d < x.rank(); ++d)
      if (const Linear size = value.shape[d]; size.each != 0 && n < 0) n = (x.shape()[d] - size.fixed) / size.each;
    if (fits && x.shape() == value.shape_at(std::max<std::int64_t>(n, 0))) continue;
    std::string advice;
    if (own.batch == 0)
      advice = message("; all sizes of this graph are fixed", own.fixed_by.empty() ? "" : ", since " + own.fixed_by,
                       ". Trace it with an example of the batch that you need, or load it with that shape");
    throw ShapeError(message("graph ", own.name, ": input ", value.name, " has shape ", x.shape(), ", expected ",
                             written_shape(value.shape), advice));
  }
  expects<ShapeError>(n < 0 || n >= own.least, "graph ", own.name, ": input ", own.values[own.inputs[0]].name,
                      " has no examples, and without them the program does other work; it takes ", own.least,
                      " or more");
  return std::max<std::int64_t>(n, 0);
}

operators::Attributes Graph::attributes_at(std::size_t i, std::int64_t n) const {
  const Structure& own = structure();
  const Node& node = own.nodes[i];
  if (node.by_batch.empty() || n == own.batch) return node.attributes;
  const std::lock_guard lock(body_->mutex);
  constexpr std::size_t most = 4096;
  if (body_->attributes.size() >= most) body_->attributes.clear();
  const auto [entry, fresh] = body_->attributes.try_emplace({i, n});
  if (fresh) entry->second = own.attributes_at(node, n);
  return entry->second;
}

std::vector<Tensor> Graph::run(const std::vector<Tensor>& inputs) const {
  const Structure& own = structure();
  const std::int64_t n = batch_of(inputs);
  std::vector<Tensor> values(own.values.size());
  for (std::size_t id = 0; id < values.size(); ++id) values[id] = own.values[id].tensor;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[own.inputs[i]] = inputs[i];
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < own.nodes.size(); ++i) {
    const Node& node = own.nodes[i];
    const InNode here(own, node);
    arguments.clear();
    for (const int id : node.inputs) arguments.push_back(id < 0 ? Tensor{} : values[id]);
    std::vector<Tensor> results = node.op->run(arguments, attributes_at(i, n));
    expects<GraphError>(results.size() == node.results.size(), here.describe(), " has ", results.size(),
                        " results, expected ", node.results.size());
    for (std::size_t k = 0; k < results.size(); ++k) values[node.results[k]] = std::move(results[k]);
    results.clear();
    arguments.clear();
    for (const int id : body_->dies[i])
      if (own.values[id].kind == Kind::result || own.values[id].kind == Kind::input) values[id] = Tensor{};
  }
  std::vector<Tensor> results;
  for (const int id : own.results) results.push_back(values[id]);
  return results;
}

Tensor Graph::forward(const Tensor& x) const {
  expects(structure().inputs.size() == 1 && structure().results.size() == 1, "graph ", structure().name, ": ",
          structure().inputs.size(), " inputs and ", structure().results.size(),
          " results; run() takes and returns several");
  return run({x})[0];
}

std::string Graph::describe() const {
  return message("Graph(", structure().name, ", ", structure().nodes.size(), " nodes)");
}

std::string Graph::text() const { return to_text(structure()); }

}  // namespace tern::graph
