#pragma once
// Tells a kernel which weights it reads.

#include <cstddef>
#include <utility>

#include "tern/kernels/weight_version.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// While it lives, a kernel of this thread may keep what it makes of the weights at `pointer`, if the caller infers
/// (`keeps`) and those are the tensor's own elements and no copy.
class KeepsWeights {
 public:
  KeepsWeights(bool keeps, const Tensor& weight, const void* pointer, std::size_t element, const Memory& memory) {
    const auto* const own = static_cast<const std::byte*>(weight.storage().pointer_in(memory));
    if (!keeps || own == nullptr) return;
    if (own + static_cast<std::size_t>(weight.offset()) * element != pointer) return;
    version_ = {weight.shared_storage(), weight.storage().version(), weight.offset()};
    kernels::weight_version = &version_;
  }
  KeepsWeights(const KeepsWeights&) = delete;
  KeepsWeights& operator=(const KeepsWeights&) = delete;
  ~KeepsWeights() { kernels::weight_version = outer_; }

 private:
  kernels::WeightVersion version_;
  const kernels::WeightVersion* const outer_ = std::exchange(kernels::weight_version, nullptr);
};

}  // namespace tern::operators
