// Recurrent layers over whole sequences: one team that packs the weights once and meets after each step.

#include <algorithm>

#include "kernels/gradient.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/recurrent_kernels.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::Sequence;

/// How the panels of units and the rows of the batch are divided.
class Division {
 public:
  Division(const Context& context, const Sequence& p, std::int64_t units, int gates, std::int64_t length)
      : p_(p), units_(units), panels_((p.width + units - 1) / units), panel_(gates_of(gates) * length) {
    const double products = static_cast<double>(p.batch * p.width) * static_cast<double>(p.width) * 4;
    // Few rows wait for the weights, many for the arithmetic.
    const double step = products * (p.batch < 4 ? 0.05 : 0.02);
    threads_ = step < least_step ? 1 : useful_threads(context, step * static_cast<double>(p.steps));
    const std::int64_t wanted = (threads_ + panels_ - 1) / panels_;
    blocks_ = std::clamp<std::int64_t>(wanted, 1, (p.batch + 5) / 6);
  }
  int threads() const { return threads_; }
  std::int64_t elements() const { return panels_ * panel_; }

  /// Calls pack(part, panel's first element) for this member's panels.
  template <class Pack>
  void pack(const Team& team, float* panels, const Pack& pack) const {
    for (std::int64_t i = team.begin(panels_); i < team.end(panels_); ++i) pack(part(i, 0), panels + i * panel_);
  }
  /// Calls step(part, panel) for this member's parts.
  template <class Step>
  void run(const Team& team, const float* panels, const Step& step) const {
    const std::int64_t all = panels_ * blocks_;
    for (std::int64_t i = team.begin(all); i < team.end(all); ++i)
      step(part(i / blocks_, i % blocks_), panels + i / blocks_ * panel_);
  }
  /// The time of step i, and of the one before it; -1: none.
  std::int64_t time(std::int64_t i) const { return p_.reverse ? p_.steps - 1 - i : i; }
  std::int64_t before(std::int64_t i) const { return i == 0 ? -1 : time(i - 1); }

 private:
  static constexpr double least_step = 4'000;  // nanoseconds
  std::int64_t gates_of(int gates) const { return gates * units_; }
  StepPart part(std::int64_t panel, std::int64_t block) const {
    const std::int64_t first = panel * units_;
    return {p_.batch * block / blocks_, p_.batch * (block + 1) / blocks_, first, std::min(units_, p_.width - first),
            p_.width};
  }

  const Sequence& p_;
  std::int64_t units_, panels_, panel_, blocks_ = 1;
  int threads_ = 1;
};

/// The step at `time` of an array of steps; null for none.
template <class T>
T* at(T* array, std::int64_t time, std::int64_t size) {
  return array == nullptr || time < 0 ? nullptr : array + time * size;
}

template <class Step>
void forward(Context& context, const float* weight, int gates, const Sequence& p, const Step& step) {
  const RecurrentKernels& kernels = recurrent_kernels();
  const Division division(context, p, kernels.units, gates, p.width);
  const Scratch panels(context, static_cast<std::size_t>(division.elements()) * sizeof(float));
  parallel_phases(division.threads(), static_cast<int>(p.steps) + 1, [&](const Team& team, int phase) {
    if (phase == 0)
      return division.pack(team, panels.as<float>(),
                           [&](const StepPart& part, float* panel) { kernels.pack(panel, weight, gates, part); });
    division.run(team, panels.as<float>(), [&](const StepPart& part, const float* panel) {
      step(kernels, division.time(phase - 1), division.before(phase - 1), part, panel);
    });
  });
}

void lstm(Context& context, float* y, float* last_cell, float* gates, float* cells, const float* entered,
          const float* hidden, const float* cell, const float* weight, const float* bias, const Sequence& p) {
  const std::int64_t size = p.batch * p.width;
  forward(context, weight, 4, p,
          [&](const RecurrentKernels& kernels, std::int64_t t, std::int64_t before, const StepPart& part,
              const float* panel) {
            kernels.lstm({.y = at(y, t, size),
                          .cell_out = last_cell,
                          .gates = at(gates, t, 4 * size),
                          .cells = at(cells, t, size),
                          .entered = at(entered, t, 4 * size),
                          .hidden = before < 0 ? hidden : at(y, before, size),
                          .cell = before < 0 ? cell : last_cell,
                          .bias = bias},
                         panel, part);
          });
}

