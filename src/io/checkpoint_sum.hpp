#pragma once
// The sum that a checkpoint carries: of its tensors and of all its metadata but the sum itself.

#include <map>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

inline constexpr const char* checkpoint_sum_key = "tern.sha256";

std::string checkpoint_sum(const std::map<std::string, Tensor>& tensors,
                           const std::map<std::string, std::string>& metadata);

}  // namespace tern::io
