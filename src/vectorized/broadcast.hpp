#pragma once
// Walks a broadcast: passes its inputs to a loop over contiguous arrays, in pieces as long as possible.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tern/kernels/arithmetic.hpp"
#include "vectorized/parallel.hpp"

namespace tern::vectorized {

/// `count` rows of n elements. Those of input k begin stride[k] apart; a row of it may be one repeated element.
struct Rows {
  std::int64_t count = 1, n = 0;
  std::int64_t stride[3] = {};
  bool repeated[3] = {};
};

namespace detail {

inline constexpr std::int64_t least_row = 8;   ///< shorter rows are gathered
inline constexpr std::int64_t block = 512;     ///< elements gathered at a time; three blocks of doubles fit half an L1
inline constexpr std::int64_t long_run = 128;  ///< inner dimensions of at least this length are walked run by run

/// One input of a broadcast: its position, and a block for elements that are not contiguous.
template <class T>
struct Input {
  const T* data;
  const std::int64_t* stride;
  bool dense;  ///< has the output's layout
  std::int64_t offset = 0;
  alignas(64) T gathered[block];

  Input(const T* data_, const std::int64_t* stride_, const kernels::Broadcast& shape)
      : data(data_), stride(stride_), dense(true) {
    std::int64_t contiguous = 1;
    for (int i = shape.rank - 1; i >= 0; contiguous *= shape.size[i], --i)
      dense = dense && (stride[i] == contiguous || shape.size[i] == 1);
  }
};

/// The multi-dimensional position of a flat output index; moves the inputs along.
template <class... In>
struct Position {
  const kernels::Broadcast& shape;
  std::tuple<Input<In>...>& inputs;
  std::int64_t index[kernels::max_rank] = {};

  Position(const kernels::Broadcast& shape_, std::tuple<Input<In>...>& inputs_, std::int64_t flat)
      : shape(shape_), inputs(inputs_) {
    for (int i = shape.rank - 1; i >= 0; --i) {
      index[i] = flat % shape.size[i];
      flat /= shape.size[i];
      move(i, index[i]);
    }
  }
  std::int64_t left(int dimension) const { return shape.size[dimension] - index[dimension]; }
  std::int64_t inner_left() const { return left(shape.rank - 1); }
  /// Advances by at most inner_left() elements.
  void advance(std::int64_t steps) { advance(shape.rank - 1, steps); }
  /// Advances by at most left(dimension) steps of a dimension; those within it are at 0.
  void advance(int dimension, std::int64_t steps) {
    index[dimension] += steps;
    move(dimension, steps);
    while (index[dimension] == shape.size[dimension] && dimension > 0) {
      move(dimension, -index[dimension]);
      index[dimension] = 0;
      --dimension;
      ++index[dimension];
      move(dimension, 1);
    }
  }

