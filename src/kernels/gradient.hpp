#pragma once

#include "core/built.hpp"
#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// A slot that gradients alone use: without a kernel in a library that only answers.
template <auto kernel>
constexpr auto gradient() {
  if constexpr (built::whole)
    return kernel;
  else
    return absent;
}

}  // namespace tern::kernels
