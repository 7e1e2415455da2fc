// Steps of recurrent layers. A panel holds the weights of a few units side by side, so that a tile's sums stay in
// registers until its gates and its new states are computed. Every sum is one chain along k, whatever the threads do.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/recurrent_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/math.hpp"
#include "vectorized/recurrent_kernels.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
// Vectors of a tile's row, and its rows: as many as registers hold.
constexpr int vectors = 4;
constexpr int most_rows = HWY_TARGET <= HWY_AVX3 ? 6 : 2;

/// sums[r][v] += a[r][k] panel[k][v] for k in order; `count` vectors of each of the panel's rows.
template <int rows, int count>
HWY_INLINE void accumulate(V (&sums)[rows][count], const float* a, std::int64_t a_row, const float* panel,
                           std::int64_t length) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < length; ++k, panel += count * lanes) {
    V b[count];
    for (int v = 0; v < count; ++v) b[v] = hn::LoadU(d, panel + v * lanes);
    for (int r = 0; r < rows; ++r) {
      const V factor = hn::Set(d, a[r * a_row + k]);
      for (int v = 0; v < count; ++v) sums[r][v] = hn::MulAdd(factor, b[v], sums[r][v]);
    }
  }
}

HWY_INLINE V some_or_zero(const float* from, std::int64_t at, std::int64_t count) {
  const D d;
  return from == nullptr ? hn::Zero(d) : load_columns(d, from + at, count);
}

/// What a smooth activation passes on: value (1 - value), or 1 - value^2.
HWY_INLINE V sigmoid_slope(V value) { return hn::NegMulAdd(value, value, value); }
HWY_INLINE V tanh_slope(V value) { return hn::NegMulAdd(value, value, hn::Set(D{}, 1.0F)); }

/// Calls tile.template operator()<rows>(row) for all rows.
template <class Tile>
HWY_INLINE void for_tiles(const StepPart& part, const Tile& tile) {
  std::int64_t row = part.begin;
  for (; row + most_rows <= part.end; row += most_rows) tile.template run<most_rows>(row);
  if (row + 4 <= part.end && most_rows > 4) {
    tile.template run<4>(row);
    row += 4;
  }
  if (row + 2 <= part.end && most_rows > 2) {
    tile.template run<2>(row);
    row += 2;
  }
  for (; row < part.end; ++row) tile.template run<1>(row);
}

/// The four numbers of each unit that backward needs, if it does.
HWY_INLINE void keep(float* gates, std::int64_t row, const StepPart& part, const V (&values)[4]) {
  if (gates == nullptr) return;
  float* to = gates + 4 * row * part.width + part.first;
  for (const V& value : values) {
    store_columns(value, D{}, to, part.count);
    to += part.width;
  }
}

// ---- forward: what a sum begins with, and the step of a row's units from their sums ----

HWY_INLINE V begin_sum(const LstmStep& step, int gate, std::int64_t row, const StepPart& part) {
  return hn::Add(some_or_zero(step.entered, (4 * row + gate) * part.width + part.first, part.count),
                 some_or_zero(step.bias, gate * part.width + part.first, part.count));
}
HWY_INLINE void finish(const LstmStep& step, std::int64_t row, const StepPart& part, const V (&sums)[4]) {
  const D d;
  const std::int64_t at = row * part.width + part.first, n = part.count;
  const V in = sigmoid(d, sums[0]), kept = sigmoid(d, sums[1]), candidate = tanh(d, sums[2]);
  const V out = sigmoid(d, sums[3]);
  const V cell = hn::MulAdd(kept, some_or_zero(step.cell, at, n), hn::Mul(in, candidate));
  store_columns(cell, d, step.cell_out + at, n);
  store_columns(hn::Mul(out, tanh(d, cell)), d, step.y + at, n);
  if (step.gates != nullptr) store_columns(cell, d, step.cells + at, n);
  keep(step.gates, row, part, {in, kept, candidate, out});
}

