#pragma once
// What random programs are made of: decisions that repeat with their seed, and actions, each of which calls some public
// operators on inputs of random shapes, views and dtypes, now and then with what no tensor has.

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

namespace op = tern::operators;

inline constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                              least = std::numeric_limits<std::int64_t>::min();

/// The decisions of a program: the same for each run of its seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random::word(seed_, 77, count_++) % static_cast<std::uint64_t>(n));
  }
  bool once_in(std::int64_t n) { return below(n) == 0; }
  double between(double low, double high) {
    return low + (high - low) * random::uniform(random::word(seed_, 77, count_++));
  }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }
  /// Mostly a dimension of the tensor or a small number, seldom what no tensor has.
  std::int64_t wild(std::int64_t usual) {
    if (!once_in(40)) return below(usual + 1) - (once_in(4) ? usual : 0);
    return of(std::vector<std::int64_t>{most, least, most - 1, -1, usual + 1, most / 2});
  }
  Shape shape(int most_rank = 4) {
    Shape result;
    for (std::int64_t i = below(most_rank + 1); i > 0; --i)
      result.push_back(once_in(25) ? 0 : 1 + below(once_in(6) ? 17 : 5));
    return result;
  }
  DType dtype() {
    return once_in(8)   ? of(std::vector{DType::int32, DType::int64, DType::uint8, DType::boolean, DType::bfloat16,
                                       DType::float16})
           : once_in(3) ? DType::float64
                        : DType::float32;
  }
  DType floating() { return once_in(3) ? DType::float64 : DType::float32; }
  /// New elements between -2 and 2, or between 0.5 and 2.
  Tensor tensor(const Shape& shape, DType dtype, bool positive = false) {
    Generator generator(static_cast<std::uint64_t>(below(1 << 30)));
    return rand(shape, generator, positive ? 0.5 : -2, 2).to(dtype);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// One operator on its inputs, which are new leaves in each mode.
struct Action {
  std::string name;
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(std::vector<Tensor>&)> run;
  bool gradients = true;
};

using One = Tensor (*)(const Tensor&);
using Two = Tensor (*)(const Tensor&, const Tensor&);

/// A few views of x, one after the other.
inline std::function<Tensor(Tensor)> views(Dice& dice, Shape shape) {
  std::vector<std::function<Tensor(const Tensor&)>> steps;
  for (std::int64_t i = dice.below(3); i > 0; --i) {
    const int rank = shape.rank();
    const std::int64_t a = dice.wild(std::max(rank - 1, 0)), b = dice.wild(std::max(rank - 1, 0)), kind = dice.below(7);
    const std::int64_t begin = dice.wild(3), end = dice.wild(5),
                       step = dice.once_in(12) ? dice.wild(3) : 1 + dice.below(2);
    const std::int64_t repeats = 1 + dice.below(3);
    steps.push_back([=](const Tensor& x) -> Tensor {
      switch (kind) {
        case 0:
          return x.transpose(a, b);
        case 1:
          return x.slice(a, begin, end, step);
        case 2:
          return x.unsqueeze(a);
        case 3:
          return x.flatten(a);
        case 4: {
          Shape wider = x.shape();
          if (wider.rank() == Shape::max_rank) return x;
          std::vector<std::int64_t> sizes{repeats};
          sizes.insert(sizes.end(), wider.begin(), wider.end());
          return x.expand(Shape(sizes));
        }
        case 5:
          return x.reshape({-1, repeats});
        default:
          return x.rank() == 4 ? x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}) : x.squeeze(b);
      }
    });
  }
  return [steps](Tensor x) {
    for (const auto& step : steps) x = step(x);
    return x;
  };
}

