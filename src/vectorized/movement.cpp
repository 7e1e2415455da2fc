// Moves elements of any dtype. Nothing is computed, so plain loops in the right order reach the memory's speed.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/families.hpp"
#include "tern/core/convert.hpp"
#include "vectorized/halves.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::Strided;

constexpr double nanoseconds_per_byte = 0.08, nanoseconds_per_strided_element = 0.8;

// ---- copy ----------------------------------------------------------------------------------------------------------

/// The dimensions that an inner loop leaves, and a position in them.
class Outer {
 public:
  /// All dimensions of `shape` except `a` and `b`, from the position `flat`.
  Outer(const Strided& shape, int a, int b, std::int64_t flat) {
    for (int i = shape.rank - 1; i >= 0; --i) {
      if (i == a || i == b) continue;
      size_[rank_] = shape.size[i];
      in_stride_[rank_] = shape.in[i];
      out_stride_[rank_] = shape.out[i];
      index_[rank_] = flat % shape.size[i];
      flat /= shape.size[i];
      in += index_[rank_] * in_stride_[rank_];
      out += index_[rank_] * out_stride_[rank_];
      ++rank_;
    }
  }
  void next() {
    for (int i = 0; i < rank_; ++i) {
      in += in_stride_[i];
      out += out_stride_[i];
      if (++index_[i] < size_[i]) return;
      in -= size_[i] * in_stride_[i];
      out -= size_[i] * out_stride_[i];
      index_[i] = 0;
    }
  }
  std::int64_t in = 0, out = 0;  ///< offsets in elements

 private:
  int rank_ = 0;
  std::int64_t size_[kernels::max_rank], in_stride_[kernels::max_rank], out_stride_[kernels::max_rank];
  std::int64_t index_[kernels::max_rank];
};

/// The dimension with the smallest stride.
int fastest(const std::int64_t* stride, int rank) {
  const auto nearer = [](std::int64_t a, std::int64_t b) { return std::abs(a) < std::abs(b); };
  return static_cast<int>(std::min_element(stride, stride + rank, nearer) - stride);
}

/// Whole runs are contiguous on both sides.
template <class Element>
void copy_runs(const Context& context, Element* out, const Element* in, const Strided& shape, int inner) {
  const std::int64_t run = shape.size[inner];
  const auto bytes = static_cast<std::size_t>(run) * sizeof(Element);
  if (run == shape.count)
    return parallel_for(context, run, nanoseconds_per_byte * sizeof(Element),
                        [&](std::int64_t begin, std::int64_t end) {
                          std::memcpy(out + begin, in + begin, static_cast<std::size_t>(end - begin) * sizeof(Element));
                        });
  parallel_for(context, shape.count / run, 4 + nanoseconds_per_byte * static_cast<double>(bytes),
               [&](std::int64_t begin, std::int64_t end) {
                 Outer outer(shape, inner, inner, begin);
                 for (std::int64_t i = begin; i < end; ++i, outer.next())
                   std::memcpy(out + outer.out, in + outer.in, bytes);
               });
}

/// One dimension with any strides.
template <class Element>
void copy_strided(const Context& context, Element* out, const Element* in, const Strided& shape, int inner) {
  const std::int64_t run = shape.size[inner], out_stride = shape.out[inner], in_stride = shape.in[inner];
  parallel_for(context, shape.count / run, 4 + nanoseconds_per_strided_element * static_cast<double>(run),
               [&](std::int64_t begin, std::int64_t end) {
                 Outer outer(shape, inner, inner, begin);
                 for (std::int64_t i = begin; i < end; ++i, outer.next()) {
                   Element* to = out + outer.out;
                   const Element* from = in + outer.in;
                   for (std::int64_t j = 0; j < run; ++j) to[j * out_stride] = from[j * in_stride];
                 }
               });
}

/// A transposition of `row` (adjacent in the input) and `column` (adjacent in the output), in tiles that pass through a
/// small array: every line is read once and written once, even if the lines of a column compete for one cache set.
template <class Element>
void copy_tiles(const Context& context, Element* out, const Element* in, const Strided& shape, int row, int column) {
  constexpr std::int64_t tile = 32;
  const std::int64_t rows = shape.size[row], columns = shape.size[column];
  const std::int64_t in_row = shape.in[row], in_column = shape.in[column];
  const std::int64_t out_row = shape.out[row], out_column = shape.out[column];
  const std::int64_t bands = (rows + tile - 1) / tile, items = shape.count / (rows * columns) * bands;
  const double cost = nanoseconds_per_strided_element * static_cast<double>(std::min(tile, rows) * columns);
  parallel_for(context, items, cost, [&](std::int64_t begin, std::int64_t end) {
    Element buffer[tile][tile + 1];
    for (std::int64_t item = begin; item < end; ++item) {
      const Outer outer(shape, row, column, item / bands);
      const std::int64_t first = item % bands * tile, height = std::min(tile, rows - first);
      for (std::int64_t left = 0; left < columns; left += tile) {
        const std::int64_t width = std::min(tile, columns - left);
        const Element* from = in + outer.in + first * in_row + left * in_column;
        Element* to = out + outer.out + first * out_row + left * out_column;
        for (std::int64_t c = 0; c < width; ++c)
          if (in_row == 1)
            std::memcpy(buffer[c], from + c * in_column, static_cast<std::size_t>(height) * sizeof(Element));
          else
            for (std::int64_t r = 0; r < height; ++r) buffer[c][r] = from[c * in_column + r * in_row];
        for (std::int64_t r = 0; r < height; ++r)
          for (std::int64_t c = 0; c < width; ++c) to[r * out_row + c * out_column] = buffer[c][r];
      }
    }
  });
}