HWY_INLINE V begin_sum(const GruStep& step, int gate, std::int64_t row, const StepPart& part) {
  const V bias = some_or_zero(step.bias, gate * part.width + part.first, part.count);
  if (gate == 2) return bias;  // the candidate's sum is multiplied before what entered is added
  return hn::Add(load_columns(D{}, step.entered + (3 * row + gate) * part.width + part.first, part.count), bias);
}
HWY_INLINE void finish(const GruStep& step, std::int64_t row, const StepPart& part, const V (&sums)[3]) {
  const D d;
  const std::int64_t at = row * part.width + part.first, n = part.count;
  const V reset = sigmoid(d, sums[0]), update = sigmoid(d, sums[1]);
  const V entered = load_columns(d, step.entered + (3 * row + 2) * part.width + part.first, n);
  const V candidate = tanh(d, hn::MulAdd(reset, sums[2], entered));
  const V change = hn::Sub(some_or_zero(step.hidden, at, n), candidate);
  store_columns(hn::MulAdd(update, change, candidate), d, step.y + at, n);
  keep(step.gates, row, part, {reset, update, candidate, sums[2]});
}

template <int gates, class Step>
struct ForwardTile {
  const Step& step;
  const float* panel;
  const StepPart& part;

  template <int rows>
  HWY_INLINE void run(std::int64_t row) const {
    V sums[rows][gates];
    for (int r = 0; r < rows; ++r)
      for (int g = 0; g < gates; ++g) sums[r][g] = begin_sum(step, g, row + r, part);
    if (step.hidden != nullptr) accumulate(sums, step.hidden + row * part.width, part.width, panel, part.width);
    for (int r = 0; r < rows; ++r) finish(step, row + r, part, sums[r]);
  }
};

// ---- backward: the gradients of n units of a row, the first at `at`, whose states get `sum` from the step behind ----

HWY_INLINE void finish(const LstmBackStep& step, std::int64_t row, std::int64_t width, std::int64_t at, std::int64_t n,
                       V sum) {
  const D d;
  const float* const gates = step.gates + at + 3 * row * width;
  float* const to = step.grad_sums + at + 3 * row * width;
  const V in = load_columns(d, gates, n), kept = load_columns(d, gates + width, n);
  const V candidate = load_columns(d, gates + 2 * width, n), out = load_columns(d, gates + 3 * width, n);
  const V grad = hn::Add(load_columns(d, step.grad_y + at, n), sum);
  const V shown = tanh(d, load_columns(d, step.cells + at, n));
  const V carried = step.first_carry ? hn::Zero(d) : load_columns(d, step.carry + at, n);
  const V cell = hn::MulAdd(hn::Mul(grad, out), tanh_slope(shown), carried);
  store_columns(hn::Mul(hn::Mul(cell, candidate), sigmoid_slope(in)), d, to, n);
  store_columns(hn::Mul(hn::Mul(cell, some_or_zero(step.cell_before, at, n)), sigmoid_slope(kept)), d, to + width, n);
  store_columns(hn::Mul(hn::Mul(cell, in), tanh_slope(candidate)), d, to + 2 * width, n);
  store_columns(hn::Mul(hn::Mul(grad, shown), sigmoid_slope(out)), d, to + 3 * width, n);
  store_columns(hn::Mul(cell, kept), d, step.carry + at, n);
}

HWY_INLINE void finish(const GruBackStep& step, std::int64_t row, std::int64_t width, std::int64_t at, std::int64_t n,
                       V sum) {
  const D d;
  const float* const gates = step.gates + at + 3 * row * width;
  const std::int64_t to = at + 2 * row * width;
  const V reset = load_columns(d, gates, n), update = load_columns(d, gates + width, n);
  const V candidate = load_columns(d, gates + 2 * width, n), past = load_columns(d, gates + 3 * width, n);
  V grad = hn::Add(load_columns(d, step.grad_y + at, n), sum);
  if (step.later != nullptr) grad = hn::Add(grad, load_columns(d, step.carry + at, n));
  const V inner = hn::Mul(hn::Mul(grad, hn::Sub(hn::Set(d, 1.0F), update)), tanh_slope(candidate));
  const V to_reset = hn::Mul(hn::Mul(inner, past), sigmoid_slope(reset));
  const V change = hn::Sub(some_or_zero(step.before, at, n), candidate);
  const V to_update = hn::Mul(hn::Mul(grad, change), sigmoid_slope(update));
  store_columns(to_reset, d, step.grad_entered + to, n);
  store_columns(to_update, d, step.grad_entered + to + width, n);
  store_columns(inner, d, step.grad_entered + to + 2 * width, n);
  store_columns(to_reset, d, step.grad_sums + to, n);
  store_columns(to_update, d, step.grad_sums + to + width, n);
  store_columns(hn::Mul(inner, reset), d, step.grad_sums + to + 2 * width, n);
  store_columns(hn::Mul(grad, update), d, step.carry + at, n);
}

