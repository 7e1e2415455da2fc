// Backward: from a root to its leaves.

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include "autograd/gradient_sum.hpp"
#include "autograd/node.hpp"
#include "modes/aside.hpp"
#include "modes/observed.hpp"

namespace tern::autograd {

namespace {

void check_gradient(const Node& node, const Edge& edge, const Tensor& gradient) {
  expects<AutogradError>(gradient.shape() == edge.shape && gradient.dtype() == edge.dtype, "backward of ", node.name,
                         ": a gradient of ", gradient.dtype(), " ", gradient.shape(), " for an input of ", edge.dtype,
                         " ", edge.shape);
}

// Copies a gradient that is shared (with another input, the caller, or a saved tensor), repeats its elements or has
// another order. A leaf's gradient is then its own and readable.
void add_to_leaf(const Tensor& leaf, Tensor gradient) {
  const Tensor& known = leaf.grad();
  const Aside aside(WorkAside::writes(gradient) || WorkAside::writes(known));
  if (known.defined()) gradient = sum_of({known, gradient});
  if (!Handle::fits_leaf(gradient, leaf)) gradient = gradient.clone();
  Marks::arrived(gradient);
  Tensor(leaf).set_grad(std::move(gradient));
}

Tensor nothing(const Shape& shape, DType dtype) {
  Tensor zero(shape, dtype);
  zero.fill_(0);
  return zero;
}

/// The gradient that slices add to, and whether this slice is the first.
struct Whole {
  const Tensor& gradient;
  bool first;
};

void add_part(const Whole& whole, const Part& part, const Tensor& gradient) {
  if (gradient.numel() == 0) return;
  Tensor to(whole.gradient.shared_storage(), whole.gradient.dtype(), part.shape, part.strides, part.offset);
  if (whole.first)
    to.copy_(gradient);
  else
    add_to(to, gradient);
}

/// Counts the gradients that each leaf still waits for, to report when a leaf has all of them.
class Completion {
 public:
  Completion(Node& root, const std::function<void(const Tensor&)>& callback) : callback_(callback) {
    if (!callback_) return;
    nodes_[&root] = {0, true};
    std::vector<Node*> pending{&root};
    while (!pending.empty()) {
      Node* const node = pending.back();
      pending.pop_back();
      for (const Edge& edge : node->edges) {
        if (edge.leaf.defined()) ++left_[edge.leaf.body()];
        if (edge.node && nodes_[edge.node.get()].left++ == 0) pending.push_back(edge.node.get());
      }
    }
  }

  /// The edge was visited, with or without a gradient. A node that no gradient reaches does not run, so nothing behind
  /// it waits for it.
  void passed(const Edge& edge, bool with_gradient) {
    if (!callback_) return;
    std::vector<const Edge*> pending{&edge};
    while (!pending.empty()) {
      const Edge& last = *pending.back();
      pending.pop_back();
      if (last.leaf.defined() && --left_[last.leaf.body()] == 0 && last.leaf.grad().defined()) callback_(last.leaf);
      if (!last.node) continue;
      Progress& progress = nodes_[last.node.get()];
      progress.runs = progress.runs || with_gradient;
      if (--progress.left > 0 || progress.runs) continue;
      for (const Edge& behind : last.node->edges) pending.push_back(&behind);
    }
  }

 private:
  struct Progress {
    std::int64_t left = 0;  // edges to the node that are left
    bool runs = false;
  };
  const std::function<void(const Tensor&)>& callback_;
  std::unordered_map<const Tensor::Body*, std::int64_t> left_;
  std::unordered_map<const Node*, Progress> nodes_;
};

struct BackwardOf final : Whereabouts {
  explicit BackwardOf(const Node& of) : node(of) {}
  std::string describe() const override { return node.where; }
  const Node& node;
};

struct Later {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const { return a->order < b->order; }
};

/// One backward. Nodes run in reverse order of creation, so every gradient is complete before it is passed on, and is
/// summed in the same order each time.
class Run {
 public:
  Run(const Tensor& root, const BackwardOptions& options)
      : options_(options), completion_(*Handle::node(root), options.complete) {}

  void from(const std::shared_ptr<Node>& root, Tensor gradient) {
    arrived_at(root).gradients.push_back(std::move(gradient));
    while (!pending_.empty()) {
      const std::shared_ptr<Node> node = pending_.top();
      pending_.pop();
      const auto found = arrived_.find(node.get());
      Arrived arrived = std::move(found->second);
      arrived_.erase(found);
      run(*node, std::move(arrived));
    }
  }

 private:
  /// The gradients that have reached a node before it runs.
  struct Arrived {
    Gradients gradients = {};               // summed in one pass once the last one is there
    std::optional<std::size_t> whole = {};  // the one that slices add to as they come: float32 for 16 bits
    DType dtype = DType::float32;           // of the slices
    Gradients of_outputs = {};              // for a node with several results
  };