inline Action elementwise(Dice& dice) {
  static const std::vector<std::pair<const char*, One>> ones{
      {"neg", op::neg},         {"exp", op::exp},   {"abs", op::abs},           {"relu", op::relu},
      {"sigmoid", op::sigmoid}, {"tanh", op::tanh}, {"softplus", op::softplus}, {"gelu", op::gelu}};
  static const std::vector<std::pair<const char*, Two>> twos{{"add", op::add},
                                                             {"sub", op::sub},
                                                             {"mul", op::mul},
                                                             {"maximum", op::maximum},
                                                             {"minimum", op::minimum},
                                                             {"less", op::less},
                                                             {"greater_equal", op::greater_equal},
                                                             {"equal", op::equal}};
  const Shape shape = dice.shape();
  const DType dtype = dice.dtype();
  const auto view = views(dice, shape);
  const double number = dice.between(-2, 2);
  switch (dice.below(6)) {
    case 0: {
      const auto& [name, function] = dice.of(ones);
      return {name, {dice.tensor(shape, dtype)}, [=, f = function](auto& in) { return std::vector{f(view(in[0]))}; }};
    }
    case 1: {
      const auto& [name, function] = dice.of(twos);
      Shape other = shape;
      for (int i = 0; i < other.rank(); ++i)
        if (dice.once_in(3)) other[i] = 1;
      if (dice.once_in(12)) other = dice.shape();
      return {name,
              {dice.tensor(shape, dtype), dice.tensor(other, dice.once_in(15) ? dice.dtype() : dtype)},
              [=, f = function](auto& in) {
                return std::vector{f(in[0], in[1]), f(view(in[0]), view(in[0]))};
              }};
    }
    case 2:
      return {"numbers", {dice.tensor(shape, dtype, true)}, [=](auto& in) {
                const Tensor x = view(in[0]);
                return std::vector{x + number, x - number,      number - x, x * number,  x / 1.7,
                                   number / x, op::pow(x, 1.5), op::log(x), op::sqrt(x), op::leaky_relu(x, 0.2)};
              }};
    case 3: {
      const double low = dice.between(-2, 2);
      return {"clamp", {dice.tensor(shape, dtype)}, [=](auto& in) {
                return std::vector{op::clamp(view(in[0]), low, number)};
              }};
    }
    case 4:
      return {"div, where", {dice.tensor(shape, dtype), dice.tensor(shape, dtype, true)}, [=](auto& in) {
                const Tensor a = view(in[0]), b = view(in[1]);
                return std::vector{a / b, op::where(op::less(a, b), a, b), op::add_all({a, b, a}), op::add_all({a})};
              }};
    default: {
      const DType to = dice.dtype();
      return {"cast", {dice.tensor(shape, dtype)}, [=](auto& in) {
                return std::vector{op::cast(view(in[0]), to), op::copy(view(in[0]))};
              }};
    }
  }
}

inline Action reduction(Dice& dice) {
  const Shape shape = dice.shape();
  const auto view = views(dice, shape);
  op::Dims dims;
  for (std::int64_t i = dice.below(3); i > 0; --i) dims.push_back(dice.wild(std::max(shape.rank() - 1, 0)));
  const bool keep = dice.once_in(2);
  const std::int64_t dim = dice.wild(std::max(shape.rank() - 1, 0)), which = dice.below(8), correction = dice.wild(2);
  return {message("reduction ", which), {dice.tensor(shape, dice.dtype())}, [=](auto& in) -> std::vector<Tensor> {
            const Tensor x = view(in[0]);
            switch (which) {
              case 0:
                return {op::sum(x, dims, keep)};
              case 1:
                return {op::mean(x, dims, keep)};
              case 2:
                return {op::var(x, dims, correction, keep)};
              case 3:
                return {op::max(x, dims, keep), op::min(x, dims, keep)};
              case 4:
                return {op::argmax(x, dim, keep), op::argmin(x, dim, keep)};
              case 5:
                return {op::softmax(x, dim), op::log_softmax(x, dim)};
              case 6:
                return {op::sum_to(x, x.rank() > 0 ? Shape{x.size(-1)} : Shape{})};
              default:
                return {op::sum(x)};
            }
          }};
}

