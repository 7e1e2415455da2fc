#pragma once
// The layers that sweep times: what they are made of, and how they run in a Step.

#include <cmath>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace tern::benchmarks {

using Run = std::function<Tensor()>;
using Leaves = std::vector<Tensor>;

/// A function of its leaves, x first: all of them get gradients.
struct Layer {
  Leaves leaves;
  std::function<Tensor(const Leaves&)> forward;
};

/// The sizes of a request, and random tensors.
class Request {
 public:
  Request(std::istream& words, DType dtype, bool training) : trains(training), words_(words), dtype_(dtype) {}

  const bool trains;
  bool channels_last = false;

  std::int64_t size() {
    std::int64_t value = 0;
    if (!(words_ >> value)) throw Error("a size is missing");
    return value;
  }
  std::string word() {
    std::string text;
    if (!(words_ >> text)) throw Error("a word is missing");
    return text;
  }
  /// Reads the layout of images: first or last.
  void layout() { channels_last = word() == "last"; }

  /// Normal numbers. The host draws a block of prime length, which the device repeats: a layer's numbers take longer
  /// to draw than the layer to run.
  Tensor random(const Shape& shape) {
    constexpr std::int64_t block = 65521;
    const std::int64_t count = element_count(shape), rows = (count + block - 1) / block;
    if (rows <= 1) return randn(shape, generator_).to(dtype_);
    const Tensor drawn = randn({1, block}, generator_).to(dtype_);
    return drawn.expand({rows, block}).reshape({rows * block}).slice(0, 0, count).reshape(shape).contiguous();
  }
  /// Random images in the layout.
  Tensor images(std::int64_t N, std::int64_t C, std::int64_t H, std::int64_t W) {
    return channels_last ? random({N, H, W, C}).permute({0, 3, 1, 2}) : random({N, C, H, W});
  }
  Tensor labels(std::int64_t classes, std::int64_t rows) { return randint(0, classes, {rows}, generator_); }

 private:
  std::istream& words_;
  DType dtype_;
  Generator generator_{3};
};

inline Layer conv(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size(), O = of.size(), K = of.size();
  operators::Conv2dOptions options{.activation = Activation::relu};
  options.stride = of.size(), options.padding = of.size(), options.dilation = of.size(), options.groups = of.size();
  return {{of.images(N, C, H, H), of.random({O, C / options.groups, K, K}), of.random({O})},
          [=](const Leaves& x) { return operators::conv2d(x[0], x[1], x[2], options); }};
}

/// Results are of the size of the inputs, as in a trained network.
inline Layer linear(Request& of) {
  const std::int64_t rows = of.size(), in = of.size(), out = of.size();
  const std::string name = of.word();
  const Activation activation = name == "relu"   ? Activation::relu
                                : name == "gelu" ? Activation::gelu
                                                 : Activation::none;
  const Tensor weight = operators::mul(of.random({out, in}), 1 / std::sqrt(static_cast<double>(in)));
  return {{of.random({rows, in}), weight, of.random({out})},
          [=](const Leaves& x) { return operators::linear(x[0], x[1], x[2], activation); }};
}

inline Layer matmul(Request& of) {
  const std::int64_t batch = of.size(), m = of.size(), k = of.size(), n = of.size(), transposed = of.size();
  return {{of.random({batch, m, k}), of.random(transposed != 0 ? Shape{batch, n, k} : Shape{batch, k, n})},
          [=](const Leaves& x) { return operators::matmul(x[0], x[1], {.transpose_b = transposed != 0}); }};
}

/// Layout heads: [N, heads, tokens, width]; tokens: from [N, tokens, heads, width], as a linear layer makes it, to [N,
/// tokens, heads * width], as the next one takes it.
inline Layer attention(Request& of) {
  const bool by_tokens = of.word() == "tokens";
  const std::int64_t N = of.size(), heads = of.size(), groups = of.size(), queries = of.size(), keys = of.size(),
                     width = of.size(), causal = of.size();
  const auto part = [&](std::int64_t number, std::int64_t tokens) {
    return of.random(by_tokens ? Shape{N, tokens, number, width} : Shape{N, number, tokens, width});
  };
  return {{part(heads, queries), part(groups, keys), part(groups, keys)}, [=](const Leaves& x) {
            const auto by_heads = [&](const Tensor& t) { return by_tokens ? t.transpose(1, 2) : t; };
            const Tensor query = by_heads(x[0]), key = by_heads(x[1]), value = by_heads(x[2]);
            const Tensor y =
                heads == groups ? operators::scaled_dot_product_attention(query, key, value, {.is_causal = causal != 0})
                                : operators::grouped_attention(query, key, value, {.is_causal = causal != 0});
            return by_tokens ? y.transpose(1, 2).reshape({N, queries, heads * width}) : y;
          }};
}

/// Form plain, relu, or added: a shortcut is added before relu.
inline Layer batch_norm(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size();
  const std::string form = of.word();
  Leaves leaves{of.images(N, C, H, H), of.random({C}), of.random({C})};
  if (form == "added") leaves.push_back(of.images(N, C, H, H));
  const Tensor mean = zeros({C}), variance = ones({C});
  const operators::BatchNormOptions options{.training = of.trains,
                                            .activation = form == "plain" ? Activation::none : Activation::relu};
  return {leaves, [=](const Leaves& x) {
            return operators::batch_norm(x[0], x[1], x[2], mean, variance, options, x.size() > 3 ? x[3] : Tensor());
          }};
}

