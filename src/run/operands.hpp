#pragma once
// Lets observers read the operands of an operator on the host, without a counted move.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tern/modes/observer.hpp"
#include "tern/operators/op.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

/// The elements of a view's storage from its first place to its last, on the host.
class ViewBytes {
 public:
  /// Without `reads` they are zeros: they may be unwritten.
  explicit ViewBytes(const Tensor& view, bool reads = true);

  std::vector<std::byte>& bytes() { return bytes_; }
  /// Elements from the beginning to the view's first one.
  std::int64_t first() const { return first_; }

 private:
  std::vector<std::byte> bytes_;
  std::int64_t first_ = 0;
};

/// An element as a number; `place` counts from `first`, the view's first element.
double value_at(const std::byte* first, DType dtype, std::int64_t place);

/// "[0, 3, 1]": the index of element `i` of a tensor in row-major order.
std::string index_of(const Tensor& tensor, std::int64_t i);
/// "conv2d padding=1x1": a public operator and its attributes.
std::string text_of(const operators::OpCall& call);
/// "conv2d in cuda (conv2d:implicit), for conv2d padding=1x1, at features.3, Conv2d(...), of float32 [8, 3, 32, 32]
/// and ...".
std::string describe(const OperatorCall& call);

}  // namespace tern
