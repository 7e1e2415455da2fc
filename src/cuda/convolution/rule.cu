#include <algorithm>

#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/implicit.cuh"
#include "cuda/convolution/rule.cuh"

namespace tern::cuda::convolution {
namespace {

/// Elements of an output's sum.
std::int64_t sum_of(const Problem& p) { return p.KH * p.KW * (p.C / p.groups); }
/// Of a group.
std::int64_t library_tiles(const Problem& p) {
  const std::int64_t O = p.O / p.groups;
  return ceil_div(p.positions(), 128) * ceil_div(O, O <= 64 ? 64 : 128);
}

}  // namespace

double multiply_adds(const Problem& p) {
  return static_cast<double>(p.outputs()) * static_cast<double>(p.C / p.groups * p.KH * p.KW);
}

bool is_common(const Problem& engine) {
  constexpr std::int64_t multiple = 64;
  if (engine.KH * engine.KW == 1) return engine.stride_h == 1 || engine.C / engine.groups >= multiple;
  // The 5x5 kernel is AlexNet's.
  const bool small = engine.KH <= 3 && engine.KW <= 3;
  return (small || (engine.KH <= 5 && engine.KW <= 5 && std::min(engine.C, engine.O) == multiple)) &&
         engine.C / engine.groups % multiple == 0 && engine.O / engine.groups % multiple == 0;
}

bool asks_second_mode(const Problem& engine) {
  // A first layer after space-to-depth has no padding, and the first mode knows it.
  const bool first_layer = engine.KH > 1 && engine.pad_h == 0 && engine.pad_w == 0;
  // Its tiles of 3x3 kernels are worse for some tens of outputs that are no multiple of 64.
  const std::int64_t written = engine.pass == Pass::grad_x ? engine.C : engine.O;
  const std::int64_t read = engine.pass == Pass::grad_x ? engine.O : engine.C;
  // But not of short sums: from 4 x 16 x 224 x 224 to 40 the first mode takes 273 us, the second 62.
  const bool short_sums = read <= 64 && written < 64;
  const bool tens = engine.KH * engine.KW == 9 && engine.groups == 1 && written > 32 && written < 128 && !short_sums;
  return engine.tensor_cores() && !is_common(engine) && !first_layer && !tens;
}

bool is_short(const Problem& engine) {
  constexpr double most = 8;  // microseconds
  return !is_common(engine) && implicit_time(engine) < most;
}

double library_time(const Problem& engine) {
  constexpr std::int64_t row = 128;
  constexpr double launch = 5;
  const std::int64_t O = engine.O / engine.groups, tiles = library_tiles(engine);
  // Per element of the sum, while each multiprocessor has a tile. Slices of the channels are slower.
  const double each = engine.groups > 1                    ? 0.015
                      : O <= 32                            ? 0.018
                      : O <= 64                            ? 0.009
                      : 4 * tiles > card().multiprocessors ? 0.011
                      : engine.positions() <= row          ? 0.007
                                                           : 0.005;
  const auto waves = static_cast<double>(ceil_div(tiles, card().multiprocessors));
  return static_cast<double>(engine.groups) * (waves * static_cast<double>(sum_of(engine)) * each + launch);
}

bool prefers_implicit(const Problem& own, const Problem& library) {
  const double clearly = own.groups > 1 ? 1.25 : own.O <= 32 ? 1.3 : 1.5;
  return clearly * implicit_time(own) < library_time(library);
}

bool starves_library(const Problem& engine) {
  constexpr std::int64_t long_sum = 4096, longest = 20000, row = 128;
  if (engine.groups > 1) return true;
  if (sum_of(engine) < (engine.positions() <= row ? long_sum / 2 : long_sum)) return false;
  return 2 * library_tiles(engine) <= card().multiprocessors || sum_of(engine) >= longest;
}

double transform_time(const Problem& engine) {
  constexpr std::int64_t side = 32, numbers = side * (side / 2 + 1);  // complex, of a transformed tile
  constexpr double rate = 25e6, bytes_rate = 3e6, launches = 30;
  const std::int64_t tiles =
      engine.N * ceil_div(engine.OH, side + 1 - engine.KH) * ceil_div(engine.OW, side + 1 - engine.KW);
  const std::int64_t pairs = engine.O * (engine.C / engine.groups);
  const auto products = static_cast<double>(4 * numbers) * static_cast<double>(tiles * pairs);
  const auto moved = static_cast<double>(4 * numbers) * static_cast<double>(tiles * (engine.C + engine.O) + pairs);
  return products / rate + moved * sizeof(float) / bytes_rate + launches * static_cast<double>(engine.groups);
}

double fold_time(const Problem& p) {
  constexpr double bytes_rate = 3e6, launches = 9;
  const bool back = p.pass == Pass::grad_x;
  const std::int64_t m = back ? p.positions() : p.N * p.H * p.W, n = p.KH * p.KW * ((back ? p.C : p.O) / p.groups),
                     k = (back ? p.O : p.C) / p.groups;
  const std::int64_t tiles = ceil_div(m, 128) * ceil_div(n, 128) * p.groups;
  // Per element of the sum, while each multiprocessor has a tile.
  const double each = 4 * tiles > card().multiprocessors ? 0.011 : 0.006;
  const auto waves = static_cast<double>(ceil_div(tiles, card().multiprocessors));
  const auto moved = static_cast<double>(2 * m * n * p.groups + 2 * p.weights()) * sizeof(float);
  return waves * static_cast<double>(k) * each + moved / bytes_rate + launches;
}

double copies_time(const Problem& p, const Problem& lanes) {
  constexpr double rate = 3e6, launches = 10;
  const auto floats = static_cast<double>(p.images() + p.outputs() + 2 * (lanes.images() + lanes.outputs()));
  return floats * sizeof(float) / rate + launches;
}

Problem in_lanes(const Problem& p, std::int64_t lanes) {
  const auto of = [&](std::int64_t channels) { return p.groups * ceil_div(channels / p.groups, lanes) * lanes; };
  Problem whole = p;
  whole.layout = Layout::channels_last;
  whole.C = whole.x_channels = of(p.C), whole.O = whole.y_channels = of(p.O);
  return whole;
}

bool suits_planes(const Problem& p) {
  constexpr std::int64_t few = 64, summed_channels = 128;
  constexpr double most = 6e8;
  if (std::max(p.C, p.O) <= few) return true;
  const std::int64_t summed = p.pass == Pass::forward ? p.C : p.pass == Pass::grad_x ? p.O : 0;
  return multiply_adds(p) <= most && summed <= summed_channels;
}

bool suits_gathering(const Problem& p) {
  constexpr std::int64_t few_columns = 64, few_channels = 8, many = 50000;
  if (!p.tensor_cores() || p.pass != Pass::grad_weight || p.groups > 1 || p.positions() < many) return false;
  const bool single = p.KH * p.KW == 1;
  return single ? std::min(p.C, p.O) <= few_channels : p.C * p.KH * p.KW <= few_columns;
}

bool strips_are_slower(const Problem& p) {
  constexpr double uncertain = 1.5, step = 0.19;
  const bool fours = p.C / p.groups % 4 == 0 && p.O / p.groups % 4 == 0;
  const double work = multiply_adds(p);
  const double rate = !fours ? (work > 2e8 ? 0.5e6 : 1e6) : p.KH == 3 && p.KW == 3 ? 10e6 : 6e6;
  const auto steps = static_cast<double>(p.C / p.groups * p.KH * p.KW / (fours ? 4 : 1));
  const double strips = std::max(work / rate, steps * step);
  Problem whole = in_lanes(p, 4);
  whole.pass = Pass::forward;
  if (!implicit_fits(whole)) return false;
  return uncertain * implicit_time(whole) + (fours ? 0 : copies_time(p, whole)) < strips;
}

}  // namespace tern::cuda::convolution
