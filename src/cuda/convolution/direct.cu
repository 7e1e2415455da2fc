#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct.cuh"

namespace tern::cuda::convolution {

Planes planes(const Problem& s) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  Planes p{};
  p.N = i(s.N), p.C = i(s.C), p.H = i(s.H), p.W = i(s.W), p.O = i(s.O), p.OH = i(s.OH), p.OW = i(s.OW);
  p.pad_h = i(s.pad_h), p.pad_w = i(s.pad_w);
  p.segments = i(ceil_div(s.OW, run));
  p.pitch = i(ceil_div(p.segments * run + s.KW - 1, 4) * 4);
  p.rows = i(s.OH + s.KH - 1);
  p.flat = p.pitch == p.W && p.rows == p.H && p.pad_h == 0 && p.pad_w == 0;
  p.plane = Divisor<std::uint32_t>(p.rows * p.pitch);
  p.row = Divisor<std::uint32_t>(p.pitch);
  return p;
}

bool small_window(const Problem& s) {
  return !s.channels_last() && s.element == Element::float32 && s.groups == 1 && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.KH == s.KW && (s.KH == 3 || s.KH == 5) && s.pad_h < s.KH &&
         s.pad_w < s.KW && s.OH <= 32 && s.OW <= 32 && s.C <= 4096 && s.O <= 4096 && s.N < (1 << 20);
}

std::size_t shared_limit() { return std::min<std::size_t>(card().shared_per_block, 200 * 1024); }

namespace {

std::size_t shared_of(const Work& of, const Cut& cut) {
  const std::size_t staged =
      static_cast<std::size_t>(cut.chunk) * (static_cast<std::size_t>(cut.images) * of.image_bytes +
                                             static_cast<std::size_t>(cut.groups) * of.weight_bytes + of.pitch_bytes) +
      static_cast<std::size_t>(cut.images) * 16 + 64;
  const std::size_t parts = cut.splits == 1 ? 0 : static_cast<std::size_t>(cut.threads * of.values * cut.each) * 4;
  return std::max(staged, parts);
}

// What a cut costs, in cycles: the multiply-adds of the fullest multiprocessor, no less than one thread's own chain of
// them, and what goes around them: staging, waits at each chunk, adding the splits. Fitted to measurements on an H200.
double cost(const Work& of, const Cut& cut) {
  const double blocks = static_cast<double>(ceil_div(of.images, cut.images) * ceil_div(of.groups, cut.groups));
  const double deep = static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), card().multiprocessors));
  const double warps = static_cast<double>(ceil_div(cut.threads, 32));
  const double fits = std::min({std::floor(64 / warps), std::floor(65536 / (warps * 32 * of.registers)),
                                std::floor(225.0 * 1024 / static_cast<double>(cut.shared + 1024))});
  const double resident = std::max(1.0, std::min(deep, fits));
  const double rounds = std::ceil(deep / resident);
  const double busy = resident * warps / (resident * warps + 2.4);  // few warps cannot hide each other's waits
  const double idle_lanes = warps * 32 / cut.threads;
  const double work =
      of.terms * cut.images * cut.groups * of.channels / 128 / (of.efficiency[cut.each - 1] * busy) * deep * idle_lanes;
  const double alone = 3.2 * of.alone * cut.each * static_cast<double>(ceil_div(of.channels, cut.splits)) * rounds;
  const double bytes =
      static_cast<double>(of.channels) * (static_cast<double>(cut.images) * static_cast<double>(of.image_bytes) +
                                          3.4 * static_cast<double>(cut.groups) * static_cast<double>(of.weight_bytes));
  const double staging = bytes / 8 * deep / std::min(resident, 1.35);
  const double chunks = 4100 * static_cast<double>(ceil_div(of.channels, cut.chunk)) * rounds;
  return std::max(work, alone) + staging + chunks + (cut.splits == 1 ? 0 : 3900);
}

}  // namespace

Cut find_cut(const Work& of) {
  Cut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int each = 1; each <= of.most_each; ++each)
    for (int images = each; images <= 8; images *= 2)
      for (int groups = 1; groups <= of.groups; ++groups) {
        if (of.groups % groups != 0) continue;
        for (int splits = 1; splits <= std::min(of.channels, 32); ++splits) {
          if (of.channels % splits != 0 && splits % 16 != 0) continue;  // uneven shares wait for each other
          Cut cut;
          cut.images = images, cut.each = each, cut.groups = groups, cut.splits = splits;
          cut.threads = images / each * groups * splits * of.lanes;
          if (cut.threads > most_threads) break;
          for (int chunk = of.channels;; chunk = (chunk + 1) / 2) {
            cut.chunk = chunk;
            cut.shared = shared_of(of, cut);
            if (cut.shared <= shared_limit()) {
              const double guess = cost(of, cut);
              if (guess < best_cost) {
                best = cut;
                best_cost = guess;
              }
            }
            if (chunk <= std::max(splits, 4)) break;
          }
        }
      }
  return best;
}

}  // namespace tern::cuda::convolution
