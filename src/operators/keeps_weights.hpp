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
  /// The same of another weight that the kernel reads; it keeps those of all or of none.
  void also(bool keeps, const Tensor& weight, const void* pointer, std::size_t element, const Memory& memory) {
    if (kernels::weight_version != &version_) return;
    bool kept = false;
    {
      const KeepsWeights other(keeps, weight, pointer, element, memory);
      kept = kernels::weight_version == &other.version_;
      if (kept) version_.more.push_back(other.version_);
    }
    if (!kept) kernels::weight_version = nullptr;
  }
  KeepsWeights(const KeepsWeights&) = delete;
  KeepsWeights& operator=(const KeepsWeights&) = delete;
  ~KeepsWeights() { kernels::weight_version = outer_; }

 private:
  kernels::WeightVersion version_;
  const kernels::WeightVersion* const outer_ = std::exchange(kernels::weight_version, nullptr);
};

}  // namespace tern::operators
