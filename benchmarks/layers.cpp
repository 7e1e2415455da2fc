// Times single layers. Reads requests from standard input, one per line, so that another program can interleave its own
// measurements (peers/layers.py). A request is "kind phase batch seconds sizes...", with square images:
//   conv C H O K stride padding groups   phases: forward (bias and relu included), x, weight (with the bias), backward
//   lrn C H | max C H K stride padding ceil | average C H K stride ceil | relu elements | linear in out | sgd elements
//                                        phases: forward, backward (sgd: forward)
// The answer is a JSON object with the median, the 10th and the 90th percentile of the microseconds of a call.

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tern/tern.hpp"

namespace {

using namespace tern;
using Clock = std::chrono::steady_clock;
using Run = std::function<void()>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Request {
  std::string kind, phase;
  std::int64_t batch = 0;
  double seconds = 0;
  std::vector<std::int64_t> sizes;

  std::int64_t size(std::size_t i) const {
    expects(i < sizes.size(), kind, ": ", sizes.size(), " sizes found, expected at least ", i + 1);
    return sizes[i];
  }
};

/// The pointers that a kernel takes.
float* out(Tensor& tensor) { return tensor.write<float>().data(); }
const float* in(const Tensor& tensor) { return tensor.read<float>().data(); }

Tensor random(const Shape& shape) {
  static Generator generator(3);
  return randn(shape, generator);
}

std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool ceil) {
  const std::int64_t room = size + 2 * padding - kernel;
  const std::int64_t count = room / stride + 1 + (ceil && room % stride != 0 ? 1 : 0);
  return ceil && (count - 1) * stride >= size + padding ? count - 1 : count;
}

Run conv(const Request& request, Scope& scope) {
  const std::int64_t N = request.batch, C = request.size(0), H = request.size(1), O = request.size(2),
                     K = request.size(3), stride = request.size(4), padding = request.size(5), groups = request.size(6);
  const std::int64_t OH = windows(H, K, stride, padding, false);
  kernels::Conv2d shape{.N = N,
                        .C = C,
                        .H = H,
                        .W = H,
                        .O = O,
                        .KH = K,
                        .KW = K,
                        .OH = OH,
                        .OW = OH,
                        .stride_h = stride,
                        .stride_w = stride,
                        .pad_h = padding,
                        .pad_w = padding,
                        .groups = groups,
                        .activation = Activation::relu};
  Tensor x = random({N, C, H, H}), weight = random({O, C / groups, K, K}), bias = random({O});
  Tensor y = random({N, O, OH, OH}), grad_y = random({N, O, OH, OH});
  Tensor grad_x = random(x.shape()), grad_weight = random(weight.shape()), grad_bias = random(bias.shape());
  const kernels::Conv<float>& table = scope.mode->operators.conv;
  shape.layout = table.layout(scope.context, shape);
  if (request.phase == "forward")
    return [=, &scope]() mutable { table.conv2d(scope.context, out(y), in(x), in(weight), in(bias), shape); };
  const bool to_x = request.phase != "weight", to_weight = request.phase != "x";
  return [=, &scope]() mutable {
    table.conv2d_backward(scope.context, to_x ? out(grad_x) : nullptr, to_weight ? out(grad_weight) : nullptr,
                          to_weight ? out(grad_bias) : nullptr, in(grad_y), in(x), in(weight), in(y), shape);
  };
}

Run lrn(const Request& request, Scope& scope) {
  const std::int64_t C = request.size(0), H = request.size(1);
  const kernels::LocalResponseNorm shape{.N = request.batch, .C = C, .area = H * H};
  Tensor x = random({request.batch, C, H, H}), y = random(x.shape()), grad_y = random(x.shape()),
         grad_x = random(x.shape());
  const auto& table = scope.mode->operators.normalization;
  if (request.phase == "forward")
    return [=, &scope]() mutable { table.local_response_norm(scope.context, out(y), in(x), shape); };
  return [=, &scope]() mutable {
    table.local_response_norm_backward(scope.context, out(grad_x), in(grad_y), in(x), in(y), shape);
  };
}