/// A transposition into `columns` adjacent elements, such as the colours of a pixel.
template <int columns, class Element>
void interleave(Element* __restrict out, const Element* __restrict in, std::int64_t in_column, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) out[r * columns + c] = in[c * in_column + r];
}

/// copy_tiles with 2 to 4 columns and without gaps in the output.
template <class Element>
void copy_interleaved(const Context& context, Element* out, const Element* in, const Strided& shape, int row,
                      int column) {
  constexpr std::int64_t band = 1024;
  const std::int64_t rows = shape.size[row], columns = shape.size[column], in_column = shape.in[column];
  const std::int64_t bands = (rows + band - 1) / band, items = shape.count / (rows * columns) * bands;
  const auto run = columns == 2   ? interleave<2, Element>
                   : columns == 3 ? interleave<3, Element>
                                  : interleave<4, Element>;
  const double cost = nanoseconds_per_byte * static_cast<double>(std::min(band, rows) * columns) * 2 * sizeof(Element);
  parallel_for(context, items, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const Outer outer(shape, row, column, item / bands);
      const std::int64_t first = item % bands * band;
      run(out + outer.out + first * columns, in + outer.in + first, in_column, std::min(band, rows - first));
    }
  });
}

template <class Element>
void copy_elements(const Context& context, void* out, const void* in, const Strided& shape) {
  auto* to = static_cast<Element*>(out);
  const auto* from = static_cast<const Element*>(in);
  if (shape.rank == 0) {
    *to = *from;
    return;
  }
  const int row = fastest(shape.in, shape.rank), column = fastest(shape.out, shape.rank);
  const std::int64_t columns = shape.size[column];
  const bool narrow = row != column && columns >= 2 && columns <= 4 && shape.out[column] == 1 &&
                      shape.out[row] == columns && shape.in[row] == 1;
  if (narrow)
    copy_interleaved(context, to, from, shape, row, column);
  else if (row != column && shape.size[row] > 1 && shape.in[row] != 0)
    copy_tiles(context, to, from, shape, row, column);
  else if (shape.in[column] == 1 && shape.out[column] == 1)
    copy_runs(context, to, from, shape, column);
  else
    copy_strided(context, to, from, shape, column);
}

void copy(Context& context, void* out, const void* in, const Strided& shape, std::size_t element) {
  if (shape.count <= 0) return;
  switch (element) {
    case 1:
      return copy_elements<std::uint8_t>(context, out, in, shape);
    case 2:
      return copy_elements<std::uint16_t>(context, out, in, shape);
    case 4:
      return copy_elements<std::uint32_t>(context, out, in, shape);
    default:
      return copy_elements<std::uint64_t>(context, out, in, shape);
  }
}

// ---- fill and gather -----------------------------------------------------------------------------------------------

void fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  constexpr std::size_t block = 1024;
  alignas(64) std::byte pattern[block];
  const std::size_t total = static_cast<std::size_t>(std::max<std::int64_t>(n, 0)) * element;
  for (std::size_t i = 0; i < std::min(block, total); i += element) std::memcpy(pattern + i, value, element);
  auto* to = static_cast<std::byte*>(out);
  const std::size_t blocks = (total + block - 1) / block;
  parallel_for(context, static_cast<std::int64_t>(blocks), nanoseconds_per_byte / 2 * block,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::size_t last = std::min(total, static_cast<std::size_t>(end) * block);
                 for (std::size_t at = static_cast<std::size_t>(begin) * block; at < last; at += block)
                   std::memcpy(to + at, pattern, std::min(block, last - at));
               });
}

void gather(Context& context, void* out, const void* in, const std::int64_t* index, std::int64_t rows,
            std::int64_t in_rows, std::int64_t row_bytes) {
  const auto bytes = static_cast<std::size_t>(row_bytes);
  if (bytes == 0) return;
  parallel_for(context, rows, 5 + nanoseconds_per_byte * static_cast<double>(row_bytes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   auto* to = static_cast<std::byte*>(out) + row * row_bytes;
                   if (index[row] >= 0 && index[row] < in_rows)
                     std::memcpy(to, static_cast<const std::byte*>(in) + index[row] * row_bytes, bytes);
                   else
                     std::memset(to, 0, bytes);
                 }
               });
}

// ---- cast ----------------------------------------------------------------------------------------------------------

/// Blocks of a constant length, which compilers vectorize.
template <class To, class From>
void convert_all(To* __restrict out, const From* __restrict in, std::int64_t n) {
  if constexpr ((std::is_same_v<To, float> && std::is_same_v<From, Float16>) ||
                (std::is_same_v<To, Float16> && std::is_same_v<From, float>))
    return convert_float16(out, in, n);
  constexpr std::int64_t block = 64;
  std::int64_t i = 0;
  for (; i + block <= n; i += block)
    for (std::int64_t j = 0; j < block; ++j) out[i + j] = convert<To>(in[i + j]);
  for (; i < n; ++i) out[i] = convert<To>(in[i]);
}

void cast(Context& context, void* out, DType to, const void* in, DType from, std::int64_t n) {
  with_type_of(to, [&]<class To>(To) {
    with_type_of(from, [&]<class From>(From) {
      if constexpr (kernels::casts(dtype_of<To>) && kernels::casts(dtype_of<From>)) {
        constexpr double nanoseconds = 0.4;
        parallel_for(context, n, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
          convert_all(static_cast<To*>(out) + begin, static_cast<const From*>(in) + begin, end - begin);
        });
      } else {
        kernels::left_out();
      }
    });
  });
}

}  // namespace

kernels::Movement movement() { return {.copy = copy, .fill = fill, .gather = gather, .cast = cast}; }

}  // namespace tern::vectorized
