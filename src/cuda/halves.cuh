#pragma once
// 16-bit arrays for kernels that exist for float32 alone: copies, converted before and after.

#include <optional>

#include "cuda/elementwise.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {

/// float32 copies of 16-bit arrays, for the call of one kernel. A null array stays null.
class InFloat {
 public:
  explicit InFloat(Context& context) : context_(context), precision_(context.precision) {
    context.precision = Precision::tf32;  // holds every element of 16 bits exactly
  }
  InFloat(const InFloat&) = delete;
  InFloat& operator=(const InFloat&) = delete;
  ~InFloat() { context_.precision = precision_; }

  /// The kernel reads it.
  template <class T>
  const float* in(const T* array, std::int64_t count) {
    if (array == nullptr) return nullptr;
    float* const copy = add(count);
    map_packed<4>(context_, count, Same{}, copy, array);
    return copy;
  }
  /// The kernel writes it; round() stores it.
  float* out(const void* array, std::int64_t count) { return array == nullptr ? nullptr : add(count); }
  template <class T>
  void round(T* array, const float* copy, std::int64_t count) const {
    if (array != nullptr) map_packed<4>(context_, count, Same{}, array, copy);
  }

 private:
  float* add(std::int64_t count) {
    for (std::optional<Scratch>& copy : copies_) {
      if (copy) continue;
      copy.emplace(context_, static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(float));
      return copy->as<float>();
    }
    throw Error("cuda: a kernel converts more arrays than expected");
  }

  Context& context_;
  const Precision precision_;
  const CopiedWeights copied_{};
  std::optional<Scratch> copies_[10];
};

}  // namespace tern::cuda
