#include "tern/autograd/tape.hpp"

#include <atomic>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd/gradient_sum.hpp"
#include "modes/observed.hpp"
#include "tern/tensor/create.hpp"

namespace tern {

namespace {
thread_local bool recording_enabled = true;
}

NoGrad::NoGrad() : outer_(recording_enabled) { recording_enabled = false; }
NoGrad::~NoGrad() { recording_enabled = outer_; }

namespace autograd {

bool enabled() { return recording_enabled; }

bool recording(const std::vector<Tensor>& inputs) {
  if (!enabled()) return false;
  for (const Tensor& input : inputs)
    if (input.requires_grad()) return true;
  return false;
}

Saved::Saved(const Tensor& tensor)
    : tensor_(tensor.detach()), version_(tensor.defined() ? tensor.storage().version() : 0) {}

const Tensor& Saved::get() const {
  expects<AutogradError>(!tensor_.defined() || tensor_.storage().version() == version_, "backward: a tensor of shape ",
                         tensor_.defined() ? tensor_.shape() : Shape{},
                         " that the forward pass saved was changed in place since; clone it before the change");
  return tensor_;
}

/// Where an input of an operator came from: the node that made it, or a leaf that collects its gradient. The input's
/// own elements are not kept: what backward needs of them is in its Saved tensors.
struct Edge {
  std::shared_ptr<Node> node;
  Tensor leaf;
  Shape shape;
  DType dtype;
};

/// One operator that was run.
struct Node {
  const char* name;
  std::uint64_t order;  // grows with every node: an operator's inputs have smaller ones
  Scope scope;
  std::vector<Edge> edges;
  Backward backward;
  std::string where = {};  // the modules that it was recorded in, where the scope is observed
  bool used = false;

  // A chain of a hundred thousand nodes must not be released by as many nested destructors.
  ~Node() {
    std::vector<Edge> pending = std::move(edges);
    while (!pending.empty()) {
      const std::shared_ptr<Node> last = std::move(pending.back().node);
      pending.pop_back();
      if (last.use_count() != 1) continue;
      for (Edge& edge : last->edges) pending.push_back(std::move(edge));
      last->edges.clear();
    }
  }
};

/// The parts of a tensor that the tape reads and writes.
struct Handle {
  static std::shared_ptr<Node>& node(const Tensor& tensor) { return tensor.checked("autograd").node; }

  /// True when nobody else sees the elements of `tensor`, its storage holds nothing else, and no two of them share a
  /// place.
  static bool owns(const Tensor& tensor) {
    const Tensor::Body& body = tensor.checked("autograd");
    return tensor.body_.use_count() == 1 && body.storage.use_count() == 1 &&
           static_cast<std::size_t>(body.numel) * size_of(body.dtype) == body.storage->bytes();
  }
};

void record(const char* name, Tensor& out, std::vector<Tensor> inputs, Backward backward) {
  static std::atomic<std::uint64_t> count{0};
  auto node = std::make_shared<Node>();
  node->name = name;
  node->order = count.fetch_add(1, std::memory_order_relaxed);
  node->scope = current_scope();
  node->edges.reserve(inputs.size());
  for (Tensor& input : inputs) {
    Edge& edge = node->edges.emplace_back();
    if (!input.requires_grad()) continue;
    edge.shape = input.shape();
    edge.dtype = input.dtype();
    if (input.is_leaf())
      edge.leaf = std::move(input);
    else
      edge.node = Handle::node(input);
  }
  node->backward = std::move(backward);
  if (node->scope.observer != nullptr) [[unlikely]]
    node->where = whereabouts();
  Handle::node(out) = std::move(node);
}

namespace {

// A gradient that something else shares (another input's, the caller's, a saved tensor's) or that repeats its elements
// is copied, so that a leaf's is its own.
void add_to_leaf(const Tensor& leaf, Tensor gradient) {
  const Tensor& known = leaf.grad();
  if (known.defined())
    gradient = sum_of({known, gradient});
  else if (!Handle::owns(gradient))
    gradient = gradient.clone();
  Tensor(leaf).set_grad(std::move(gradient));
}

void check_gradient(const Node& node, const Edge& edge, const Tensor& gradient) {
  expects<AutogradError>(gradient.shape() == edge.shape && gradient.dtype() == edge.dtype, "backward of ", node.name,
                         ": a gradient of ", gradient.dtype(), " ", gradient.shape(), " for an input of ", edge.dtype,
                         " ", edge.shape);
}

/// How often each leaf is yet to be given a gradient, so that somebody can be told when it has all.
class Completion {
 public:
  Completion(Node& root, const std::function<void(const Tensor&)>& callback) : callback_(callback) {
    if (!callback_) return;
    std::unordered_set<Node*> known{&root};
    std::vector<Node*> pending{&root};
    while (!pending.empty()) {
      Node* const node = pending.back();
      pending.pop_back();
      for (const Edge& edge : node->edges) {
        if (edge.leaf.defined()) ++left_[edge.leaf.body()];
        if (edge.node && known.insert(edge.node.get()).second) pending.push_back(edge.node.get());
      }
    }
  }
  /// An edge to the leaf was gone over.
  void passed(const Tensor& leaf) {
    if (callback_ && leaf.defined() && --left_[leaf.body()] == 0 && leaf.grad().defined()) callback_(leaf);
  }

