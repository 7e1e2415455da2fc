#pragma once
// Work on whole rows (softmax, cross-entropy): groups of threads walk a row and hold it in registers if it is short
// enough, so that it is read once.

#include "cuda/long_rows.cuh"

namespace tern::cuda {

/// A contiguous row of `length` for `Threads` threads, each with `Items` elements in registers; 0: any length, read
/// again by every pass.
template <int Threads, int Items>
struct RowWalk {
  static constexpr int items = Items;
  std::int64_t base, length;

  __device__ std::int64_t at(std::int64_t i) const { return base + i; }
  /// The k-th of this thread, which may be behind the end.
  static __device__ int element(int k) { return Group<Threads>::rank() + k * Threads; }
  /// use(k, i) for each element i of this thread, its k-th.
  template <class Use>
  __device__ void each(Use use) const {
    if constexpr (Items > 0) {
      const int end = static_cast<int>(length);
#pragma unroll
      for (int k = 0; k < Items; ++k)
        if (const int i = element(k); i < end) use(k, std::int64_t{i});
    } else {
      for (std::int64_t i = Group<Threads>::rank(); i < length; i += Threads) use(0, i);
    }
  }
  template <class T, class Combine>
  __device__ T reduce(T value, Combine combine) const {
    return Group<Threads>::reduce(value, combine);
  }
};

/// A strided row for one thread.
struct ColumnWalk {
  static constexpr int items = 0;
  std::int64_t base, length, stride;

  __device__ std::int64_t at(std::int64_t i) const { return base + i * stride; }
  template <class Use>
  __device__ void each(Use use) const {
    for (std::int64_t i = 0; i < length; ++i) use(0, i);
  }
  template <class T, class Combine>
  __device__ T reduce(T value, Combine) const {
    return value;
  }
};

/// The elements of `in` along a row that registers hold, and -infinity behind them, so that work on all of them needs
/// no bounds.
template <class Walk, class T>
struct HeldElements {
  using S = Scalar<T>;
  S value[Walk::items];

  __device__ HeldElements(const Walk& walk, const T* in) {
    const int end = static_cast<int>(walk.length);
#pragma unroll
    for (int k = 0; k < Walk::items; ++k) {
      const int i = Walk::element(k);
      value[k] = i < end ? widened(in[walk.at(i)]) : -infinity<S>();
    }
  }
};

/// The softmax of a held row: each thread's exp(x - largest), and their sum.
template <class Walk, class T>
class SoftmaxRow {
 public:
  using S = Scalar<T>;
  S largest = -infinity<S>(), sum = 0;

  __device__ SoftmaxRow(const Walk& walk, const HeldElements<Walk, T>& held) : held_(held) {
#pragma unroll
    for (const S& value : held_.value) largest = ::fmax(largest, value);
    largest = walk.reduce(largest, Largest{});
#pragma unroll
    for (S& value : held_.value) {
      value = ::exp(value - largest);
      sum += value;
    }
    sum = walk.reduce(sum, Plus{});
    scale_ = 1 / sum;
  }
  __device__ S probability(int k) const { return held_.value[k] * scale_; }

 private:
  HeldElements<Walk, T> held_;
  S scale_;
};

template <int Threads, int Items>
struct RowShape {
  static constexpr int threads = Threads, items = Items;
  using Walk = RowWalk<Threads, Items>;
};

/// Calls `function(RowShape<Threads, Items>{})` with the shape for rows of this length; false if there is none.
template <class Function>
bool with_row(std::int64_t rows, std::int64_t length, Function function) {
  if (length <= 16)
    function(RowShape<8, 2>{});
  else if (length <= 256)
    function(RowShape<32, 8>{});
  else if (length <= 1024 && rows >= 2048)  // enough rows to fill the card with warps, which need no barriers
    function(RowShape<32, 32>{});
  else if (length <= 2048)
    function(RowShape<256, 8>{});
  else
    return false;
  return true;
}

}  // namespace tern::cuda