inline Action movement(Dice& dice) {
  const Shape shape = dice.shape();
  const DType dtype = dice.dtype();
  const auto view = views(dice, shape);
  const std::int64_t dim = dice.wild(std::max(shape.rank() - 1, 0)), a = dice.wild(3), b = dice.wild(3),
                     which = dice.below(6);
  const double value = dice.between(-300, 300);
  Generator generator(static_cast<std::uint64_t>(dice.below(1000)));
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  const Tensor index =
      rows == 0 ? zeros({0}, DType::int64) : randint(0, rows + (dice.once_in(20) ? 1 : 0), {dice.below(6)}, generator);
  return {message("movement ", which),
          {dice.tensor(shape, dtype), dice.tensor(shape, dtype)},
          [=](auto& in) mutable -> std::vector<Tensor> {
            const Tensor x = view(in[0]), y = view(in[1]);
            switch (which) {
              case 0:
                return {op::cat({x, y, x}, dim), op::stack({x, y}, dim)};
              case 1:
                return op::split(x, {a, b}, dim);
              case 2:
                return {op::pad(x, {{dim, a, b}}, value)};
              case 3:
                return {op::index_select(x, 0, index)};
              case 4: {
                Generator own(7);
                return {op::dropout(x, 0.4, true, own)};
              }
              default:
                return {op::one_hot(x.to(DType::int64).reshape({-1}), 3)};
            }
          }};
}

inline Action products(Dice& dice) {
  const std::int64_t m = dice.below(20), k = dice.below(20), n = dice.below(20), batch = 1 + dice.below(3);
  const DType dtype = dice.floating();
  const bool ta = dice.once_in(2), tb = dice.once_in(2), wrong = dice.once_in(15);
  const Activation activation = dice.of(std::vector{Activation::none, Activation::sigmoid, Activation::tanh});
  const Tensor a = dice.tensor(ta ? Shape{k, m} : Shape{m, k}, dtype),
               b = dice.tensor(tb ? Shape{n, k + wrong} : Shape{k + wrong, n}, dtype);
  if (dice.once_in(2))
    return {"matmul", {a, b}, [=](auto& in) {
              return std::vector{
                  op::matmul(in[0], in[1], {ta, tb}),
                  op::matmul(in[0].unsqueeze(0).expand({batch, in[0].size(0), in[0].size(1)}), in[1], {ta, tb})};
            }};
  return {"linear", {a, b, dice.tensor({n}, dtype)}, [=](auto& in) {
            return std::vector{
                op::linear(ta ? in[0].transpose(0, 1) : in[0], tb ? in[1] : in[1].transpose(0, 1), in[2], activation)};
          }};
}

inline Action images(Dice& dice) {
  const DType dtype = dice.floating();
  const std::int64_t groups = dice.once_in(4) ? 2 : 1, c = groups * (1 + dice.below(4)),
                     o = groups * (1 + dice.below(9)), kernel = 1 + dice.below(5), n = 1 + dice.below(3),
                     h = 2 + dice.below(12), w = 2 + dice.below(12);
  const op::Conv2dOptions options{.stride = Pair{1 + dice.below(3), 1 + dice.below(2)},
                                  .padding = dice.wild(2),
                                  .dilation = 1 + dice.below(2),
                                  .groups = groups,
                                  .activation = dice.of(std::vector{Activation::none, Activation::sigmoid})};
  const bool last = dice.once_in(2);
  const std::int64_t which = dice.below(5), padding = dice.wild(kernel / 2);
  const Pair grid{1 + dice.below(4), 1 + dice.below(4)};
  const bool ceil = dice.once_in(2);
  return {message("images ", which),
          {dice.tensor({n, c, h, w}, dtype), dice.tensor({o, c / groups, kernel, kernel}, dtype),
           dice.tensor({o}, dtype), dice.tensor({c}, dtype), dice.tensor({c}, dtype)},
          [=](auto& in) -> std::vector<Tensor> {
            const Tensor x = last ? in[0].permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}) : in[0];
            switch (which) {
              case 0:
                return {op::conv2d(x, in[1], in[2], options)};
              case 1:
                return {op::conv2d_cat({{x, in[1], in[2], options}, {x, in[1], {}, options}})};
              case 2:
                return {op::max_pool2d(x, kernel, {.stride = grid, .padding = padding, .ceil_mode = ceil}),
                        op::avg_pool2d(x, kernel, {.stride = grid, .padding = padding, .ceil_mode = ceil})};
              case 3:
                return {op::adaptive_avg_pool2d(x, grid), op::local_response_norm(x)};
              default:
                return {op::batch_norm(x, in[3], in[4], zeros({c}, dtype), ones({c}, dtype), {.epsilon = 0.1})};
            }
          }};
}

