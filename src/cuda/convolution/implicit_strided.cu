// The gradient of x through a stride as implicit products, one for each phase (phases.cuh), all in one launch. A
// product reads g at stride 1 and writes positions of x that are a stride apart.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/implicit_product.cuh"
#include "cuda/convolution/phases.cuh"
#include "cuda/convolution/rule.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace implicit_product;
using Launch = Convolutions<most_phases>;
static_assert(sizeof(Launch) <= 4000, "parameters of a kernel have at most 4096 bytes");

Plan plan_of(const Problem& p) {
  struct Rule;
  return remembered<Rule>(p, [&] {
    std::vector<Work> all;
    for (const Phase& phase : phases_of(p))
      all.push_back({p.N * phase.h.count * phase.w.count, phase.taps() * (p.O / p.groups)});
    return choose_plan(all, p.C / p.groups, p.groups, p.tensor_cores());
  });
}

/// A phase as a convolution of g.
Forward convolution_of(const Problem& p, const Phase& phase, const Arrays& arrays) {
  const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
  const std::int64_t C = p.C / p.groups, O = p.O / p.groups;
  using Divide = Divisor<std::uint32_t>;
  Forward f{};
  Sizes& s = f.sizes;
  s.positions = whole(p.N * phase.h.count * phase.w.count), s.O = whole(C), s.C = whole(O);
  s.length = whole(phase.taps() * O), s.H = whole(p.OH), s.W = whole(p.OW);
  s.stride_h = s.stride_w = 1, s.pad_h = whole(phase.h.pad), s.pad_w = whole(phase.w.pad);
  s.dilation_h = whole(phase.h.dilation), s.dilation_w = whole(phase.w.dilation);
  s.x_pitch = whole(p.O), s.y_pitch = whole(p.C);
  s.OH = Divide(std::max<std::int64_t>(1, phase.h.count)), s.OW = Divide(std::max<std::int64_t>(1, phase.w.count));
  s.KW = Divide(std::max<std::int64_t>(1, phase.w.taps)), s.channels = Divide(O);
  f.x = static_cast<const float*>(arrays.y);
  f.weight = static_cast<const float*>(arrays.weight) + phase.weight * O;
  f.y = static_cast<float*>(arrays.x) + (phase.h.first * p.W + phase.w.first) * p.C;
  f.image_step = whole(p.H * p.W * p.C), f.row_step = whole(p.stride_h * p.W * p.C);
  f.column_step = whole(p.stride_w * p.C);
  f.fours = true;
  return f;
}

struct Strided {
  static int next_plan(const Problem&, const Task&, int plan) { return plan < 0 ? 0 : -1; }
  static std::size_t workspace(const Problem&, const Task&, int) { return 0; }
  static void run(Context& context, const Problem&, const Task& task, const Arrays& arrays, int, void*) {
    Launch all{};
    int count = 0;
    for (const Phase& phase : phases_of(task.packed)) all.of[count++] = convolution_of(task.packed, phase, arrays);
    implicit_product::run(context, all, count, task.packed.groups, task.packed.tensor_cores(), plan_of(task.packed),
                          false);
  }
};

Task task_of(const Problem& requested) {
  Task task{packed(requested, Element::float32), requested.inputs.x % 16 == 0, false, true};
  task.by_phases = true;
  return task;
}

bool fits_first(const Problem& p) { return strided_fits(p) && strided_pays(p); }
bool fits_last(const Problem& p) { return strided_fits(p) && !strided_pays(p); }

constexpr auto named = "implicit";

}  // namespace

bool strided_fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, most_blocks = 65535;  // along two dimensions of a grid
  if (p.pass != Pass::grad_x || !p.channels_last() || p.element != Element::float32 || p.C == 0 || card().code < 80 ||
      !has_phases(p) || card().shared_per_block < most_shared_bytes)
    return false;
  const Problem packed = task_of(p).packed;
  // Places in the arrays are counted in 32 bits, with those of a window outside of g.
  const std::int64_t rows = p.N * p.OH + 2 * (p.KH * p.dilation_h + p.pad_h);
  return same_image(p, packed) && !flips(p, packed) && p.C / p.groups % 4 == 0 && p.O / p.groups % 4 == 0 &&
         p.groups < most_blocks && p.O / p.groups < most_blocks && rows * p.OW * p.O < most && p.images() < most &&
         p.weights() < most;
}

double strided_time(const Problem& p) { return plan_of(task_of(p).packed).cycles / card().clock; }

bool strided_pays(const Problem& p) {
  constexpr std::int64_t narrow = 64;
  constexpr double little = 4e8, small = 4e6, small_of_one = 1e6;  // multiply-adds; elements of x
  if (!p.tensor_cores() || !has_engines()) return true;
  if (p.precision != Precision::tf32) return false;
  // Around slices of few channels cuDNN has copies that take longer than the product.
  if (p.groups > 1) return std::max(p.C, p.O) / p.groups <= narrow || !library_grad_x.fits(p);
  const auto images = static_cast<double>(p.images());
  return !is_common(p) && multiply_adds(p) <= little && images <= (p.KH * p.KW == 1 ? small_of_one : small);
}

const Algorithm strided_grad_x_first = Around<task_of, Strided>::algorithm(named, fits_first);
const Algorithm strided_grad_x_last = Around<task_of, Strided>::algorithm(named, fits_last);

}  // namespace tern::cuda::convolution