Run pool(const Request& request, Scope& scope) {
  const bool max = request.kind == "max", ceil = request.size(max ? 5 : 4) != 0;
  const std::int64_t C = request.size(0), H = request.size(1), K = request.size(2), stride = request.size(3),
                     padding = max ? request.size(4) : 0;
  const std::int64_t OH = windows(H, K, stride, padding, ceil);
  const kernels::Pool2d shape{.planes = request.batch * C,
                              .H = H,
                              .W = H,
                              .OH = OH,
                              .OW = OH,
                              .KH = K,
                              .KW = K,
                              .stride_h = stride,
                              .stride_w = stride,
                              .pad_h = padding,
                              .pad_w = padding};
  Tensor x = random({request.batch, C, H, H}), y = random({request.batch, C, OH, OH}), grad_y = random(y.shape()),
         grad_x = random(x.shape());
  Tensor index(y.shape(), DType::uint8);
  const auto& table = scope.mode->operators.pooling;
  if (max) {
    table.max_pool2d(scope.context, out(y), index.write<std::uint8_t>().data(), in(x), shape);
    if (request.phase == "forward")
      return [=, &scope]() mutable {
        table.max_pool2d(scope.context, out(y), index.write<std::uint8_t>().data(), in(x), shape);
      };
    return [=, &scope]() mutable {
      table.max_pool2d_backward(scope.context, out(grad_x), in(grad_y), index.write<std::uint8_t>().data(), shape);
    };
  }
  if (request.phase == "forward")
    return [=, &scope]() mutable { table.avg_pool2d(scope.context, out(y), in(x), shape); };
  return [=, &scope]() mutable { table.avg_pool2d_backward(scope.context, out(grad_x), in(grad_y), shape); };
}

Run relu(const Request& request, Scope& scope) {
  const std::int64_t n = request.size(0) * request.batch;
  Tensor x = random({n}), y = random({n}), grad_y = random({n}), grad_x = random({n});
  const auto& table = scope.mode->operators.activation;
  if (request.phase == "forward") return [=, &scope]() mutable { table.relu(scope.context, out(y), in(x), n); };
  return [=, &scope]() mutable { table.relu_backward(scope.context, out(grad_x), in(grad_y), in(y), n); };
}

Run linear(const Request& request) {
  const std::int64_t inputs = request.size(0), outputs = request.size(1);
  Tensor x = random({request.batch, inputs}), weight = random({outputs, inputs}), bias = random({outputs}),
         grad_y = random({request.batch, outputs});
  if (request.phase == "forward")
    return [=] {
      const NoGrad no_grad;
      operators::linear(x, weight, bias, Activation::relu);
    };
  x.set_requires_grad();
  weight.set_requires_grad();
  bias.set_requires_grad();
  const Tensor y = operators::linear(x, weight, bias, Activation::relu);
  return [=]() mutable {
    x.zero_grad();
    weight.zero_grad();
    bias.zero_grad();
    y.backward(grad_y, {.retain_graph = true});
  };
}

Run sgd(const Request& request, Scope& scope) {
  const std::int64_t n = request.size(0);
  Tensor value = random({n}), velocity = zeros({n}), gradient = random({n}), rate = full({1}, 1e-6F);
  return [=, &scope]() mutable {
    float *values = out(value), *velocities = out(velocity);
    const float* gradients = in(gradient);
    const kernels::Parameters<float> parameters{
        .count = 1, .value = &values, .gradient = &gradients, .first = &velocities, .size = &n};
    scope.mode->operators.update.sgd(scope.context, parameters, in(rate),
                                     {.momentum = 0.9, .weight_decay = 5e-4, .first_step = false});
  };
}

Run prepare(const Request& request, Scope& scope) {
  if (request.kind == "conv") return conv(request, scope);
  if (request.kind == "lrn") return lrn(request, scope);
  if (request.kind == "max" || request.kind == "average") return pool(request, scope);
  if (request.kind == "relu") return relu(request, scope);
  if (request.kind == "linear") return linear(request);
  if (request.kind == "sgd") return sgd(request, scope);
  throw Error(message("layer \"", request.kind, "\" is unknown"));
}

nlohmann::json measure(const Run& run, double seconds) {
  auto start = Clock::now();
  run();
  const double once = std::max(seconds_since(start), 1e-7);
  const int inner = static_cast<int>(std::clamp(0.001 / once, 1.0, 1000.0));
  std::vector<double> samples;
  const auto begin = Clock::now();
  while (samples.size() < 3 || seconds_since(begin) < seconds) {
    start = Clock::now();
    for (int i = 0; i < inner; ++i) run();
    samples.push_back(seconds_since(start) * 1e6 / inner);
  }
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double quantile) {
    return samples[static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1))];
  };
  return {{"us", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}};
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 0;
  const Device device("vectorized", {.threads = threads});
  std::string line, key;
  Run run;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    try {
      Request request;
      std::istringstream words(line);
      words >> request.kind >> request.phase >> request.batch >> request.seconds;
      for (std::int64_t size = 0; words >> size;) request.sizes.push_back(size);
      if (key != line) {
        run = nullptr;  // one layer at a time: the peer needs the memory
        run = prepare(request, current_scope());
        key = line;
      }
      answer = measure(run, request.seconds);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}