  Arrived& arrived_at(const std::shared_ptr<Node>& node) {
    const auto [place, fresh] = arrived_.try_emplace(node.get());
    if (fresh) pending_.push(node);
    return place->second;
  }

  void run(Node& node, Arrived arrived) {
    expects<AutogradError>(
        !node.used, "backward: the graph behind ", node.name,
        " was already used by another backward; run the forward pass again, or pass {.retain_graph = true}");
    std::optional<Device> place;
    if (!node.scope.same_settings(current_scope())) place.emplace(node.scope);
    std::optional<BackwardOf> where;
    if (node.scope.observer != nullptr) [[unlikely]]
      where.emplace(node);
    const Aside aside(comes_from_aside(arrived));
    if (node.backward_of_all) {  // kept: another backward may use the other results
      pass(node, node.edges[0], node.backward_of_all(arrived.of_outputs));
      return;
    }
    Tensor gradient = sum(std::move(arrived));
    if (node.part) {
      pass_part(*node.part, node.edges[0], gradient);
    } else {
      Gradients gradients = node.backward(gradient);
      gradient = {};
      expects<AutogradError>(gradients.size() == node.edges.size(), "backward of ", node.name, ": ", gradients.size(),
                             " gradients for ", node.edges.size(), " inputs");
      for (std::size_t i = 0; i < node.edges.size(); ++i) pass(node, node.edges[i], std::move(gradients[i]));
    }
    if (options_.retain_graph) return;
    node.used = true;
    node.backward = nullptr;  // frees what the operator saved
  }

  // What follows from work aside goes aside, too.
  static bool comes_from_aside(const Arrived& arrived) {
    return std::ranges::any_of(arrived.gradients, WorkAside::writes) ||
           std::ranges::any_of(arrived.of_outputs, WorkAside::writes);
  }

  static Tensor sum(Arrived arrived) {
    Gradients& all = arrived.gradients;
    if (arrived.whole) all[*arrived.whole] = all[*arrived.whole].to(arrived.dtype);
    return all.size() == 1 ? std::move(all[0]) : sum_of(all);
  }

  void pass(const Node& node, const Edge& edge, Tensor gradient) {
    const bool goes_on = edge.defined() && gradient.defined();
    if (goes_on) {
      check_gradient(node, edge, gradient);
      if (edge.leaf.defined())
        add_to_leaf(edge.leaf, std::move(gradient));
      else if (Arrived& arrived = arrived_at(edge.node); edge.output < 0)
        arrived.gradients.push_back(std::move(gradient));
      else
        output_of(arrived, edge) = std::move(gradient);
    }
    completion_.passed(edge, goes_on);
  }

  static Tensor& output_of(Arrived& arrived, const Edge& edge) {
    arrived.of_outputs.resize(edge.node->outputs);
    return arrived.of_outputs[static_cast<std::size_t>(edge.output)];
  }

  void pass_part(const Part& part, const Edge& edge, const Tensor& gradient) {
    if (edge.defined()) add_part(edge.leaf.defined() ? whole_of(edge.leaf) : whole_at(edge), part, gradient);
    completion_.passed(edge, edge.defined());
  }

  // Slices of a leaf add in place to the gradient that this backward made, as long as no other handle exists.
  Whole whole_of(const Tensor& leaf) {
    Tensor& whole = of_leaves_[leaf.body()];
    const Tensor& known = leaf.grad();
    if (known.defined() && known.is(whole) && whole.handles() == 2) return {whole, false};
    const bool first = !known.defined();
    whole = first ? nothing(leaf.shape(), leaf.dtype()) : known.clone();
    Tensor(leaf).set_grad(whole);
    return {whole, first};
  }

  Whole whole_at(const Edge& edge) {
    Arrived& arrived = arrived_at(edge.node);
    if (arrived.whole) return {arrived.gradients[*arrived.whole], false};
    arrived.whole = arrived.gradients.size();
    arrived.dtype = edge.dtype;
    return {arrived.gradients.emplace_back(nothing(edge.shape, scalar_of(edge.dtype))), true};
  }

  const BackwardOptions& options_;
  Completion completion_;
  std::unordered_map<Node*, Arrived> arrived_;
  std::unordered_map<const Tensor::Body*, Tensor> of_leaves_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> pending_;
};

}  // namespace

void run(const Tensor& root, Tensor root_gradient, const BackwardOptions& options) {
  const NoGrad no_grad;
  const RunningBackward running;
  const WorkAside aside(options.complete != nullptr);
  if (root.is_leaf()) {
    add_to_leaf(root, std::move(root_gradient));
    if (options.complete) options.complete(root);
    return;
  }
  Run(root, options).from(Handle::node(root), std::move(root_gradient));
}

}  // namespace tern::autograd
