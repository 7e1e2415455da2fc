#pragma once
// The way that a convolution takes: by transformed tiles (Winograd) or directly, and with which elements in its lanes.
// By default it follows from the shape alone, by the rules below, whose numbers are measured: the ways sum in different
// orders, and results must depend on nothing else. A context that need not be deterministic tries both ways on first
// use.

#include <array>
#include <chrono>
#include <map>
#include <mutex>

#include "vectorized/conv_patches.hpp"
#include "vectorized/conv_rows.hpp"
#include "vectorized/conv_winograd.hpp"

namespace tern::vectorized {

// Fewer channels than a vector leave lanes of transformed tiles empty.
inline constexpr std::int64_t least_channels = 12;
// Folding is for first layers: each part of the gradient of weight cuts out all folded channels.
inline constexpr std::int64_t most_folded_channels = 64;
// Rough cycles per product of a vector and a number on the direct way: forward, and for the gradient of weight.
inline constexpr double forward_cycles = 0.62, weight_cycles = 0.7;

/// Lanes that are channels need a number of them that fills vectors, and patches of some length.
inline kernels::Layout layout_of(const Conv2d& shape) {
  const std::int64_t C = shape.C / shape.groups, O = shape.O / shape.groups;
  return O >= 8 && O % 8 == 0 && C * shape.KH * shape.KW >= 24 && (C >= 8 || shape.groups == 1)
             ? kernels::Layout::channels_last
             : kernels::Layout::channels_first;
}

/// The gradient of x is a convolution of the gradient of y.
inline bool turns_around(const Conv2d& shape) {
  return !has_stride(shape) && shape.pad_h <= shape.dilation_h * (shape.KH - 1) &&
         shape.pad_w <= shape.dilation_w * (shape.KW - 1);
}

enum class Pass : std::uint8_t { forward, to_x, to_weight };

template <class T>
bool has_winograd(Pass pass, const Conv2d& strided) {
  const Conv2d shape = folded(strided);
  if (has_stride(strided) && (pass == Pass::to_x || strided.stride_h != strided.stride_w || strided.groups != 1 ||
                              shape.C > most_folded_channels))
    return false;
  return shape.KH == shape.KW && shape.dilation_h == 1 && shape.dilation_w == 1 && shape.pad_h < shape.KH &&
         shape.pad_w < shape.KW && shape.C / shape.groups >= least_channels &&
         shape.O / shape.groups >= least_channels && winograd_kernels<T>(shape.KH) != nullptr;
}

/// Whether Winograd's way is the faster one by the rules.
template <class T>
bool winograd_is_faster(Pass pass, const Conv2d& shape) {
  const Sizes sizes(shape);
  const double products = static_cast<double>(shape.N * sizes.positions * shape.O) * static_cast<double>(sizes.K) /
                          static_cast<double>(gemm_kernels<T>().lanes);
  switch (pass) {
    case Pass::forward:
      return WinogradForward<T>::cycles(Correlation<T>::forward_folded(nullptr, nullptr, nullptr, nullptr, shape)) <
             forward_cycles * products;
    case Pass::to_x:
      return WinogradForward<T>::cycles(Correlation<T>::to_x(nullptr, nullptr, nullptr, 0, nullptr, shape)) <
             forward_cycles * products;
    case Pass::to_weight:
      return WinogradToWeight<T>::cycles(folded(shape)) < weight_cycles * products;
  }
  return false;
}

/// What trials found, for the process.
class Trials {
 public:
  /// Whether run(true), Winograd's way, took less time than run(false); both write the same outputs.
  template <class Run>
  bool winograd_is_faster(Pass pass, const Conv2d& shape, int threads, std::size_t element, const Run& run) {
    const Key key{shape.N,
                  shape.C,
                  shape.H,
                  shape.W,
                  shape.O,
                  shape.KH,
                  shape.KW,
                  shape.stride_h,
                  shape.pad_h,
                  shape.pad_w,
                  threads,
                  shape.groups,
                  static_cast<std::int64_t>(pass),
                  static_cast<std::int64_t>(element)};
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = found_.find(key); known != found_.end()) return known->second;
    }
    const auto seconds = [&](bool winograd) {
      run(winograd);  // fetches memory and code
      const auto start = std::chrono::steady_clock::now();
      run(winograd);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const bool faster = seconds(true) < seconds(false);
    const std::lock_guard lock(mutex_);
    return found_.emplace(key, faster).first->second;
  }

 private:
  using Key = std::array<std::int64_t, 14>;
  std::mutex mutex_;
  std::map<Key, bool> found_;
};

/// Whether a pass takes Winograd's way; run(winograd) runs the pass alone.
template <class T, class Run>
bool takes_winograd(const Context& context, Pass pass, const Conv2d& shape, int threads, const Run& run) {
  if (!has_winograd<T>(pass, shape)) return false;
  if (context.deterministic) return winograd_is_faster<T>(pass, shape);
  static Trials trials;
  return trials.winograd_is_faster(pass, shape, threads, sizeof(T), run);
}

}  // namespace tern::vectorized