inline Action losses(Dice& dice) {
  const std::int64_t rows = dice.below(9), classes = 1 + dice.below(9), which = dice.below(3);
  const DType dtype = dice.floating();
  const Reduce reduce = dice.of(std::vector{Reduce::mean, Reduce::sum, Reduce::none});
  Generator generator(static_cast<std::uint64_t>(dice.below(1000)));
  const Tensor labels = randint(0, classes + (dice.once_in(10) ? 1 : 0), {rows}, generator);
  const Tensor target = dice.tensor({rows, classes}, dtype, true);
  const double smoothing = dice.once_in(2) ? 0 : 0.1;
  return {message("losses ", which), {dice.tensor({rows, classes}, dtype)}, [=](auto& in) -> std::vector<Tensor> {
            if (which == 0) return {op::cross_entropy(in[0], labels, {.label_smoothing = smoothing, .reduce = reduce})};
            if (which == 1) return {op::nll(op::log_softmax(in[0]), labels, {.reduce = reduce})};
            return {op::mse(in[0], target, reduce), op::mae(in[0], target, reduce), op::hinge(in[0], target, reduce),
                    op::binary_cross_entropy_with_logits(in[0], target * 0.5, reduce)};
          }};
}

inline Action in_place(Dice& dice) {
  const Shape shape = dice.shape();
  const DType dtype = dice.dtype(), other = dice.dtype();
  const auto view = views(dice, shape), from = views(dice, shape);
  const double value = dice.between(-300, 300);
  const std::int64_t which = dice.below(4);
  const double momentum = dice.once_in(2) ? 0.9 : 0;
  return {message("in place ", which),
          {dice.tensor(shape, dtype), dice.tensor(shape, other)},
          [=](auto& in) -> std::vector<Tensor> {
            Tensor part = view(in[0]);
            if (which == 0) part.fill_(value);
            if (which == 1) part.copy_(in[1]);
            if (which == 2) part.copy_(from(in[0]));
            if (which == 3) {
              const Tensor moment = zeros(in[0].shape(), in[0].dtype()), rate = full({1}, 0.1, in[0].dtype());
              op::sgd({in[0]}, {in[1]}, momentum == 0 ? std::vector<Tensor>{} : std::vector{moment}, rate,
                      {.momentum = momentum});
              op::adam({in[0]}, {in[1]}, {moment}, {moment.clone()}, rate, zeros({1}, DType::int64), {});
            }
            return {in[0]};
          },
          false};
}

/// A graph of smooth operators, with views, changes in place, dropped handles, two roots and a retained graph.
inline Action kept_graph(Dice& dice) {
  const std::int64_t n = 1 + dice.below(6), seed = dice.below(1 << 30), length = 3 + dice.below(9);
  const DType dtype = dice.floating();
  return {"graph",
          {dice.tensor({n, n}, dtype), dice.tensor({n, n}, dtype), dice.tensor({n}, dtype)},
          [=](auto& in) -> std::vector<Tensor> {
            Dice own(static_cast<std::uint64_t>(seed));
            std::vector<Tensor> known{in[0], in[1], in[2].expand({n, n})};
            for (std::int64_t i = 0; i < length; ++i) {
              const Tensor a = own.of(known), b = own.of(known);
              switch (own.below(10)) {
                case 0:
                  known.push_back(op::tanh(a + b));
                  break;
                case 1:
                  known.push_back(op::sigmoid(a * b));
                  break;
                case 2:
                  known.push_back(op::matmul(a, b) / static_cast<double>(n));
                  break;
                case 3:
                  known.push_back(a.transpose(0, 1));
                  break;
                case 4:
                  known.push_back(op::cat({a.slice(0, 0, n / 2), b.slice(0, n / 2, n)}, 0));
                  break;
                case 5:
                  known.push_back(op::softmax(a - b, own.below(2)));
                  break;
                case 6:
                  known.push_back(op::mean(a, {0}, true).expand({n, n}));
                  break;
                case 7:
                  known.push_back(op::gelu(a).reshape({n * n}).reshape({n, n}));
                  break;
                case 8: {
                  const NoGrad no_grad;  // may change what backward needs: an AutogradError, in both modes
                  if (own.once_in(3)) Tensor(own.of(known)).slice(0, 0, 1).fill_(0.5);
                  break;
                }
                default:
                  known.push_back(op::add_all({a, b, a}) * 0.3);
              }
            }
            return {known.back(), op::mean(known[known.size() / 2])};
          }};
}

}  // namespace tern::testing
