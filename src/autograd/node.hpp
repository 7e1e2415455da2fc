#pragma once
// The nodes and edges of the tape.

#include <memory>
#include <string>
#include <vector>

#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"

namespace tern::autograd {

/// Where an operator's input came from: the node that made it, or a leaf that collects its gradient. The elements of
/// the input are not kept; backward has them in its Saved tensors.
struct Edge {
  std::shared_ptr<Node> node;
  Tensor leaf;
  Shape shape;
  DType dtype;
  int output = -1;  // for a node with several results: which one

  bool defined() const { return node != nullptr || leaf.defined(); }
};

/// The contiguous tensor whose elements a node's output shows, each at most once.
struct View {
  Edge base;
  std::int64_t offset;  // of its first element in the storage
};

/// One recorded operator.
struct Node {
  const char* name;
  std::uint64_t order;  // grows with every node: an operator's inputs have smaller orders
  Scope scope;
  std::vector<Edge> edges;
  Backward backward = {};
  std::function<Tensor(const Gradients& grads)> backward_of_all = {};
  std::size_t outputs = 1;
  std::unique_ptr<Part> part = {};  // the slice of the edge's tensor that the output is
  std::unique_ptr<View> view = {};
  std::string where = {};  // the modules in which it was recorded, if the scope is observed
  bool used = false;

  // A chain of a hundred thousand nodes must not be released by as many nested destructors.
  ~Node() {
    std::vector<Edge> pending;
    const auto take = [&](Node& from) {
      for (Edge& edge : from.edges) pending.push_back(std::move(edge));
      from.edges.clear();
      if (from.view) pending.push_back(std::move(from.view->base));
      from.view = nullptr;
    };
    take(*this);
    while (!pending.empty()) {
      const std::shared_ptr<Node> last = std::move(pending.back().node);
      pending.pop_back();
      if (last.use_count() != 1) continue;
      take(*last);
    }
  }
};

/// The members of a tensor that the tape reads and writes.
struct Handle {
  static std::shared_ptr<Node>& node(const Tensor& tensor) { return tensor.checked("autograd").node; }

  /// Gives all handles of a leaf the elements, dtype and layout of `by`, and drops its gradient.
  static void replace(const Tensor& leaf, const Tensor& by) {
    Tensor::Body& body = leaf.checked("autograd");
    const Tensor::Body& other = by.checked("autograd");
    body.storage = other.storage;
    body.shape = other.shape;
    body.strides = other.strides;
    body.offset = other.offset;
    body.dtype = other.dtype;
    body.contiguous = other.contiguous;
    body.gradient.reset();
  }

  /// Whether `tensor` can become the gradient of a leaf without a copy: no other tensor shares its elements, its
  /// storage holds nothing else, and its order is the leaf's or row-major.
  static bool fits_leaf(const Tensor& tensor, const Tensor& leaf) {
    const Tensor::Body& body = tensor.checked("autograd");
    return tensor.body_.use_count() == 1 && body.storage.use_count() == 1 &&
           static_cast<std::size_t>(body.numel) * size_of(body.dtype) == body.storage->bytes() &&
           (body.contiguous || body.strides == leaf.strides());
  }
};

/// Adds the gradient of `root` to every leaf that led to it.
void run(const Tensor& root, Tensor root_gradient, const BackwardOptions& options);

}  // namespace tern::autograd
