#pragma once

#include <optional>
#include <string_view>

#include "vectorized/convolution/kept.hpp"

namespace tern::vectorized::int8 {

/// Weights in a kernel's order: kept from an earlier call, or made by `pack`. The problem is the key beside the
/// weights' version.
class KeptBytes {
 public:
  template <class Pack>
  KeptBytes(Context& context, std::int64_t bytes, const convolution::Problem& problem, std::string_view algorithm,
            const Pack& pack) {
    if (const kernels::WeightVersion* const version = kernels::weight_version; version != nullptr) {
      kept_ = convolution::kept_weights(*version, problem, algorithm, static_cast<std::size_t>(bytes));
      data_ = static_cast<std::int8_t*>(kept_.data.get());
      if (kept_.ready) return;
      if (data_ != nullptr) {
        pack(data_);
        convolution::keep(*version, problem, algorithm, kept_);
        return;
      }
    }
    scratch_.emplace(context, static_cast<std::size_t>(bytes));
    data_ = scratch_->as<std::int8_t>();
    pack(data_);
  }
  const std::int8_t* data() const { return data_; }

 private:
  convolution::Kept kept_;
  std::optional<Scratch> scratch_;
  std::int8_t* data_ = nullptr;
};

}  // namespace tern::vectorized::int8
