// Times fused operators. Reads requests from standard input, one per line, so that another program can interleave its
// own measurements (peers/fused.py). A request is "kind phase precision calls seconds sizes...":
//   layer_norm rows length | rms_norm rows length | attention batch heads sequence size | causal the same
// with phase forward or both (forward and backward). `calls` of them are one Step. The argument is a device, "cuda" if
// there is none. The answer is a JSON object with the median, the 10th and the 90th percentile of the microseconds of a
// call, and the bytes that one takes beside its inputs.

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace {

using namespace tern;
namespace op = operators;
using Clock = std::chrono::steady_clock;
using Call = std::function<Tensor(const std::vector<Tensor>& in)>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Request {
  std::string kind, phase, precision;
  int calls = 1;
  double seconds = 0;
  std::vector<std::int64_t> sizes;
};

struct Work {
  std::vector<Tensor> inputs;
  Call call;
};

Work work_of(const Request& request) {
  Generator generator(3);
  const std::vector<std::int64_t>& sizes = request.sizes;
  const bool attention = request.kind == "attention" || request.kind == "causal";
  expects(sizes.size() == (attention ? 4u : 2u), request.kind, ": ", sizes.size(), " sizes came");
  if (attention) {
    const Shape shape{sizes[0], sizes[1], sizes[2], sizes[3]};
    return {{randn(shape, generator), randn(shape, generator), randn(shape, generator)},
            [causal = request.kind == "causal"](const std::vector<Tensor>& in) {
              return op::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = causal});
            }};
  }
  const Shape row{sizes[1]};
  std::vector<Tensor> inputs{randn({sizes[0], sizes[1]}, generator), randn(row, generator)};
  if (request.kind == "rms_norm")
    return {inputs, [row](const std::vector<Tensor>& in) { return op::rms_norm(in[0], row, in[1]); }};
  inputs.push_back(randn(row, generator));
  return {inputs, [row](const std::vector<Tensor>& in) { return op::layer_norm(in[0], row, in[1], in[2]); }};
}

/// One call, with its backward if requested.
Tensor run(const Work& work, const Tensor& gradient) {
  if (!gradient.defined()) {
    const NoGrad none;
    return work.call(work.inputs);
  }
  std::vector<Tensor> leaves;
  for (const Tensor& input : work.inputs) leaves.push_back(input.detach().set_requires_grad());
  const Tensor out = work.call(leaves);
  out.backward(gradient);
  return leaves[0].grad();
}

class Measured {
 public:
  Measured(const char* device, const Request& request)
      : device_(device, {.precision = request.precision == "tf32" ? Precision::tf32 : Precision::strict}),
        work_(work_of(request)) {
    if (request.phase == "both") gradient_ = randn_like(run(work_, {}));
    Memory& memory = *device_.mode().memory;
    for (int i = 0; i < 2; ++i) {
      device_.synchronize();
      const std::size_t before = memory.statistics().in_use;
      memory.reset_peak();
      run(work_, gradient_);
      device_.synchronize();
      bytes_ = memory.statistics().peak - before;
    }
    step_ = std::make_unique<Step>([this, calls = request.calls](const Tensor&) {
      Tensor last;
      for (int i = 0; i < calls; ++i) last = run(work_, gradient_);
      return last;
    });
    for (int i = 0; i < 4; ++i) (*step_)(work_.inputs[0]);
    expects(step_->replays() > 0 || device_.mode().capture == nullptr, request.kind,
            " was not recorded: ", step_->unrecorded());
  }

  nlohmann::json measure(const Request& request) {
    std::vector<double> samples;
    const auto begin = Clock::now();
    device_.synchronize();
    auto start = Clock::now();
    (*step_)(work_.inputs[0]);
    device_.synchronize();
    const auto inner = static_cast<int>(std::clamp(0.005 / seconds_since(start), 1.0, 1000.0));
    while (samples.size() < 3 || seconds_since(begin) < request.seconds) {
      start = Clock::now();
      for (int i = 0; i < inner; ++i) (*step_)(work_.inputs[0]);
      device_.synchronize();
      samples.push_back(seconds_since(start) * 1e6 / inner / request.calls);
    }
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double q) {
      return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1))];
    };
    return {{"us", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"bytes", bytes_}};
  }

 private:
  Device device_;
  Work work_;
  Tensor gradient_;
  std::size_t bytes_ = 0;
  std::unique_ptr<Step> step_;
};

}  // namespace

int main(int count, char** arguments) {
  std::string line, key;
  std::unique_ptr<Measured> measured;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    try {
      Request request;
      std::istringstream words(line);
      words >> request.kind >> request.phase >> request.precision >> request.calls >> request.seconds;
      for (std::int64_t size = 0; words >> size;) request.sizes.push_back(size);
      if (key != line) {
        measured = nullptr;  // one at a time: the peer needs the memory
        measured = std::make_unique<Measured>(count > 1 ? arguments[1] : "cuda", request);
        key = line;
      }
      answer = measured->measure(request);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}
