// A mode in a shared library: linear layers, convolutions and products run on the array, everything else is borrowed
// from `vectorized`. It does not link Tern.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <tern/modes/borrow.hpp>
#include <tern/modes/plugin.hpp>

#include "product.hpp"

namespace accelerator {
namespace {

using tern::Context;
using tern::kernels::Activation;

/// The accelerator's own memory: the host must not access it, so Tern moves tensors.
class CardMemory final : public tern::Memory {
 public:
  std::string_view name() const override { return "accelerator"; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t bytes, void*) override {
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 && in_use_ + bytes > limit_) throw tern::OutOfMemory("accelerator: its memory is full");
    void* const block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block == nullptr) throw tern::OutOfMemory("accelerator: the host has no memory left to act it");
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    return block;
  }
  void release(void* pointer, std::size_t bytes, void*) noexcept override {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    std::free(pointer);
  }
  void copy_in(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  tern::MemoryStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return {in_use_, in_use_, peak_, limit_};
  }
  void reset_peak() override {
    const std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }
  void trim() override {}
  void set_limit(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  mutable std::mutex mutex_;
  std::size_t in_use_ = 0, peak_ = 0, limit_ = 0;
};

/// There is one array; threads take turns.
struct Card {
  std::mutex mutex;
  SystolicArray array;
};
Card& card() {
  static Card card;
  return card;
}

float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::relu:
      return x <= 0 ? 0 : x;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::relu6:
      return x <= 0 ? 0 : x > 6 ? 6 : x;
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0F)) / 2;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::hardswish:
      return x * (x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6;
    default:
      return x;
  }
}

void linear(Context&, float* y, const float* x, const float* weight, const float* bias,
            const tern::kernels::Linear& s) {
  const std::lock_guard turn(card().mutex);
  multiply_in_8_bits(
      card().array, s.rows, s.in, s.out, [&](std::int64_t i, std::int64_t k) { return x[i * s.in + k]; },
      [&](std::int64_t k, std::int64_t n) { return weight[n * s.in + k]; },
      [&](std::int64_t i, std::int64_t n, float sum) {
        y[i * s.out + n] = activated(s.activation, bias == nullptr ? sum : sum + bias[n]);
      });
}

void matmul(Context&, float* out, const float* a, const float* b, const tern::kernels::Matmul& s) {
  const std::lock_guard turn(card().mutex);
  for (std::int64_t batch = 0; batch < s.batch; ++batch, out += s.m * s.n, a += s.stride_a, b += s.stride_b)
    multiply_in_8_bits(
        card().array, s.m, s.k, s.n,
        [&](std::int64_t i, std::int64_t k) { return s.transpose_a ? a[k * s.m + i] : a[i * s.k + k]; },
        [&](std::int64_t k, std::int64_t j) { return s.transpose_b ? b[j * s.k + k] : b[k * s.n + j]; },
        [&](std::int64_t i, std::int64_t j, float sum) { out[i * s.n + j] = sum; });
}

tern::kernels::Layout layout(const Context&, const tern::kernels::Conv2d&) {
  return tern::kernels::Layout::channels_first;
}

/// Every group is a product: rows are output positions of all images, columns output channels.
void conv2d(Context&, float* y, const float* x, const float* weight, const float* bias,
            const tern::kernels::Conv2d& s) {
  const std::lock_guard turn(card().mutex);
  const std::int64_t area = s.OH * s.OW, channels = s.C / s.groups, outputs = s.O / s.groups;
  const std::int64_t inner = channels * s.KH * s.KW;
  for (std::int64_t group = 0; group < s.groups; ++group)
    multiply_in_8_bits(
        card().array, s.N * area, inner, outputs,
        [&](std::int64_t i, std::int64_t k) {
          const std::int64_t image = i / area, oh = i % area / s.OW, ow = i % s.OW;
          const std::int64_t c = k / (s.KH * s.KW), kh = k / s.KW % s.KH, kw = k % s.KW;
          const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
          const std::int64_t w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
          if (h < 0 || h >= s.H || w < 0 || w >= s.W) return 0.0f;
          return x[((image * s.C + group * channels + c) * s.H + h) * s.W + w];
        },
        [&](std::int64_t k, std::int64_t n) { return weight[(group * outputs + n) * inner + k]; },
        [&](std::int64_t i, std::int64_t n, float sum) {
          const std::int64_t o = group * outputs + n;
          y[(i / area * s.O + o) * area + i % area] = activated(s.activation, bias == nullptr ? sum : sum + bias[o]);
        });
}

const tern::Mode& mode() {
  static constexpr const char* own[] = {"linear", "matmul", "conv2d"};
  static CardMemory memory;
  static const tern::Mode mode = [] {
    tern::Mode mine =
        tern::borrowing_mode("systolic", "a simulated array of 16 x 16 8-bit multipliers", memory, "vectorized");
    mine.operators.dot.linear = linear;
    mine.operators.dot.matmul = matmul;
    mine.operators.conv.layout = layout;
    mine.operators.conv.conv2d = conv2d;
    mine.own = own;
    return mine;
  }();
  return mode;
}

}  // namespace
}  // namespace accelerator

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static const tern::Plugin plugin{.mode = &accelerator::mode()};
  return &plugin;
}

/// For programs that link it or look it up: the cycles that the array has worked.
extern "C" std::int64_t systolic_cycles();
std::int64_t systolic_cycles() {
  const std::lock_guard turn(accelerator::card().mutex);
  return accelerator::card().array.cycles();
}