inline Layer group_norm(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size(), groups = of.size();
  return {{of.images(N, C, H, H), of.random({C}), of.random({C})},
          [=](const Leaves& x) { return operators::group_norm(x[0], groups, x[1], x[2]); }};
}

inline Layer layer_norm(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({width}), of.random({width})},
          [=](const Leaves& x) { return operators::layer_norm(x[0], {width}, x[1], x[2]); }};
}

inline Layer rms_norm(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({width})},
          [=](const Leaves& x) { return operators::rms_norm(x[0], {width}, x[1]); }};
}

inline Layer max_pool(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size(), K = of.size(), stride = of.size(),
                     padding = of.size();
  return {{of.images(N, C, H, H)}, [=](const Leaves& x) {
            return operators::max_pool2d(x[0], K, {.stride = Pair(stride), .padding = padding});
          }};
}

inline Layer avg_pool(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size(), K = of.size(), stride = of.size(),
                     padding = of.size();
  return {{of.images(N, C, H, H)}, [=](const Leaves& x) {
            if (K == H) return operators::global_avg_pool2d(x[0]);
            return operators::avg_pool2d(x[0], K, {.stride = Pair(stride), .padding = padding});
          }};
}

inline Layer softmax(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width})}, [](const Leaves& x) { return operators::softmax(x[0]); }};
}

inline Layer cross_entropy(Request& of) {
  const std::int64_t rows = of.size(), classes = of.size();
  return {{of.random({rows, classes})},
          [labels = of.labels(classes, rows)](const Leaves& x) { return operators::cross_entropy(x[0], labels); }};
}

inline Layer bias_gelu(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({width})},
          [](const Leaves& x) { return operators::gelu(operators::add(x[0], x[1])); }};
}

inline Layer add_relu(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({rows, width})},
          [](const Leaves& x) { return operators::relu(operators::add(x[0], x[1])); }};
}

inline Layer swiglu(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({rows, width})},
          [](const Leaves& x) { return operators::mul(operators::silu(x[0]), x[1]); }};
}

/// x + scale y, a scale for each column.
inline Layer layer_scale(Request& of) {
  const std::int64_t rows = of.size(), width = of.size();
  return {{of.random({rows, width}), of.random({rows, width}), of.random({width})},
          [](const Leaves& x) { return operators::mul_add(x[1], x[2], x[0]); }};
}

/// Each channel of each image by a number of its own, as squeeze and excitation do.
inline Layer channel_scale(Request& of) {
  of.layout();
  const std::int64_t N = of.size(), C = of.size(), H = of.size();
  return {{of.images(N, C, H, H), of.random({N, C, 1, 1})}, [](const Leaves& x) { return operators::mul(x[0], x[1]); }};
}

inline Layer layer_of(const std::string& kind, Request& request) {
  static const std::map<std::string, Layer (*)(Request&)> kinds{{"conv", conv},
                                                                {"linear", linear},
                                                                {"matmul", matmul},
                                                                {"attention", attention},
                                                                {"batch_norm", batch_norm},
                                                                {"group_norm", group_norm},
                                                                {"layer_norm", layer_norm},
                                                                {"rms_norm", rms_norm},
                                                                {"max_pool", max_pool},
                                                                {"avg_pool", avg_pool},
                                                                {"softmax", softmax},
                                                                {"cross_entropy", cross_entropy},
                                                                {"bias_gelu", bias_gelu},
                                                                {"add_relu", add_relu},
                                                                {"swiglu", swiglu},
                                                                {"layer_scale", layer_scale},
                                                                {"channel_scale", channel_scale}};
  const auto found = kinds.find(kind);
  if (found == kinds.end()) throw Error(message("layer \"", kind, "\" is unknown"));
  return found->second(request);
}

/// A layer: inference, or forward and the gradients of all leaves.
struct Timed {
  Run run;                     ///< recorded by a Step
  std::function<void()> once;  ///< as it is, for observers
};

inline Timed timed(const std::string& kind, std::istream& words, DType dtype, bool trains) {
  Request request(words, dtype, trains);
  Layer layer = layer_of(kind, request);
  if (!trains) {
    const auto infer = [layer](const Tensor& x) {
      const NoGrad none;
      Leaves leaves = layer.leaves;
      leaves[0] = x;
      return layer.forward(leaves);
    };
    const auto step = std::make_shared<Step>(infer);
    return {[step, x = layer.leaves[0]] { return (*step)(x); }, [infer, x = layer.leaves[0]] { (void)infer(x); }};
  }
  for (Tensor& leaf : layer.leaves) leaf.set_requires_grad();
  const Tensor y = layer.forward(layer.leaves);
  Tensor grad = y.rank() == 4 && request.channels_last ? request.images(y.size(0), y.size(1), y.size(2), y.size(3))
                                                       : request.random(y.shape());
  grad = grad.to(y.dtype());  // that of a loss is float32
  const Step::Function train = [layer](const std::vector<Tensor>& in) mutable -> std::vector<Tensor> {
    for (Tensor& leaf : layer.leaves) leaf.zero_grad();
    layer.forward(layer.leaves).backward(in[0]);
    return {};
  };
  const auto step = std::make_shared<Step>(train);
  return {[step, grad] {
            (void)step->run_all({grad});
            return Tensor();
          },
          [train, grad] { (void)train({grad}); }};
}

}  // namespace tern::benchmarks
