#pragma once
// What the tape consists of.

#include <memory>
#include <string>
#include <vector>

#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"

namespace tern::autograd {

/// Where an input of an operator came from: the node that made it, or a leaf that collects its gradient. The input's
/// own elements are not kept: what backward needs of them is in its Saved tensors.
struct Edge {
  std::shared_ptr<Node> node;
  Tensor leaf;
  Shape shape;
  DType dtype;
  int output = -1;  // of a node with several results: which of them

  bool defined() const { return node != nullptr || leaf.defined(); }
};

/// The contiguous tensor that the output of a node shows elements of, each at most once.
struct View {
  Edge base;
  std::int64_t offset;  // of its first element in the storage
};

/// One operator that was run.
struct Node {
  const char* name;
  std::uint64_t order;  // grows with every node: an operator's inputs have smaller ones
  Scope scope;
  std::vector<Edge> edges;
  Backward backward = {};
  std::function<Tensor(const Gradients& grads)> backward_of_all = {};
  std::size_t outputs = 1;
  std::unique_ptr<Part> part = {};  // of the edge's tensor that the output is
  std::unique_ptr<View> view = {};
  std::string where = {};  // the modules that it was recorded in, where the scope is observed
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

/// The parts of a tensor that the tape reads and writes.
struct Handle {
  static std::shared_ptr<Node>& node(const Tensor& tensor) { return tensor.checked("autograd").node; }

  /// True when `tensor` may become the gradient of a leaf as it is: nobody else sees its elements, its storage holds
  /// nothing else, and they lie as those of the leaf or in row-major order.
  static bool fits_leaf(const Tensor& tensor, const Tensor& leaf) {
    const Tensor::Body& body = tensor.checked("autograd");
    return tensor.body_.use_count() == 1 && body.storage.use_count() == 1 &&
           static_cast<std::size_t>(body.numel) * size_of(body.dtype) == body.storage->bytes() &&
           (body.contiguous || body.strides == leaf.strides());
  }
};

/// The gradient of `root` in every leaf that led to it.
void run(const Tensor& root, Tensor root_gradient, const BackwardOptions& options);

}  // namespace tern::autograd
