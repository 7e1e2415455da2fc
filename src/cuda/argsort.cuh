#pragma once
// Sorting along a dimension, of floating numbers and of integers, with cub's stable radix sorts.

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "cuda/elementwise.cuh"

namespace tern::cuda {

/// An unsigned key in the order of the elements: -0 equals 0, NaN above all.
template <class T>
struct SortKey;
template <>
struct SortKey<float> {
  using Type = std::uint32_t;
  static __device__ Type of(float x) {
    if (isnan(x)) return ~Type{0};
    const Type bits = __float_as_uint(x == 0 ? 0.0f : x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
};
template <>
struct SortKey<double> {
  using Type = std::uint64_t;
  static __device__ Type of(double x) {
    if (isnan(x)) return ~Type{0};
    const auto bits = static_cast<Type>(__double_as_longlong(x == 0 ? 0.0 : x));
    return bits >> 63 ? ~bits : bits | Type{1} << 63;
  }
};

template <class T>
requires is_half<T>
struct SortKey<T> {
  using Type = std::uint16_t;
  static __device__ Type of(T x) {
    if (isnan(widened(x))) return static_cast<Type>(~Type{0});
    const unsigned bits = widened(x) == 0 ? 0u : x.bits;
    return static_cast<Type>(bits & 0x8000u ? ~bits : bits | 0x8000u);
  }
};

template <>
struct SortKey<std::int32_t> {
  using Type = std::uint32_t;
  static __device__ Type of(std::int32_t x) { return static_cast<Type>(x) ^ 0x80000000u; }
};
template <>
struct SortKey<std::int64_t> {
  using Type = std::uint64_t;
  static __device__ Type of(std::int64_t x) {
    return static_cast<Type>(x) ^ Type { 1 } << 63;
  }
};
template <>
struct SortKey<std::uint8_t> {
  using Type = std::uint8_t;
  static __device__ Type of(std::uint8_t x) { return x; }
};
template <>
struct SortKey<bool> {
  using Type = std::uint8_t;
  static __device__ Type of(bool x) { return x; }
};

/// Line by line, the keys and positions of the elements.
template <class T>
__global__ void argsort_keys_kernel(typename SortKey<T>::Type* keys, std::int64_t* positions, const T* in,
                                    std::int64_t n, std::int64_t length, std::int64_t inner, bool descending) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t line = i / length, position = i - line * length;
    const auto key = SortKey<T>::of(in[(line / inner * length + position) * inner + line % inner]);
    keys[i] = descending ? static_cast<typename SortKey<T>::Type>(~key) : key;
    positions[i] = position;
  }
}

/// Moves sorted positions, line by line, to their destination.
template <class Position>
__global__ void argsort_place_kernel(Position* order, const Position* sorted, std::int64_t n, std::int64_t length,
                                     std::int64_t inner) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t line = i / length, position = i - line * length;
    order[(line / inner * length + position) * inner + line % inner] = sorted[i];
  }
}

struct LineBegin {
  std::int64_t length;
  __host__ __device__ std::int64_t operator()(std::int64_t line) const { return line * length; }
};

template <class T>
void argsort(Context& context, std::int64_t* order, const T* in, const kernels::Axis& axis, bool descending) {
  using Key = typename SortKey<T>::Type;
  const std::int64_t lines = axis.outer * axis.inner, length = axis.length, n = lines * length;
  if (n == 0) return;
  const auto count = static_cast<std::size_t>(n);
  Scratch positions_in(context, count * sizeof(std::int64_t)), key_arrays(context, 2 * count * sizeof(Key));
  Scratch positions_out(context, axis.inner == 1 ? 0 : count * sizeof(std::int64_t));
  std::int64_t* const positions = positions_in.as<std::int64_t>();
  std::int64_t* const sorted = axis.inner == 1 ? order : positions_out.as<std::int64_t>();
  Key *const keys = key_arrays.as<Key>(), *const sorted_keys = keys + n;
  launch(context, Grid(blocks_for(n), 256), argsort_keys_kernel<T>, keys, positions, in, n, length, axis.inner,
         descending);
  // cub reports its scratch size first, then sorts. Both sorts are stable.
  const auto run = [&](const auto& sort) {
    std::size_t size = 0;
    check(sort(nullptr, size), "sizing the scratch of argsort");
    Scratch storage(context, std::max<std::size_t>(size, 1));
    check(sort(storage.as<void>(), size), "argsort");
  };
  constexpr std::int64_t block_sorts = 1 << 15;  // longer lines use the whole card, one after the other
  constexpr std::int64_t at_once = 1 << 30;      // cub counts elements and segments in ints
  if (length > block_sorts) {
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t begin = line * length;
      run([&](void* storage, std::size_t& size) {
        return cub::DeviceRadixSort::SortPairs(storage, size, keys + begin, sorted_keys + begin, positions + begin,
                                               sorted + begin, length, 0, static_cast<int>(8 * sizeof(Key)),
                                               stream_of(context));
      });
    }
  } else {
    const std::int64_t most = std::max<std::int64_t>(at_once / length, 1);
    for (std::int64_t line = 0; line < lines; line += most) {
      const std::int64_t some = std::min(most, lines - line), begin = line * length;
      const auto begins =
          thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), LineBegin{length});
      run([&](void* storage, std::size_t& size) {
        return cub::DeviceSegmentedRadixSort::SortPairs(
            storage, size, keys + begin, sorted_keys + begin, positions + begin, sorted + begin,
            static_cast<int>(some * length), static_cast<int>(some), begins, begins + 1, 0,
            static_cast<int>(8 * sizeof(Key)), stream_of(context));
      });
    }
  }
  if (axis.inner != 1)
    launch(context, Grid(blocks_for(n), 256), argsort_place_kernel<std::int64_t>, order, sorted, n, length, axis.inner);
}

}  // namespace tern::cuda
