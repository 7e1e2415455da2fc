#pragma once
// The checksum of a checkpoint: over its tensors and all metadata except the sum itself.

#include <map>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

inline constexpr const char* checkpoint_sum_key = "tern.sha256";

std::string checkpoint_sum(const std::map<std::string, Tensor>& tensors,
                           const std::map<std::string, std::string>& metadata);

}  // namespace tern::io