void gru(Context& context, float* y, float* gates, const float* entered, const float* hidden, const float* weight,
         const float* bias, const Sequence& p) {
  const std::int64_t size = p.batch * p.width;
  forward(context, weight, 3, p,
          [&](const RecurrentKernels& kernels, std::int64_t t, std::int64_t before, const StepPart& part,
              const float* panel) {
            kernels.gru({.y = at(y, t, size),
                         .gates = at(gates, t, 4 * size),
                         .entered = at(entered, t, 3 * size),
                         .hidden = before < 0 ? hidden : at(y, before, size),
                         .bias = bias},
                        panel, part);
          });
}

/// The gradients of the products, and of the state before the first step, of which `hidden` holds a part if `adds`.
struct Gradients {
  const float* sums;
  float* hidden;
  bool adds;
};

/// The steps from the last one back, and then what reaches the state before the first.
template <class Step>
void backward(Context& context, const float* weight, int gates, const Gradients& to, const Sequence& p,
              const Step& step) {
  const RecurrentKernels& kernels = recurrent_kernels();
  const std::int64_t rows = gates * p.width, size = p.batch * rows;
  const Division division(context, p, kernels.back_units, 1, rows);
  const Scratch panels(context, static_cast<std::size_t>(division.elements()) * sizeof(float));
  parallel_phases(division.threads(), static_cast<int>(p.steps) + 2, [&](const Team& team, int phase) {
    if (phase == 0)
      return division.pack(team, panels.as<float>(),
                           [&](const StepPart& part, float* panel) { kernels.pack_back(panel, weight, rows, part); });
    const std::int64_t i = p.steps - phase;
    division.run(team, panels.as<float>(), [&](const StepPart& part, const float* panel) {
      const float* const later = phase == 1 ? nullptr : at(to.sums, division.time(i + 1), size);
      if (i < 0)
        kernels.leave(to.hidden, later, rows, to.adds, panel, part);
      else
        step(kernels, division.time(i), division.before(i), later, part, panel);
    });
  });
}

void lstm_backward(Context& context, float* grad_entered, float* grad_hidden, float* grad_cell, const float* grad_y,
                   const float* grad_last_cell, const float* gates, const float* cells, const float* cell,
                   const float* weight, const Sequence& p) {
  const std::int64_t size = p.batch * p.width;
  if (grad_last_cell != nullptr) std::copy_n(grad_last_cell, size, grad_cell);
  backward(context, weight, 4, {grad_entered, grad_hidden, false}, p,
           [&](const RecurrentKernels& kernels, std::int64_t t, std::int64_t before, const float* later,
               const StepPart& part, const float* panel) {
             kernels.lstm_back({.grad_sums = at(grad_entered, t, 4 * size),
                                .carry = grad_cell,
                                .grad_y = at(grad_y, t, size),
                                .later = later,
                                .gates = at(gates, t, 4 * size),
                                .cells = at(cells, t, size),
                                .cell_before = before < 0 ? cell : at(cells, before, size),
                                .first_carry = later == nullptr && grad_last_cell == nullptr},
                               panel, part);
           });
}

void gru_backward(Context& context, float* grad_entered, float* grad_sums, float* grad_hidden, const float* grad_y,
                  const float* gates, const float* y, const float* hidden, const float* weight, const Sequence& p) {
  const std::int64_t size = p.batch * p.width;
  backward(context, weight, 3, {grad_sums, grad_hidden, true}, p,
           [&](const RecurrentKernels& kernels, std::int64_t t, std::int64_t before, const float* later,
               const StepPart& part, const float* panel) {
             kernels.gru_back({.grad_entered = at(grad_entered, t, 3 * size),
                               .grad_sums = at(grad_sums, t, 3 * size),
                               .carry = grad_hidden,
                               .grad_y = at(grad_y, t, size),
                               .later = later,
                               .gates = at(gates, t, 4 * size),
                               .before = before < 0 ? hidden : at(y, before, size)},
                              panel, part);
           });
}

}  // namespace

kernels::Recurrent recurrent() {
  return {.lstm = lstm,
          .lstm_backward = kernels::gradient<lstm_backward>(),
          .gru = gru,
          .gru_backward = kernels::gradient<gru_backward>()};
}

}  // namespace tern::vectorized
