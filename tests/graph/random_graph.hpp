#pragma once
// Random programs over tensors of a few shapes.

#include <random>

#include "tern/tern.hpp"

namespace tern::testing {

/// A function of one or two images [N, 4, 6, 6] with weights of its own. What it does depends on the seed alone.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : seed_(seed), weights_(seed) {
    for (int i = 0; i < 3; ++i) {
      convolutions_.push_back(randn({4, 4, 3, 3}, weights_));
      biases_.push_back(randn({4}, weights_));
      scales_.push_back(rand({4}, weights_, 0.5, 1.5));
    }
    matrix_ = randn({6, 6}, weights_);
    row_ = randn({1, 6}, weights_);
    column_ = randn({4, 1, 1}, weights_);
  }

  std::vector<Tensor> weights() const {
    std::vector<Tensor> all{matrix_, row_, column_};
    for (const auto* list : {&convolutions_, &biases_, &scales_}) all.insert(all.end(), list->begin(), list->end());
    return all;
  }

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    std::mt19937_64 dice(seed_);
    const auto roll = [&](int sides) { return static_cast<int>(dice() % static_cast<std::uint64_t>(sides)); };
    std::vector<Tensor> values = inputs;
    const int count = 3 + roll(12);
    for (int i = 0; i < count; ++i) {
      // Mostly of what was made last, so that neighbours can be joined.
      const std::size_t back = static_cast<std::size_t>(roll(3) == 0 ? roll(static_cast<int>(values.size())) : 0);
      const Tensor x = values[values.size() - 1 - back];
      values.push_back(
          made(roll(20), roll(3), x, values[static_cast<std::size_t>(roll(static_cast<int>(values.size())))]));
    }
    std::vector<Tensor> results{values.back()};
    if (roll(3) == 0) results.push_back(values[static_cast<std::size_t>(roll(static_cast<int>(values.size())))]);
    if (roll(4) == 0) results.push_back(max_of(values.back()));
    return results;
  }

 private:
  static Tensor max_of(const Tensor& x) { return operators::max_pool2d(x, 2).flatten(1); }

  Tensor made(int kind, int which, const Tensor& x, const Tensor& other) const {
    namespace op = operators;
    const Tensor& scale = scales_[static_cast<std::size_t>(which)];
    const Tensor& bias = biases_[static_cast<std::size_t>(which)];
    switch (kind) {
      case 0:
      case 1:
        if (kind == 0 && which == 2)  // most taps meet padding alone
          return op::conv2d(x, convolutions_[2], bias, {.padding = {7, 4}, .dilation = {7, 4}});
        return op::conv2d(x, convolutions_[static_cast<std::size_t>(which)], which == 0 ? Tensor{} : bias,
                          {.padding = 1});
      case 2:
      case 3:
        return op::batch_norm(x, scale, bias, bias, scale, {.training = false});
      case 4:
      case 5:
        return which == 2 ? op::relu6(op::mul(x, 4)) : op::relu(x);
      case 6:
        return which == 0 ? op::sigmoid(x) : which == 1 ? op::silu(x) : op::hardswish(x);
      case 7:
      case 8:
        return op::add(x, other);
      case 9:
        return op::mul(x, op::add(scale, 1).reshape({4, 1, 1}));  // of constants alone
      case 10:
        if (which == 0) return op::linear(x, matrix_);
        return which == 1 ? op::matmul(x, matrix_) : op::add(op::matmul(x, matrix_), row_);
      case 11:
        return which == 0 ? op::tanh(x) : op::gelu(x);
      case 12:
        return op::cat({x.slice(1, 2, 4), other.slice(1, 0, 2)}, 1);
      case 13:
        if (which == 1) return op::relu(x.reshape({x.size(0), 8, 18})).unsqueeze(1).reshape({x.size(0), 4, 6, 6});
        return x.transpose(2, 3);
      case 14:
        return op::softmax(x.reshape({x.size(0) * 4, 36}), -1).reshape({x.size(0), 4, 6, 6});
      case 15:
        return which == 0 ? op::avg_pool2d(x, 3, {.stride = Pair{1}, .padding = Pair{1}})
                          : op::max_pool2d(x, 3, {.stride = Pair{1}, .padding = Pair{1}});
      case 16:
        return op::local_response_norm(x, {.size = 3});
      case 17:
        if (which < 2) {  // branches of one value
          const Tensor conv = op::conv2d(x, convolutions_[1], bias, {.padding = 1});
          const Tensor norm = op::batch_norm(which == 0 ? x : conv, scale, bias, bias, scale, {.training = false});
          return op::mul(op::sub(which == 0 ? op::add(norm, conv) : norm, x), column_);
        }
        [[fallthrough]];
      case 18:
        return op::sub(x, op::mean(x, {2, 3}, true));
      default:  // along the batch
        if (which == 0) return op::sub(x, op::mean(x, {0}, true));
        return which == 1 ? op::add(x, op::expand(other.slice(0, 0, 1), x.shape()))
                          : op::cat({other.slice(0, 0, 1), x.slice(0, 1, x.size(0))}, 0);
    }
  }

  std::uint64_t seed_;
  Generator weights_;
  std::vector<Tensor> convolutions_, biases_, scales_;
  Tensor matrix_, row_, column_;
};

}  // namespace tern::testing
