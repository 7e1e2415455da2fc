#include <bit>
#include <cmath>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/argsort.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "tern/kernels/shape.hpp"

namespace tern::cuda {
namespace {

// ---- gather_backward ----

/// Few rows: every element of the result scans all of them.
template <class T>
__global__ void gather_backward_kernel(T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
                                       std::int64_t in_rows, std::int64_t columns) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < in_rows * columns; i += global_threads()) {
    const std::int64_t target = i / columns, column = i - target * columns;
    Scalar<T> sum = 0;
#pragma unroll 4
    for (std::int64_t row = 0; row < rows; ++row) {
      if (index[row] == target) sum += widened(grad_out[row * columns + column]);
    }
    put(grad_in[i], sum);
  }
}

/// The sort keys that bring the rows of one target together; a bad index sorts after all targets.
__global__ void sort_keys_kernel(std::int64_t* keys, std::int64_t* numbers, const std::int64_t* index,
                                 std::int64_t rows, std::int64_t in_rows) {
  begin_kernel();
  for (std::int64_t row = global_thread(); row < rows; row += global_threads()) {
    keys[row] = index[row] < 0 || index[row] >= in_rows ? in_rows : index[row];
    numbers[row] = row;
  }
}

/// The first of the sorted keys that is not below `key`.
__device__ std::int64_t lower_bound(const std::int64_t* keys, std::int64_t count, std::int64_t key) {
  std::int64_t begin = 0;
  while (count > 0) {
    const std::int64_t half = count / 2;
    const bool below = keys[begin + half] < key;
    begin = below ? begin + half + 1 : begin;
    count = below ? count - half - 1 : half;
  }
  return begin;
}

/// One block per target row: the sort was stable, so its rows are in increasing order.
template <class T>
__global__ void sum_sorted_rows_kernel(T* grad_in, const T* grad_out, const std::int64_t* keys,
                                       const std::int64_t* numbers, std::int64_t rows, std::int64_t in_rows,
                                       std::int64_t columns) {
  begin_kernel();
  for (std::int64_t target = blockIdx.x; target < in_rows; target += gridDim.x) {
    const std::int64_t begin = lower_bound(keys, rows, target), end = lower_bound(keys, rows, target + 1);
    for (std::int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      Scalar<T> sum = 0;
#pragma unroll 4
      for (std::int64_t i = begin; i < end; ++i) sum += widened(grad_out[numbers[i] * columns + column]);
      put(grad_in[target * columns + column], sum);
    }
  }
}

template <class T>
void gather_backward_sorted(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index,
                            std::int64_t rows, std::int64_t in_rows, std::int64_t columns) {
  const std::size_t bytes = static_cast<std::size_t>(rows) * sizeof(std::int64_t);
  Scratch arrays(context, 4 * bytes);
  std::int64_t* const keys = arrays.as<std::int64_t>();
  std::int64_t *const numbers = keys + rows, *const sorted_keys = numbers + rows, *const sorted = sorted_keys + rows;
  launch(context, Grid(blocks_for(rows), 256), sort_keys_kernel, keys, numbers, index, rows, in_rows);
  const int bits = std::bit_width(static_cast<std::uint64_t>(in_rows));
  const auto sort = [&](void* storage, std::size_t& size) {
    check(cub::DeviceRadixSort::SortPairs(storage, size, keys, sorted_keys, numbers, sorted, rows, 0, bits,
                                          stream_of(context)),
          "sorting the indices of gather_backward");
  };
  std::size_t size = 0;
  sort(nullptr, size);
  Scratch storage(context, std::max<std::size_t>(size, 1));
  sort(storage.as<void>(), size);
  const unsigned threads = columns >= 256 ? 256 : columns >= 64 ? 64 : 32;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(in_rows, 1 << 30));
  launch(context, Grid(blocks, threads), sum_sorted_rows_kernel<T>, grad_in, grad_out, sorted_keys, sorted, rows,
         in_rows, columns);
}

// ---- one_hot ----

template <class T>
__global__ void one_hot_kernel(T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes,
                               FaultCell* cell) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < rows * classes; i += global_threads()) {
    const std::int64_t row = i / classes, c = i - row * classes, label = labels[row];
    put(out[i], c == label ? Scalar<T>(1) : Scalar<T>(0));
    if (c == 0 && (label < 0 || label >= classes)) report(cell, Fault::label, label, classes);
  }
}

// ---- dropout ----

/// One thread per quadruple of words. Packed: whole quadruples move in accesses of 16 bytes.
template <bool Packed, class T>
__global__ void dropout_kernel(T* out, const T* in, std::int64_t n, std::uint32_t threshold, Scalar<T> keep,
                               random::Key key) {
  begin_kernel();
  const std::uint64_t offset = key.offset + (key.base == nullptr ? 0 : *key.base);
  for (std::int64_t quad = global_thread(); quad * 4 < n; quad += global_threads()) {
    const random::Words words = random::philox(key.seed, static_cast<std::uint64_t>(quad), offset);
    const auto drop = [&](int lane, Scalar<T> value) {
      return words.word[lane] >> 8 >= threshold ? value / keep : Scalar<T>(0);
    };
    if (Packed && quad * 4 + 4 <= n) {
      auto values = load<4>(in + quad * 4);
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) values.value[lane] = drop(lane, values.value[lane]);
      store<4>(out + quad * 4, values);
    } else {
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        if (quad * 4 + lane < n) put(out[quad * 4 + lane], drop(lane, widened(in[quad * 4 + lane])));
      }
    }
  }
}

// ---- the slots ----

template <class T>
void gather_backward(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
                     std::int64_t in_rows, std::int64_t columns) {
  if (in_rows * columns == 0) return;
  if (rows > 256) return gather_backward_sorted(context, grad_in, grad_out, index, rows, in_rows, columns);
  launch(context, Grid(blocks_for(in_rows * columns), 256), gather_backward_kernel<T>, grad_in, grad_out, index, rows,
         in_rows, columns);
}

template <class T>
void one_hot(Context& context, T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  launch(context, Grid(blocks_for(rows * classes), 256), one_hot_kernel<T>, out, labels, rows, classes,
         fault_cell(context));
}

template <class T>
void dropout(Context& context, T* out, const T* in, std::int64_t n, double probability, const random::Key& key) {
  // uniform(word) = (word >> 8) / 2^24, so comparing whole numbers is exact.
  const auto threshold = static_cast<std::uint32_t>(std::ceil(probability * 0x1p24));
  const bool packed = aligned<4>(out) && aligned<4>(in);
  launch(context, Grid(blocks_for(ceil_div(n, 4)), 256), packed ? dropout_kernel<true, T> : dropout_kernel<false, T>,
         out, in, n, threshold, static_cast<Scalar<T>>(1 - probability), key);
}

}  // namespace

template <class T>
kernels::Shape<T> shape() {
  return {.gather_backward = gather_backward<T>, .argsort = argsort<T>, .one_hot = one_hot<T>, .dropout = dropout<T>};
}
template kernels::Shape<float> shape<float>();
template kernels::Shape<double> shape<double>();
template kernels::Shape<BFloat16> shape<BFloat16>();
template kernels::Shape<Float16> shape<Float16>();

}  // namespace tern::cuda
