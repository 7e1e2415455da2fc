#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct.cuh"
#include "cuda/convolution/direct_cuts.cuh"

namespace tern::cuda::convolution {
namespace {

// The rest of a plane of these sizes; `apart` is the distance of two planes modulo the 32 banks.
Plane plane_of(Plane plane, int apart) {
  const int size = plane.size();
  plane.stride = size + ((apart - size) % 32 + 32) % 32;
  plane.flat = plane.pitch == plane.W && plane.rows == plane.H && plane.pad_h == 0 && plane.pad_w == 0;
  plane.stored = Divisor<std::uint32_t>(plane.size());
  plane.row = Divisor<std::uint32_t>(plane.pitch);
  return plane;
}

}  // namespace

Planes planes(const Problem& s) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  Planes p{};
  p.N = i(s.N), p.C = i(s.C), p.O = i(s.O), p.OH = i(s.OH), p.OW = i(s.OW);
  p.segments = i(ceil_div(s.OW, run));
  // Adjacent threads read runs in adjacent rows of one plane after the other (KH of x each, whole planes of y), an odd
  // number of packs of four apart: eight of them are in different banks.
  const int pitch = i(ceil_div(p.segments * run + s.KW - 1, 4) * 4);
  Plane x{}, y{};
  x.H = i(s.H), x.W = i(s.W), x.pad_h = i(s.pad_h), x.pad_w = i(s.pad_w);
  x.rows = i(s.OH + s.KH - 1), x.pitch = pitch;
  y.H = y.rows = p.OH, y.W = p.OW, y.pitch = p.segments * run;
  p.x = plane_of(x, i(s.KH) * pitch % 32);
  p.y = plane_of(y, 4);
  return p;
}

bool small_window(const Problem& s) {
  return !s.channels_last() && s.element == Element::float32 && s.groups == 1 && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.KH == s.KW && (s.KH == 3 || s.KH == 5) && s.pad_h < s.KH &&
         s.pad_w < s.KW && s.OH <= 32 && s.OW <= 32 && s.C <= 4096 && s.O <= 4096 && s.N < (1 << 20);
}

std::size_t shared_limit() { return shared_limit(tuning::figures()); }

namespace {

int chunks_of(const Work& of, const Cut& cut) { return static_cast<int>(ceil_div(of.channels, cut.chunk)); }

std::size_t shared_of(const Work& of, const Cut& cut) {
  const auto size = [](int value) { return static_cast<std::size_t>(value); };
  const std::size_t stage =
      size(cut.chunk) * (size(cut.images) * of.image_bytes + size(cut.groups) * of.weight_bytes + of.channel_padding) +
      size(cut.groups) * of.group_padding + size(cut.images + 1) * 16;
  const std::size_t parts = cut.splits == 1 ? 0 : size(cut.threads * of.values) * sizeof(float);
  return std::max(size(stages(chunks_of(of, cut))) * stage, parts);
}

// The cost of a cut: the multiply-adds of the fullest multiprocessor, but at least the time to load its chunks; the
// first chunk, for which all wait; and the overhead of each. Fitted to an H200: only the order of the costs matters.
double cost(const Work& of, const Cut& cut) {
  const double blocks = static_cast<double>(ceil_div(of.images, cut.images) * ceil_div(of.groups, cut.groups));
  const double deep = static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), card().multiprocessors));
  const double warps = static_cast<double>(ceil_div(cut.threads, 32));
  const double fits = std::min({std::floor(64 / warps), std::floor(65536 / (warps * 32 * of.registers)),
                                std::floor(225.0 * 1024 / static_cast<double>(cut.shared + 1024))});
  const double resident = std::max(1.0, std::min(deep, fits));
  const double rounds = std::ceil(deep / resident);
  const double busy = resident * warps / (resident * warps + 8.8);  // few warps cannot hide each other's waits
  const double work = of.executed(cut) * of.channels * deep / (128 * of.efficiency * busy);
  const double bytes =
      cut.images * static_cast<double>(of.image_bytes) + cut.groups * static_cast<double>(of.weight_bytes);
  const double copying = bytes * of.channels * deep / of.copied;
  const double first = rounds * (6500 + bytes * cut.chunk * resident / of.copied);
  return std::max(work, copying) + first + 4100 * chunks_of(of, cut) * rounds;
}

}  // namespace

Cut find_cut(const Work& of) {
  Cut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int images = 1; images <= 8; images *= 2)
    for (int groups = 1; groups <= of.groups; ++groups) {
      if (of.groups % groups != 0) continue;
      for (int splits = 1; splits <= std::min(of.channels, 32); ++splits) {
        Cut cut;
        cut.images = images, cut.groups = groups, cut.splits = splits;
        cut.threads = images * groups * splits * of.lanes;
        if (cut.threads > most_threads) break;
        // Chunks of a multiple of 4 channels, so that copies are aligned.
        for (cut.chunk = of.channels; cut.chunk >= splits; cut.chunk = (cut.chunk + 7) / 8 * 4) {
          cut.shared = shared_of(of, cut);
          const double guess = cut.shared <= shared_limit() ? cost(of, cut) : best_cost;
          if (guess < best_cost) {
            best = cut;
            best_cost = guess;
          }
          if (cut.chunk <= 4) break;
        }
      }
    }
  return best;
}

}  // namespace tern::cuda::convolution
