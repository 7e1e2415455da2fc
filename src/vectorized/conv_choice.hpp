#pragma once
// The way that a convolution takes: by transformed tiles (Winograd) or directly, and with which elements in its lanes.
// By default it follows from the shape alone, by the rules below, whose numbers are measured: the ways sum in different
// orders, and results must depend on nothing else. A context that need not be deterministic tries both ways on first
// use.

#include <array>
#include <chrono>
#include <map>
#include <mutex>

#include "tern/kernels/ways.hpp"
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

/// What trials found, for the process: everything that a choice between the ways was decided from.
struct Trial {
  Pass pass;
  Conv2d shape;
  int threads;
  std::size_t element;  ///< bytes
  bool bias, saved;     ///< whether these arrays are given

  std::array<std::int64_t, 24> key() const;
};

class Trials {
 public:
  /// Whether run(true), Winograd's way, took less time than run(false); both write the same outputs.
  template <class Run>
  bool winograd_is_faster(const Trial& trial, const Run& run) {
    const auto key = trial.key();
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
    if (found_.size() >= most) found_.clear();
    return found_.emplace(key, faster).first->second;
  }

 private:
  static constexpr std::size_t most = 4096;  // shapes of a program that never repeats must not fill the memory
  std::mutex mutex_;
  std::map<std::array<std::int64_t, 24>, bool> found_;
};

inline std::array<std::int64_t, 24> Trial::key() const {
  return {static_cast<std::int64_t>(pass),
          shape.N,
          shape.C,
          shape.H,
          shape.W,
          shape.O,
          shape.KH,
          shape.KW,
          shape.OH,
          shape.OW,
          shape.stride_h,
          shape.stride_w,
          shape.pad_h,
          shape.pad_w,
          shape.dilation_h,
          shape.dilation_w,
          shape.groups,
          static_cast<std::int64_t>(shape.layout),
          shape.y_channels,
          static_cast<std::int64_t>(shape.activation),
          threads,
          static_cast<std::int64_t>(element),
          bias,
          saved};
}

inline const char* decision_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "conv2d";
    case Pass::to_x:
      return "conv2d_grad_x";
    case Pass::to_weight:
      return "conv2d_grad_weight";
  }
  return "";
}

/// Whether a pass of a channels-last convolution takes Winograd's way; run(winograd) runs the pass alone.
template <class T, class Run>
bool takes_winograd(const Context& context, const Trial& trial, const Run& run) {
  const auto choose = [&] {
    if (!has_winograd<T>(trial.pass, trial.shape)) return false;
    const std::string_view forced = forced_way(context, decision_of(trial.pass));
    if (forced == "tiles" || forced == "rows") return forced == "tiles";
    if (context.deterministic) return winograd_is_faster<T>(trial.pass, trial.shape);
    static Trials trials;
    return trials.winograd_is_faster(trial, run);
  };
  const bool winograd = choose();
  took_way(context, decision_of(trial.pass), winograd ? "tiles" : "rows");
  return winograd;
}

}  // namespace tern::vectorized