 private:
  const std::function<void(const Tensor&)>& callback_;
  std::unordered_map<const Tensor::Body*, std::int64_t> left_;
};

struct BackwardOf final : Whereabouts {
  explicit BackwardOf(const Node& of) : node(of) {}
  std::string describe() const override { return node.where; }
  const Node& node;
};

// Nodes run in the reverse of their order of creation, so that every gradient is complete, and summed in the same order
// each time, before it is passed on.
void run(const Tensor& root, Tensor root_gradient, const BackwardOptions& options) {
  const NoGrad no_grad;
  const RunningBackward running;
  // Gradients that meet are added when the last of them is there, in one pass.
  std::unordered_map<Node*, std::vector<Tensor>> gradients;
  const auto later = [](const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) { return a->order < b->order; };
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, decltype(later)> pending(later);
  if (root.is_leaf()) {
    add_to_leaf(root, std::move(root_gradient));
    if (options.complete) options.complete(root);
    return;
  }
  Completion completion(*Handle::node(root), options.complete);
  gradients[Handle::node(root).get()].push_back(std::move(root_gradient));
  pending.push(Handle::node(root));
  while (!pending.empty()) {
    const std::shared_ptr<Node> node = pending.top();
    pending.pop();
    const auto found = gradients.find(node.get());
    std::vector<Tensor> meeting = std::move(found->second);
    gradients.erase(found);
    expects<AutogradError>(
        !node->used, "backward: the graph behind ", node->name,
        " was already used by another backward; run the forward pass again, or pass {.retain_graph = true}");
    std::optional<Device> place;
    if (!node->scope.same_settings(current_scope())) place.emplace(node->scope);
    std::optional<BackwardOf> where;
    if (node->scope.observer != nullptr) [[unlikely]]
      where.emplace(*node);
    Gradients input_gradients = node->backward(meeting.size() == 1 ? meeting[0] : sum_of(meeting));
    meeting.clear();
    expects<AutogradError>(input_gradients.size() == node->edges.size(), "backward of ", node->name, ": ",
                           input_gradients.size(), " gradients for ", node->edges.size(), " inputs");
    for (std::size_t i = 0; i < node->edges.size(); ++i) {
      const Edge& edge = node->edges[i];
      if ((!edge.node && !edge.leaf.defined()) || !input_gradients[i].defined()) {
        completion.passed(edge.leaf);
        continue;
      }
      check_gradient(*node, edge, input_gradients[i]);
      if (edge.leaf.defined()) {
        add_to_leaf(edge.leaf, std::move(input_gradients[i]));
        completion.passed(edge.leaf);
      } else {
        std::vector<Tensor>& known = gradients[edge.node.get()];
        if (known.empty()) pending.push(edge.node);
        known.push_back(std::move(input_gradients[i]));
      }
    }
    if (!options.retain_graph) {
      node->used = true;
      node->backward = nullptr;  // frees what the operator saved
    }
  }
}

}  // namespace
}  // namespace autograd

namespace {
void check_recorded(const Tensor& root) {
  expects<AutogradError>(root.requires_grad(),
                         "backward: this tensor does not depend on anything that requires a gradient",
                         autograd::enabled() ? "; nor does the result of a Step, inside whose function backward belongs"
                                             : " (recording is off: a NoGrad is alive)");
}

// The gradient that every backward begins with, where the loss was computed: written once for each thread, memory and
// dtype, and only read after that, so that a recorded step has no kernel for it.
struct FirstGradient {
  const Memory* memory;
  DType dtype;
  Tensor one;
  std::uint64_t version;
  bool unchanged() const { return one.storage().version() == version; }
};
thread_local std::vector<FirstGradient> first_gradients;

Tensor first_gradient(const Tensor& root) {
  std::optional<Device> place;
  if (!root.is_leaf()) place.emplace(autograd::Handle::node(root)->scope);
  const Memory* const memory = current_scope().context.memory;
  bool keeps = true;
  for (const FirstGradient& known : first_gradients)
    if (known.memory == memory && known.dtype == root.dtype()) {
      if (known.unchanged()) return known.one.reshape(root.shape());
      keeps = false;  // an operator of the user's changes its gradient in place, and will again in a replay
    }
  Tensor one(root.shape(), root.dtype());
  one.fill_(1);
  // What a recording fills is there for its replays alone.
  if (keeps && capturing() == nullptr) first_gradients.push_back({memory, root.dtype(), one, one.storage().version()});
  return one;
}
}  // namespace

bool autograd::is_first_gradient(const Tensor& gradient) {
  for (const FirstGradient& known : first_gradients)
    if (&known.one.storage() == &gradient.storage()) return gradient.numel() == 1 && known.unchanged();
  return false;
}

void Tensor::backward(const BackwardOptions& options) const {
  expects<AutogradError>(numel() == 1, "backward: a tensor of shape ", shape(),
                         " is not a single loss; reduce it, or pass its gradient");
  check_recorded(*this);
  autograd::run(*this, first_gradient(*this), options);
}

void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  check_recorded(*this);
  expects(gradient.defined(), "backward: the gradient is undefined; leave it out for a single loss");
  expects<ShapeError>(gradient.shape() == shape(), "backward: a gradient of shape ", gradient.shape(),
                      " for a tensor of ", shape());
  expects<DTypeError>(gradient.dtype() == dtype(), "backward: a gradient of ", gradient.dtype(), " for a tensor of ",
                      dtype(), "; convert it with to(...)");
  autograd::run(*this, gradient.detach(), options);
}

}  // namespace tern
