#include "tern/autograd/tape.hpp"

#include <atomic>
#include <optional>
#include <string_view>

#include "autograd/node.hpp"
#include "core/built.hpp"
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

namespace {

std::shared_ptr<Node> new_node(const char* name) {
  static std::atomic<std::uint64_t> count{0};
  auto node = std::make_shared<Node>();
  node->name = name;
  node->order = count.fetch_add(1, std::memory_order_relaxed);
  node->scope = current_scope();
  if (node->scope.observer != nullptr) [[unlikely]]
    node->where = whereabouts();
  return node;
}

Edge edge_to(Tensor input) {
  Edge edge;
  if (!input.requires_grad()) return edge;
  edge.shape = input.shape();
  edge.dtype = input.dtype();
  if (input.is_leaf())
    edge.leaf = std::move(input);
  else
    edge.node = Handle::node(input);
  return edge;
}

// The tensor that `x` is a view of; null if only x's own node can take its gradient.
std::unique_ptr<View> view_behind(const Tensor& x) {
  const std::shared_ptr<Node>& node = Handle::node(x);
  if (node != nullptr && node->view != nullptr) return std::make_unique<View>(*node->view);
  return x.is_contiguous() ? std::make_unique<View>(View{edge_to(x), x.offset()}) : nullptr;
}

}  // namespace

void record(const char* name, Tensor& out, std::vector<Tensor> inputs, Backward backward) {
  std::shared_ptr<Node> node = new_node(name);
  node->edges.reserve(inputs.size());
  for (Tensor& input : inputs) node->edges.push_back(edge_to(std::move(input)));
  node->backward = std::move(backward);
  Handle::node(out) = std::move(node);
}

Tensor unrounded(const Tensor& x) {
  if (!x.requires_grad() || x.is_leaf() || scalar_of(x.dtype()) == x.dtype()) return x;
  const Node& node = *Handle::node(x);
  if (node.name != std::string_view("cast") || !node.edges[0].leaf.defined()) return x;
  const Edge& from = node.edges[0];
  return from.dtype == scalar_of(x.dtype()) ? from.leaf : x;
}

void record_view(const char* name, Tensor& out, const Tensor& x, Backward backward) {
  std::unique_ptr<View> view = view_behind(x);
  record(name, out, {x}, std::move(backward));
  Handle::node(out)->view = std::move(view);
}

void record_part(const char* name, Tensor& out, const Tensor& x, Part part) {
  std::shared_ptr<Node> node = new_node(name);
  node->view = view_behind(x);
  if (node->view) part = {out.shape(), out.strides(), out.offset() - node->view->offset};
  node->edges.push_back(node->view ? node->view->base : edge_to(x));
  node->part = std::make_unique<Part>(std::move(part));
  Handle::node(out) = std::move(node);
}

void record_all(const char* name, std::vector<Tensor>& outs, const Tensor& x,
                std::function<Tensor(const Gradients& grads)> backward) {
  const std::shared_ptr<Node> all = new_node(name);
  all->edges.push_back(edge_to(x));
  all->backward_of_all = std::move(backward);
  all->outputs = outs.size();
  for (std::size_t i = 0; i < outs.size(); ++i) {
    std::shared_ptr<Node> node = new_node(name);
    node->edges.push_back({all, {}, outs[i].shape(), outs[i].dtype(), static_cast<int>(i)});
    node->backward = [](const Tensor& grad) { return Gradients{grad}; };
    Handle::node(outs[i]) = std::move(node);
  }
}

}  // namespace autograd

namespace {
void check_recorded(const Tensor& root) {
  expects<AutogradError>(root.requires_grad(),
                         "backward: this tensor does not depend on anything that requires a gradient",
                         built::whole ? "" : ", and a library built with TERN_OPERATORS records nothing",
                         autograd::enabled() ? "; nor does the result of a Step, inside whose function backward belongs"
                                             : " (recording is off: a NoGrad is alive)");
}

// The gradient that every backward begins with, in the memory of the loss. It is written once per thread, memory and
// dtype and only read afterwards, so a recorded step needs no kernel for it.
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
      keeps = false;  // a user's operator changes its gradient in place, and a replay will do so again
    }
  Tensor one(root.shape(), root.dtype());
  one.fill_(1);
  // A tensor that a recording fills is only for its replays.
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
