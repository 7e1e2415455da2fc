#pragma once
// What observers read of the tensors that an operator takes: on the host, without a move that is counted.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tern/modes/observer.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

/// The elements of a view's storage from its first place to its last, on the host.
class ViewBytes {
 public:
  explicit ViewBytes(const Tensor& view);

  std::vector<std::byte>& bytes() { return bytes_; }
  /// Elements from the beginning to the view's own first one.
  std::int64_t first() const { return first_; }

 private:
  std::vector<std::byte> bytes_;
  std::int64_t first_ = 0;
};

/// Calls visit(place) with where each element of the view stands, relative to its first one, in row-major order.
template <class Visit>
void for_each_place(const Tensor& view, Visit visit) {
  Shape index = Shape::filled(view.rank(), 0);
  std::int64_t place = 0;
  for (std::int64_t count = view.numel(); count > 0; --count) {
    visit(place);
    for (int i = view.rank() - 1; i >= 0; --i) {
      place += view.strides()[i];
      if (++index[i] < view.shape()[i]) break;
      place -= index[i] * view.strides()[i];
      index[i] = 0;
    }
  }
}

/// "[0, 3, 1]": the place of element `i` of a tensor in row-major order.
std::string index_of(const Tensor& tensor, std::int64_t i);
/// "conv2d backward in cuda (way grad_x tiles), at features.3, Conv2d(...), of float32 [8, 3, 32, 32] and ...".
std::string describe(const OperatorCall& call);

}  // namespace tern
