#pragma once
// A library for TERN_OPERATORS has the families of kernels that the listed operators call, and no others.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "core/built.hpp"
#include "tern/core/error.hpp"
#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

namespace family {
/// The families of float32, the tables of integers and of float64, and what stands beside the tables. Movement is
/// always there.
enum : std::uint32_t {
  arithmetic = 1 << 0,
  dot = 1 << 1,
  conv = 1 << 2,
  activations = 1 << 3,
  pooling = 1 << 4,
  normalization = 1 << 5,
  attention = 1 << 6,
  quantized = 1 << 7,
  all = ~std::uint32_t{0}  ///< reductions, losses, shape, integers, float64, recurrent, resampling, too
};
}  // namespace family

struct Needs {
  std::string_view name;  ///< of an operator
  std::uint32_t families;
};
/// The operators that call few families. All others may call any, since they are composed of others.
inline constexpr Needs needs[]{
    {"adaptive_avg_pool2d", family::pooling},
    {"add", family::arithmetic},
    {"avg_pool2d", family::pooling | family::arithmetic},
    {"batch_norm", family::normalization | family::activations | family::arithmetic},
    {"cast", 0},
    {"cat", 0},
    {"conv2d", family::conv | family::activations | family::arithmetic},
    {"conv2d_add", family::conv | family::activations | family::arithmetic},
    {"conv2d_cat", family::conv | family::activations | family::arithmetic},
    {"conv2d_max_pool2d", family::conv | family::activations | family::arithmetic | family::pooling},
    {"copy", 0},
    {"dequantize", family::quantized},
    {"flatten", 0},
    {"gelu", family::activations},
    {"hardswish", family::activations},
    {"inverted_residual", family::conv | family::activations | family::arithmetic},
    {"leaky_relu", family::activations},
    {"linear", family::dot | family::activations | family::arithmetic},
    {"matmul", family::dot},
    {"max_pool2d", family::pooling},
    {"mul", family::arithmetic},
    {"permute", 0},
    {"quantize", family::quantized},
    {"quantized_adaptive_avg_pool2d", family::quantized},
    {"quantized_add", family::quantized},
    {"quantized_avg_pool2d", family::quantized},
    {"quantized_cat", family::quantized},
    {"quantized_conv2d", family::quantized},
    {"quantized_conv2d_cat", family::quantized},
    {"quantized_linear", family::quantized},
    {"quantized_max_pool2d", family::quantized},
    {"relu", family::activations},
    {"relu6", family::activations | family::arithmetic},
    {"reshape", 0},
    {"sigmoid", family::activations},
    {"silu", family::activations},
    {"slice", 0},
    {"softmax", family::activations},
    {"squeeze", 0},
    {"sub", family::arithmetic},
    {"tanh", family::activations},
    {"transpose", 0},
};

constexpr std::uint32_t families_of(std::string_view name) {
  const auto found = std::ranges::find(needs, name, &Needs::name);
  return found == std::end(needs) ? std::uint32_t{family::all} : found->families;
}

#ifdef TERN_LISTED
inline constexpr std::string_view listed[]{TERN_LISTED};
constexpr bool is_listed(std::string_view name) { return std::ranges::find(listed, name) != std::end(listed); }
#else
inline constexpr std::string_view listed[]{"every operator"};
constexpr bool is_listed(std::string_view) { return true; }
#endif

/// Whether a listed operator calls this family.
constexpr bool wanted(std::uint32_t family) {
  return std::ranges::any_of(listed, [&](std::string_view name) { return (families_of(name) & family) == family; });
}

/// Whether elements of this dtype are converted.
constexpr bool casts(DType dtype) {
  return (is_floating(dtype) && dtype != DType::float64) || dtype == DType::uint8 || wanted(family::all);
}

[[noreturn]] inline void left_out() {
  throw Error(
      "this library was built with TERN_OPERATORS, and none of the operators listed there needs this kernel; add the "
      "operator that is called");
}
/// Instead of a kernel that no listed operator calls.
struct LeftOut {
  template <class Result, class... Arguments>
  constexpr operator Kernel<Result(Arguments...)>() const {
    return +[](Arguments...) -> Result { left_out(); };
  }
};

/// A slot of a family that only operators without a line call.
template <auto kernel>
constexpr auto seldom() {
  if constexpr (wanted(family::all))
    return kernel;
  else
    return LeftOut{};
}

template <class Result, class... Arguments>
void leave_out(Kernel<Result(Arguments...)>& slot) {
  slot = LeftOut{};
}
inline void leave_out(bool& flag) { flag = false; }
template <class Struct>
void leave_out(Struct& table);
template <class Struct, auto... members>
void leave_out_members(Struct& table, MemberList<members...>) {
  (leave_out(table.*members), ...);
}
template <class Struct>
void leave_out(Struct& table) {
  leave_out_members(table, typename Struct::Members{});
}

}  // namespace tern::kernels
