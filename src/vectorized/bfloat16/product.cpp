#include "vectorized/bfloat16/product.hpp"

#include <algorithm>

#include "vectorized/cache.hpp"

namespace tern::vectorized::product {

using bfloat16::depth;
using bfloat16::panel_lines;
using bfloat16::Source;
using bfloat16::step_numbers;
using bfloat16::tile_lines;

double Bfloat16Product::cycles(const kernels::Matmul& shape, const bfloat16::Kernels& kernels) {
  const auto rows = static_cast<double>(shape.m), columns = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto tiles = static_cast<double>(divide_up(shape.m, tile_lines) * divide_up(shape.n, tile_lines));
  const double transposed = (shape.transpose_a ? rows : 0) + (shape.transpose_b ? columns : 0);
  return tiles * (kernels.tile_cycles * static_cast<double>(divide_up(shape.k, depth)) + 40) +
         k * (0.3 * (rows + columns) + 0.2 * transposed) + 0.1 * rows * columns;
}

Bfloat16Product::Bfloat16Product(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels)
    : matrices_(problem.shape.batch),
      k_(problem.shape.k),
      steps_(divide_up(k_, depth)),
      activation_(problem.activation),
      arrays_(arrays),
      kernels_(&kernels) {
  const auto& shape = problem.shape;
  const auto factor = [&](const float* from, std::int64_t stride, std::int64_t lines, bool along) {
    return Factor{.from = from,
                  .matrices = stride == 0 ? 1 : shape.batch,
                  .matrix = stride,
                  .lines = lines,
                  .line = along ? shape.k : 1,
                  .number = along ? 1 : lines,
                  .panels = divide_up(lines, panel_lines)};
  };
  a_ = factor(arrays.a, shape.stride_a, shape.m, !shape.transpose_a);
  b_ = factor(arrays.b, shape.stride_b, shape.n, shape.transpose_b);
  if (matrices_ < 2 * problem.threads) cut(problem.threads);
}

/// A member reads factors from the caches of the members that packed them; for a, packing also reads what the previous
/// operator left where its rows of c were. So rows stay with their member as long as b is not much larger.
void Bfloat16Product::cut(std::int64_t threads) {
  double least = -1;
  for (std::int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    const std::int64_t rows = divide_up(a_.panels, row_parts), columns = divide_up(b_.panels, threads / row_parts);
    const double cycles = static_cast<double>(steps_) * (100.0 * static_cast<double>(rows * columns) +
                                                         256.0 * static_cast<double>(3 * rows + columns));
    if (least >= 0 && cycles >= least) continue;
    least = cycles;
    row_parts_ = row_parts;
    column_parts_ = threads / row_parts;
  }
}

std::int64_t Bfloat16Product::packed(const Factor& factor) const {
  return factor.matrices * factor.panels * steps_ * step_numbers;
}

std::int64_t Bfloat16Product::shared() const { return (packed(a_) + packed(b_)) / 2; }

template <class Pack>
void Bfloat16Product::pack(const Team& team, const Factor& factor, std::uint16_t* out, const Pack& pack_step) const {
  const auto one = [&](std::int64_t panel, std::int64_t step) {
    const std::int64_t line = panel % factor.panels * panel_lines, number = step * depth;
    pack_step(out + (panel * steps_ + step) * step_numbers,
              Source{.from = factor.from + panel / factor.panels * factor.matrix + line * factor.line +
                             number * factor.number,
                     .line = factor.line,
                     .number = factor.number,
                     .lines = std::min(panel_lines, factor.lines - line),
                     .numbers = std::min(depth, k_ - number)});
  };
  const std::int64_t panels = factor.matrices * factor.panels, all = panels * steps_;
  // In the factor's memory order. If there are enough panels, each member packs mostly those that it will multiply.
  const bool by_panels = factor.number == 1, strips = !by_panels && panels >= 4 * team.size;
  if (strips) {
    for (std::int64_t step = 0; step < steps_; ++step)
      for (std::int64_t panel = team.begin(panels); panel < team.end(panels); ++panel) one(panel, step);
  } else {
    for (std::int64_t i = team.begin(all); i < team.end(all); ++i)
      by_panels ? one(i / steps_, i % steps_) : one(i % panels, i / panels);
  }
}

void Bfloat16Product::pack(const Team& team, void* shared) const {
  auto* const out = static_cast<std::uint16_t*>(shared);
  pack(team, a_, out, kernels_->pack_a);
  // Numbered by columns if each member has its own rectangle.
  const bool each = parts() == team.size;
  const auto rows = static_cast<int>(row_parts_), columns = static_cast<int>(column_parts_);
  pack({each ? team.index % columns * rows + team.index / columns : team.index, team.size}, b_, out + packed(a_),
       kernels_->pack_b);
}

void Bfloat16Product::run(std::int64_t begin, std::int64_t end, const void* shared) const {
  if (begin >= end) return;
  kernels_->begin();
  for (std::int64_t part = begin; part < end; ++part) run_part(part, shared);
  kernels_->end();
}

void Bfloat16Product::run_part(std::int64_t part, const void* shared) const {
  const auto* const a = static_cast<const std::uint16_t*>(shared);
  const std::uint16_t* const b = a + packed(a_);
  const std::int64_t row_part = part / column_parts_ % row_parts_, column_part = part % column_parts_;
  const std::int64_t matrix = part / (row_parts_ * column_parts_);
  const std::int64_t a_matrix = a_.matrices == 1 ? 0 : matrix, b_matrix = b_.matrices == 1 ? 0 : matrix;
  const std::int64_t first_column = b_.panels * column_part / column_parts_;
  const std::int64_t last_column = b_.panels * (column_part + 1) / column_parts_;
  for (std::int64_t i = a_.panels * row_part / row_parts_; i < a_.panels * (row_part + 1) / row_parts_; ++i)
    for (std::int64_t j = first_column; j < last_column; ++j) {
      const std::int64_t row = i * panel_lines, column = j * panel_lines;
      kernels_->multiply({.a = a + (a_matrix * a_.panels + i) * steps_ * step_numbers,
                          .a_line = depth,
                          .a_step = step_numbers,
                          .b = b + (b_matrix * b_.panels + j) * steps_ * step_numbers,
                          .steps = steps_,
                          .c = arrays_.c + (matrix * a_.lines + row) * b_.lines + column,
                          .c_row = b_.lines,
                          .rows = std::min(panel_lines, a_.lines - row),
                          .columns = std::min(panel_lines, b_.lines - column),
                          .column_bias = arrays_.column_bias == nullptr ? nullptr : arrays_.column_bias + column,
                          .relu = clips(activation_),
                          .top = top_of<float>(activation_)});
    }
}

}  // namespace tern::vectorized::product
