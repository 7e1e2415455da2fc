#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tern/io/safetensors.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

/// What differs between two lists of tensors, dtype, shape and bits; empty: nothing.
inline std::string difference_of(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  if (found.size() != expected.size()) return message(found.size(), " tensors, expected ", expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor a = found[i].detach().contiguous(), b = expected[i].detach().contiguous();
    if (a.dtype() != b.dtype() || !(a.shape() == b.shape()))
      return message("tensor ", i, " is ", a.dtype(), ' ', a.shape(), ", expected ", b.dtype(), ' ', b.shape());
    if (a.numel() == 0) continue;
    const std::size_t bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype());
    std::vector<std::byte> x(bytes), y(bytes);
    a.storage().peek(static_cast<std::size_t>(a.offset()) * size_of(a.dtype()), x);
    b.storage().peek(static_cast<std::size_t>(b.offset()) * size_of(b.dtype()), y);
    if (x != y) return message("tensor ", i, " of ", a.shape(), " has other bits");
  }
  return "";
}

/// Normally distributed, the same for a seed.
inline Tensor numbers(const Shape& shape, std::uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, generator);
}

}  // namespace tern::testing
