#include "vectorized/amx_product.hpp"

#include <algorithm>

#include "vectorized/amx.hpp"
#include "vectorized/cache.hpp"

namespace tern::vectorized::product {

bool AmxProduct::fits(const Problem& problem) {
  return problem.precision == Precision::bf16 && amx_kernels() != nullptr;
}

double AmxProduct::cycles(const kernels::Matmul& shape, std::int64_t m, std::int64_t n) {
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n), k = static_cast<double>(shape.k);
  const auto tiles = static_cast<double>(divide_up(m, amx_lines / 2) * divide_up(n, amx_lines / 2));
  const double turned = (shape.transpose_a ? rows : 0) + (shape.transpose_b ? columns : 0);
  return tiles * (24 * static_cast<double>(divide_up(shape.k, amx_depth)) + 40) +
         k * (0.25 * (rows + columns) + 0.15 * turned) + 0.1 * rows * columns;
}

AmxProduct::AmxProduct(const Problem& problem, const Arrays<float>& arrays)
    : matrices_(problem.shape.batch),
      k_(problem.shape.k),
      steps_(divide_up(k_, amx_depth)),
      relu_(problem.relu),
      arrays_(arrays) {
  const auto& shape = problem.shape;
  const auto factor = [&](const float* from, std::int64_t stride, std::int64_t lines, bool along) {
    return Factor{.from = from,
                  .matrices = stride == 0 ? 1 : shape.batch,
                  .matrix = stride,
                  .lines = lines,
                  .line = along ? shape.k : 1,
                  .number = along ? 1 : lines,
                  .panels = divide_up(lines, amx_lines)};
  };
  a_ = factor(arrays.a, shape.stride_a, shape.m, !shape.transpose_a);
  b_ = factor(arrays.b, shape.stride_b, shape.n, shape.transpose_b);
}

std::int64_t AmxProduct::packed(const Factor& factor) const {
  return factor.matrices * factor.panels * steps_ * amx_step;
}

std::int64_t AmxProduct::shared() const { return (packed(a_) + packed(b_)) / 2; }

template <class Pack>
void AmxProduct::pack(const Team& team, const Factor& factor, std::uint16_t* out, const Pack& pack_step) const {
  const auto one = [&](std::int64_t panel, std::int64_t step) {
    const std::int64_t line = panel % factor.panels * amx_lines, number = step * amx_depth;
    pack_step(out + (panel * steps_ + step) * amx_step,
              AmxSource{.from = factor.from + panel / factor.panels * factor.matrix + line * factor.line +
                                number * factor.number,
                        .line = factor.line,
                        .number = factor.number,
                        .lines = std::min(amx_lines, factor.lines - line),
                        .numbers = std::min(amx_depth, k_ - number)});
  };
  const std::int64_t panels = factor.matrices * factor.panels, all = panels * steps_;
  // In the order in which the factor lies. Where there are panels enough, each member packs those that it, for the most
  // part, multiplies by.
  const bool by_panels = factor.number == 1, strips = !by_panels && panels >= 4 * team.size;
  if (strips) {
    for (std::int64_t step = 0; step < steps_; ++step)
      for (std::int64_t panel = team.begin(panels); panel < team.end(panels); ++panel) one(panel, step);
  } else {
    for (std::int64_t i = team.begin(all); i < team.end(all); ++i)
      by_panels ? one(i / steps_, i % steps_) : one(i % panels, i / panels);
  }
}

void AmxProduct::pack(const Team& team, void* shared) const {
  auto* const out = static_cast<std::uint16_t*>(shared);
  pack(team, a_, out, amx_kernels()->pack_a);
  pack(team, b_, out + packed(a_), amx_kernels()->pack_b);
}

void AmxProduct::run(std::int64_t begin, std::int64_t end, const void* shared) const {
  if (begin >= end) return;
  const auto& kernels = *amx_kernels();
  const auto* const a = static_cast<const std::uint16_t*>(shared);
  const std::uint16_t* const b = a + packed(a_);
  kernels.begin();
  for (std::int64_t part = begin; part < end; ++part) {  // a panel of b stays near for all rows
    const std::int64_t row = part % a_.panels, column = part / a_.panels % b_.panels;
    const std::int64_t matrix = part / (a_.panels * b_.panels);
    const std::int64_t a_matrix = a_.matrices == 1 ? 0 : matrix, b_matrix = b_.matrices == 1 ? 0 : matrix;
    kernels.multiply(
        {.a = a + (a_matrix * a_.panels + row) * steps_ * amx_step,
         .b = b + (b_matrix * b_.panels + column) * steps_ * amx_step,
         .steps = steps_,
         .c = arrays_.c + (matrix * a_.lines + row * amx_lines) * b_.lines + column * amx_lines,
         .c_row = b_.lines,
         .rows = std::min(amx_lines, a_.lines - row * amx_lines),
         .columns = std::min(amx_lines, b_.lines - column * amx_lines),
         .column_bias = arrays_.column_bias == nullptr ? nullptr : arrays_.column_bias + column * amx_lines,
         .relu = relu_});
  }
  kernels.end();
}

}  // namespace tern::vectorized::product