 private:
  void move(int dimension, std::int64_t steps) {
    std::apply([&](auto&... input) { ((input.offset += steps * input.stride[dimension]), ...); }, inputs);
  }
};

/// Repeats a value; groups of a constant length become vector stores.
template <class T>
void repeat(T* out, std::int64_t n, T value) {
  constexpr std::int64_t group = 16;
  static_assert(block % group == 0);
  for (std::int64_t i = 0; i < n; i += group)
    for (std::int64_t j = 0; j < group; ++j) out[i + j] = value;
}

/// The `n` elements from `offset` at `stride`: in place, or gathered. A repeated element was filled in before.
template <class T>
const T* piece(Input<T>& input, std::int64_t stride, std::int64_t done, std::int64_t n) {
  if (stride == 1) return input.data + input.offset + done;
  if (stride != 0) {
    const T* from = input.data + input.offset + done * stride;
    for (std::int64_t i = 0; i < n; ++i) input.gathered[i] = from[i * stride];
  }
  return input.gathered;
}

template <class Body, class... In>
void walk_runs(const kernels::Broadcast& shape, std::int64_t begin, std::int64_t end, const Body& body,
               std::tuple<Input<In>...>& inputs) {
  const int inner = shape.rank - 1;
  Position<In...> position(shape, inputs, begin);
  while (begin < end) {
    const std::int64_t run = std::min(position.inner_left(), end - begin);
    std::apply(
        [&](auto&... input) {
          const bool contiguous = ((input.stride[inner] == 1) && ...);
          const std::int64_t step = contiguous ? run : std::min(run, block);
          (
              [&] {
                if (input.stride[inner] == 0) repeat(input.gathered, step, input.data[input.offset]);
              }(),
              ...);
          for (std::int64_t done = 0; done < run; done += step) {
            const std::int64_t n = std::min(step, run - done);
            body(begin + done, n, piece(input, input.stride[inner], done, n)...);
          }
        },
        inputs);
    begin += run;
    position.advance(run);
  }
}

template <class Body, class... In>
void walk_blocks(const kernels::Broadcast& shape, std::int64_t begin, std::int64_t end, const Body& body,
                 std::tuple<Input<In>...>& inputs) {
  const int inner = shape.rank - 1;
  Position<In...> position(shape, inputs, begin);
  while (begin < end) {
    const std::int64_t n = std::min(block, end - begin);
    for (std::int64_t filled = 0; filled < n;) {
      const std::int64_t run = std::min(position.inner_left(), n - filled);
      std::apply(
          [&](auto&... input) {
            (
                [&] {
                  if (input.dense) return;
                  const std::int64_t stride = input.stride[inner];
                  for (std::int64_t i = 0; i < run; ++i)
                    input.gathered[filled + i] = input.data[input.offset + i * stride];
                }(),
                ...);
          },
          inputs);
      filled += run;
      position.advance(run);
    }
    std::apply([&](auto&... input) { body(begin, n, (input.dense ? input.data + begin : input.gathered)...); }, inputs);
    begin += n;
  }
}

/// Where a row of each input is one run or one element, as many whole rows at a time as lie in line.
template <class Body, class... In>
void walk_rows(const kernels::Broadcast& shape, std::int64_t begin, std::int64_t end, const Body& body,
               std::tuple<Input<In>...>& inputs) {
  const int inner = shape.rank - 1;
  const std::int64_t length = shape.size[inner];
  Position<In...> position(shape, inputs, begin);
  while (begin < end) {
    Rows rows{.n = std::min(position.inner_left(), end - begin)};
    if (rows.n == length && inner > 0) rows.count = std::min(position.left(inner - 1), (end - begin) / length);
    for (int k = 0; k < static_cast<int>(sizeof...(In)); ++k) {
      rows.stride[k] = inner > 0 ? shape.stride[k][inner - 1] : 0;
      rows.repeated[k] = shape.stride[k][inner] == 0;
    }
    std::apply([&](auto&... input) { body.of_rows(begin, rows, (input.data + input.offset)...); }, inputs);
    begin += rows.count * rows.n;
    if (rows.n == length && inner > 0)
      position.advance(inner - 1, rows.count);
    else
      position.advance(rows.n);
  }
}

}  // namespace detail

/// A loop over contiguous arrays and its output, as a body of `broadcast`.
template <class Out, class... In>
struct Loop {
  void (*loop)(Out*, const In*..., std::int64_t);
  Out* out;
  void operator()(std::int64_t offset, std::int64_t n, const In*... in) const { loop(out + offset, in..., n); }
};

/// The same with another loop for rows.
template <class Out, class... In>
struct LoopOfRows : Loop<Out, In...> {
  void (*rows_loop)(Out*, const In*..., const Rows&);
  void of_rows(std::int64_t offset, const Rows& rows, const In*... in) const {
    rows_loop(this->out + offset, in..., rows);
  }
};

/// Calls body(offset, n, in...) for pieces that together cover the output once; `in` are contiguous there. Neither
/// pieces nor the threads' cuts affect the value of an element.
template <class Body, class... In>
void broadcast(const Context& context, double nanoseconds, const kernels::Broadcast& shape, const Body& body,
               const In*... in) {
  if (shape.count <= 0) return;
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    const auto walk = [&](std::int64_t begin, std::int64_t end) {
      if (shape.rank == 0 || (shape.rank == 1 && ((shape.stride[k][0] == 1) && ...)))
        return body(begin, end - begin, (in + begin)...);
      const int inner = shape.rank - 1;
      std::tuple<detail::Input<In>...> inputs{detail::Input<In>(in, shape.stride[k], shape)...};
      if constexpr (requires { body.of_rows(begin, Rows{}, in...); }) {
        const bool runs = ((shape.stride[k][inner] == 0 || shape.stride[k][inner] == 1) && ...);
        if (runs && shape.size[inner] >= detail::least_row) return detail::walk_rows(shape, begin, end, body, inputs);
      }
      if (shape.size[inner] >= detail::long_run || shape.rank == 1)
        detail::walk_runs(shape, begin, end, body, inputs);
      else
        detail::walk_blocks(shape, begin, end, body, inputs);
    };
    if (useful_threads(context, static_cast<double>(shape.count) * nanoseconds) == 1)
      walk(0, shape.count);
    else
      parallel_for(context, shape.count, nanoseconds, walk);
  }
  (std::index_sequence_for<In...>{});
}

}  // namespace tern::vectorized