/// What is before the first step: its states' gradient.
struct Leave {
  float* out;
  const float* later;
  bool adds;
};
HWY_INLINE void finish(const Leave& step, std::int64_t /*row*/, std::int64_t /*width*/, std::int64_t at, std::int64_t n,
                       V sum) {
  const D d;
  store_columns(step.adds ? hn::Add(load_columns(d, step.out + at, n), sum) : sum, d, step.out + at, n);
}

template <class Step>
struct BackTile {
  const Step& step;
  std::int64_t sums_of_row;  ///< numbers of step.later for each row
  const float* panel;
  const StepPart& part;

  template <int rows>
  HWY_INLINE void run(std::int64_t row) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(D{}));
    V sums[rows][vectors];
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::Zero(D{});
    if (step.later != nullptr) accumulate(sums, step.later + row * sums_of_row, sums_of_row, panel, sums_of_row);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors && v * lanes < part.count; ++v)
        finish(step, row + r, part.width, (row + r) * part.width + part.first + v * lanes, part.count - v * lanes,
               sums[r][v]);
  }
};

void pack(float* to, const float* weight, int gates, const StepPart& part) {
  constexpr std::int64_t block = 16;  // columns: a cache line of each row, and what is written stays in the cache
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D{}));
  for (std::int64_t begin = 0; begin < part.width; begin += block)
    for (int g = 0; g < gates; ++g)
      for (std::int64_t u = 0; u < lanes; ++u) {
        const float* const row = weight + (g * part.width + part.first + u) * part.width;
        float* const column = to + g * lanes + u;
        for (std::int64_t k = begin; k < std::min(begin + block, part.width); ++k)
          column[k * gates * lanes] = u < part.count ? row[k] : 0;
      }
}

void pack_back(float* to, const float* weight, std::int64_t rows, const StepPart& part) {
  const std::int64_t units = vectors * static_cast<std::int64_t>(hn::Lanes(D{}));
  for (std::int64_t row = 0; row < rows; ++row, to += units) {
    std::copy_n(weight + row * part.width + part.first, part.count, to);
    std::fill(to + part.count, to + units, 0.0F);
  }
}

HWY_NOINLINE void lstm(const LstmStep& step, const float* panel, const StepPart& part) {
  for_tiles(part, ForwardTile<4, LstmStep>{step, panel, part});
}
HWY_NOINLINE void gru(const GruStep& step, const float* panel, const StepPart& part) {
  for_tiles(part, ForwardTile<3, GruStep>{step, panel, part});
}
HWY_NOINLINE void lstm_back(const LstmBackStep& step, const float* panel, const StepPart& part) {
  for_tiles(part, BackTile<LstmBackStep>{step, 4 * part.width, panel, part});
}
HWY_NOINLINE void gru_back(const GruBackStep& step, const float* panel, const StepPart& part) {
  for_tiles(part, BackTile<GruBackStep>{step, 3 * part.width, panel, part});
}
HWY_NOINLINE void leave(float* out, const float* later, std::int64_t rows, bool adds, const float* panel,
                        const StepPart& part) {
  const Leave step{out, later, adds};
  for_tiles(part, BackTile<Leave>{step, rows, panel, part});
}

const RecurrentKernels& recurrent_table() {
  static const RecurrentKernels kernels{.units = static_cast<std::int64_t>(hn::Lanes(D{})),
                                        .back_units = vectors * static_cast<std::int64_t>(hn::Lanes(D{})),
                                        .pack = pack,
                                        .pack_back = pack_back,
                                        .lstm = lstm,
                                        .gru = gru,
                                        .lstm_back = lstm_back,
                                        .gru_back = gru_back,
                                        .leave = leave};
  return kernels;
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

HWY_EXPORT(recurrent_table);
const RecurrentKernels& recurrent_kernels() { return HWY_DYNAMIC_DISPATCH(recurrent_table)(); }

}  // namespace tern::vectorized
#endif
