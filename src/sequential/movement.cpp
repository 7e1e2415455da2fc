#include <algorithm>
#include <cstddef>

#include "loops.hpp"
#include "sequential.hpp"
#include "tern/core/convert.hpp"

namespace tern::sequential {
namespace {

using kernels::Strided;

void copy(Context&, void* out, const void* in, const Strided& shape, std::size_t element) {
  const auto bytes = static_cast<std::int64_t>(element);
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t, const Index& index) {
    std::copy_n(static_cast<const std::byte*>(in) + offset(shape.rank, index, shape.in) * bytes, bytes,
                static_cast<std::byte*>(out) + offset(shape.rank, index, shape.out) * bytes);
  });
}

void fill(Context&, void* out, std::int64_t n, const void* value, std::size_t element) {
  const auto bytes = static_cast<std::int64_t>(element);
  for (std::int64_t i = 0; i < n; ++i)
    std::copy_n(static_cast<const std::byte*>(value), bytes, static_cast<std::byte*>(out) + i * bytes);
}

void gather(Context&, void* out, const void* in, const std::int64_t* index, std::int64_t rows, std::int64_t in_rows,
            std::int64_t row_bytes) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::byte* to = static_cast<std::byte*>(out) + row * row_bytes;
    if (0 <= index[row] && index[row] < in_rows)
      std::copy_n(static_cast<const std::byte*>(in) + index[row] * row_bytes, row_bytes, to);
    else
      std::fill_n(to, row_bytes, std::byte{0});
  }
}

void cast(Context&, void* out, DType to, const void* in, DType from, std::int64_t n) {
  with_type_of(to, [&]<class To>(To) {
    with_type_of(from, [&]<class From>(From) {
      for (std::int64_t i = 0; i < n; ++i) static_cast<To*>(out)[i] = convert<To>(static_cast<const From*>(in)[i]);
    });
  });
}

}  // namespace

kernels::Movement movement() { return {.copy = copy, .fill = fill, .gather = gather, .cast = cast}; }

}  // namespace tern::sequential
