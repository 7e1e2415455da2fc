#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "times.hpp"

namespace tern::benchmarks {

namespace {

using Clock = std::chrono::steady_clock;

constinit thread_local const char* product = nullptr;  // the algorithm of products that is timed
constinit thread_local bool other = false;             // whether another one ran

// The algorithms whose cuts are timed.
const char* forced(const char* decision) {
  const std::string_view of = decision;
  if (of == "linear" || of == "linear_backward") return product;
  if (of.starts_with("conv2d")) return "direct_tensor";
  return nullptr;
}
void took(const char* decision, const char* algorithm) noexcept {
  const char* const expected = forced(decision);
  if (expected != nullptr && std::string_view(expected) != algorithm) other = true;
}
const Algorithms& algorithms() {
  static const Algorithms all{.watched{1}, .forced = forced, .took = took};
  return all;
}

/// An array of the card, with small numbers.
class Array {
 public:
  Array() {
    cuda::check(cudaMalloc(&data_, bytes), "allocating an array");
    std::vector<float> numbers(1 << 20);
    unsigned state = 1;
    for (float& number : numbers) {
      state = state * 1664525u + 1013904223u;
      number = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    }
    for (std::size_t at = 0; at < bytes; at += numbers.size() * sizeof(float))
      cuda::check(cudaMemcpy(static_cast<std::byte*>(data_) + at, numbers.data(), numbers.size() * sizeof(float),
                             cudaMemcpyHostToDevice),
                  "filling an array");
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }
  operator float*() const { return static_cast<float*>(data_); }

 private:
  static constexpr std::size_t bytes = std::size_t{1} << 27;  // of the largest problem's arrays
  void* data_ = nullptr;
};

class Measurement {
 public:
  explicit Measurement(Times& times) : times_(times) {
    context_.memory = &cuda::memory(0);
    context_.stream = context_.memory->stream();
    context_.algorithms = &algorithms();
  }

  /// The times of some cuts of one problem.
  void add(int member_number, int case_number, const Costs& one, const Costs& two) {
    const Member& member = members()[static_cast<std::size_t>(member_number)];
    const Case& of = member.cases[static_cast<std::size_t>(case_number)];
    context_.precision = member.rounded ? Precision::tf32 : Precision::strict;
    product = member.slices ? "sliced" : "own";
    Sample sample{.member = member_number, .number = case_number, .cuts = {}};
    for (const int cut :
         cuts_to_time(member.guesses(times_.figures, one, of), member.guesses(times_.figures, two, of))) {
      const float time = time_of(of, cut);
      if (time > 0) sample.cuts.push_back({cut, time});
    }
    if (!sample.cuts.empty()) times_.samples.push_back(std::move(sample));
  }

 private:
  // Of a cut, whose number is that of the member's search; 0 if it cannot run.
  float time_of(const Case& of, int cut) {
    cuda::tuning::Watch watch;
    watch.forget(cut);
    other = false;
    try {
      const float time = cuda::microseconds(
          context_, [&] { run(of); }, 3, 8);
      return other ? 0 : time;
    } catch (const Error&) {
      return 0;
    }
  }

  void run(const Case& of) {
    const auto& [m, n, k, _a, _b, _c] = of.sizes;
    const kernels::Linear layer{.rows = m, .in = k, .out = n};
    switch (of.slot) {
      case Slot::linear:
        return dot_.linear(context_, y_, x_, weight_, bias_, layer);
      case Slot::linear_backward:
        return dot_.linear_backward(context_, grad_x_, grad_weight_, grad_bias_, y_, x_, weight_, nullptr, layer);
      case Slot::conv2d:
        return conv_.conv2d(context_, y_, x_, weight_, bias_, of.conv2d());
      case Slot::grad_weight:
        return conv_.conv2d_backward(context_, nullptr, grad_weight_, grad_bias_, y_, x_, weight_, nullptr,
                                     of.conv2d());
      case Slot::grad_x:
        return conv_.conv2d_backward(context_, grad_x_, nullptr, nullptr, y_, x_, weight_, nullptr, of.conv2d());
    }
  }

  Times& times_;
  Context context_;
  const kernels::Dot<float> dot_ = cuda::dot<float>();
  const kernels::Conv<float> conv_ = cuda::conv<float>();
  const Array x_, y_, weight_, bias_, grad_x_, grad_weight_, grad_bias_;
};

}  // namespace

Times measure(double seconds) {
  const std::string reason = cuda::why_not();
  expects(reason.empty(), "fit_costs: ", reason);
  Times times;
  times.card = cuda::card().name;
  times.figures = cuda::tuning::figures();
  const Costs plain = cuda::tuning::plain_costs(times.figures);
  const Costs* const fitted = cuda::tuning::fitted_costs(times.figures.capability);
  Measurement measurement(times);
  std::size_t most = 0;
  for (const Member& member : members()) most = std::max(most, member.cases.size());
  const auto start = Clock::now();
  // Of each member in turn, so that whatever the time is, all have problems.
  for (std::size_t i = 0; i < most; ++i)
    for (std::size_t member = 0; member < members().size(); ++member) {
      // The longest list ends last: the shorter ones are spread along it.
      const std::size_t count = members()[member].cases.size(), at = i * count / most;
      if (i > 0 && at == (i - 1) * count / most) continue;
      if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) return times;
      measurement.add(static_cast<int>(member), static_cast<int>(at), fitted == nullptr ? plain : *fitted, plain);
    }
  return times;
}

}  // namespace tern::benchmarks
