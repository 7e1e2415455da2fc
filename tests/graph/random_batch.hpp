#pragma once
// Random programs whose work follows the batch: they expand, reshape, slice, reduce and join along it, look at its
// size, and some of their sizes coincide with it.

#include <algorithm>
#include <random>

#include "tern/tern.hpp"

namespace tern::testing {

/// A function of one tensor [N, 4, 3] and, for some seeds, of a second one. What it does depends on the seed and on the
/// batch. Some refuse large batches.
class BatchProgram {
 public:
  explicit BatchProgram(std::uint64_t seed) : seed_(seed) {
    Generator generator(seed);
    rows_ = randn({most_rows, 4, 3}, generator);
    row_ = randn({1, 4, 3}, generator);
    column_ = randn({4, 1}, generator);
    square_ = randn({3, 3}, generator);
  }

  static constexpr std::int64_t most_rows = 40;

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    namespace op = operators;
    std::mt19937_64 dice(seed_);
    const auto roll = [&](int sides) { return static_cast<int>(dice() % static_cast<std::uint64_t>(sides)); };
    std::vector<Tensor> values = inputs;
    const auto any = [&] { return values[static_cast<std::size_t>(roll(static_cast<int>(values.size())))]; };
    // Few look at the size itself: such a program rarely is one for any batch.
    const int kinds = roll(2) == 0 ? plain : roll(2) == 0 ? plain + lenient : plain + lenient + curved;
    for (int i = 2 + roll(8); i > 0; --i) {
      const Tensor x = roll(3) == 0 ? any() : values.back();
      values.push_back(made(roll(kinds), 1 + roll(5), x, any()));
    }
    std::vector<Tensor> results{values.back()};
    if (roll(3) == 0) results.push_back(any());
    switch (roll(4)) {
      case 0:
        results.push_back(op::sum(any(), {0}));
        break;
      case 1:
        results.push_back(op::max(any()));
        break;
      case 2:
        results.push_back(any().squeeze());
        break;
      default:
        break;
    }
    return results;
  }

 private:
  static constexpr int plain = 16, lenient = 9, curved = 9;

  Tensor made(int kind, std::int64_t size, const Tensor& x, const Tensor& other) const {
    namespace op = operators;
    const std::int64_t n = x.size(0);
    const Shape whole = x.shape();
    switch (kind) {
      case 0:
        return op::relu(x);
      case 1:
        return op::add(x, other);
      case 2:
        return op::sub(x, op::mean(x, {0}, true));
      case 3:
        return op::mul(x, column_);
      case 4:
        return op::softmax(x.reshape({n * 4, 3}), 0).reshape({n, 4, 3});
      case 5:
        return x.transpose(0, 1).reshape({n, 4, 3});
      case 6:
        return op::matmul(x, square_);
      case 7:
        return op::flip(x, {0});
      case 8:
        return op::cumsum(x, 0);
      case 9:
        return op::add(op::copy(x.slice(0, -1, 1 << 20)), other);
      case 10:
        return op::cat({x.slice(0, 0, 1), other.slice(0, 1, n)}, 0);
      case 11: {
        const Tensor flat = x.reshape({n, 12});
        return op::matmul(op::tanh(op::matmul(flat, flat.t())), flat).reshape({n, 4, 3});
      }
      case 12:
        return op::add(x, op::expand(row_, whole));
      case 13:
        return op::mul(op::expand(x.slice(0, 0, 1), whole), other);
      case 14:
        return op::add(x, op::sum_to(other, {1, 4, 3}));
      case 15:
        return op::sub(x, other[0]);
      // What calls other operators for some batches.
      case 16:
        return op::expand(op::mean(x, {0}, true), whole);
      case 17:
        return x.transpose(0, 2).contiguous().transpose(0, 2);
      case 18:
        return op::exp(op::neg(op::abs(x.squeeze()))).reshape(whole);
      case 19:
        return op::add(x, op::expand(row_, {n, 4, 3}).contiguous());
      case 20:
        return op::mul(x, static_cast<double>(n));
      case 21:
        return op::cat({other.slice(0, n - 1, n), x.slice(0, 0, n - 1)}, 0);
      case 22:
        return op::mul(x, 1.0 / static_cast<double>(n));
      case 23:
        return op::add(x, rows_.slice(0, 0, n));
      case 24:
        return op::add(x, op::sum(other.slice(0, 0, size), {0}, true));
      // What is no line of the batch.
      case 25: {
        const std::int64_t some = std::min(n, size);
        return op::cat({op::relu(x.slice(0, 0, some)), x.slice(0, some, n)}, 0);
      }
      case 26:
        return n <= size ? op::relu(x) : op::neg(x);
      case 27:
        return n == 1 ? op::exp(x) : op::expand(op::sum(x, {0}, true), whole);
      case 28:
        return op::add(x, op::sum(other.slice(0, std::min(size, n - 1), n), {0}, true));
      case 29:
        return op::cat({x.slice(0, n / 2, n), x.slice(0, 0, n / 2)}, 0);
      case 30:
        return op::sub(x, op::mean(other.slice(0, 0, std::max<std::int64_t>(n - size, 1)), {0}, true));
      case 31: {
        Tensor sum = x;
        for (std::int64_t i = 0; i < std::min(n, size); ++i) sum = op::add(sum, other[i]);
        return sum;
      }
      case 32:
        return n % 2 == 1 ? x : op::neg(x);
      default:
        return n > 200 ? op::tanh(x) : x;
    }
  }

  std::uint64_t seed_;
  Tensor rows_, row_, column_, square_;
};

}  // namespace tern::testing
