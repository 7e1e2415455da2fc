// Resizing by every rule, by a weight for each element along each dimension.

#include <algorithm>
#include <cmath>

#include "operators/sampling.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/sampling.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::Coordinates;
using op::Nearest;
using op::Resize;

struct ResizeUse {
  std::string name;
  Shape x, output;
  op::ResizeOptions options = {};
};

// The place along one dimension that element i comes from.
double place_of(const ResizeUse& use, int dim, std::int64_t i) {
  const auto& o = use.options;
  const auto d = static_cast<std::size_t>(dim);
  const auto in = static_cast<double>(use.x[dim]), out = static_cast<double>(use.output[dim]),
             at = static_cast<double>(i);
  const double scale = o.scales.empty() ? out / in : o.scales[d], width = scale * in;
  const double half = (at + 0.5) / scale - 0.5;
  switch (o.coordinates) {
    case Coordinates::half_pixel_symmetric:
      return in / 2 * (1 - out / width) + half;
    case Coordinates::pytorch_half_pixel:
      return width == 1 ? -0.5 : half;
    case Coordinates::align_corners:
      return width == 1 ? 0 : at * (in - 1) / (width - 1);
    case Coordinates::asymmetric:
      return at / scale;
    case Coordinates::crop: {
      const double begin = o.roi[d], end = o.roi[d + static_cast<std::size_t>(use.x.rank())];
      return begin * (in - 1) +
             (width == 1 ? (end - begin) * (in - 1) / 2 : at * (end - begin) * (in - 1) / (width - 1));
    }
    default:
      return half;
  }
}

// The weights of the elements along one dimension for element i.
std::vector<double> weights_of(const ResizeUse& use, int dim, std::int64_t i) {
  const auto& o = use.options;
  const std::int64_t size = use.x[dim];
  std::vector<double> weights(static_cast<std::size_t>(size), 0);
  const double place = place_of(use, dim, i);
  const auto inside = [&](double index) {
    return static_cast<std::size_t>(std::min(std::max(index, 0.0), static_cast<double>(size - 1)));
  };
  if (o.mode == Resize::nearest) {
    const double down = std::floor(place), share = place - down;
    const bool up = o.nearest == Nearest::floor               ? false
                    : o.nearest == Nearest::ceil              ? share > 0
                    : o.nearest == Nearest::round_prefer_ceil ? share >= 0.5
                                                              : share > 0.5;
    weights[inside(down + (up ? 1 : 0))] = 1;
    return weights;
  }
  const double scale = o.scales.empty() ? static_cast<double>(use.output[dim]) / static_cast<double>(size)
                                        : o.scales[static_cast<std::size_t>(dim)];
  const double step = o.antialias ? std::min(scale, 1.0) : 1.0;
  double total = 0;
  for (double index = std::floor(place) - 2 / step - 2; index <= place + 2 / step + 2; ++index) {
    const double t = (std::floor(index) - place) * step;
    const double weight = o.mode == Resize::linear ? std::max(0.0, 1 - std::abs(t)) : cubic_weight(t, o.cubic);
    const bool is_inside = std::floor(index) >= 0 && std::floor(index) < static_cast<double>(size);
    if (o.exclude_outside && !is_inside) continue;
    weights[inside(std::floor(index))] += weight;
    total += weight;
  }
  if (o.antialias || o.exclude_outside)
    for (double& weight : weights) weight /= total;
  return weights;
}

Array resized(const ResizeUse& use, const Array& x) {
  Array now = x;
  for (int dim = 0; dim < x.shape.rank(); ++dim) {
    Shape shape = now.shape;
    shape[dim] = use.output[dim];
    Array next(shape);
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      const std::vector<double> weights = weights_of(use, dim, i);
      for_each_position(now.shape, [&](const Shape& from) {
        Shape to = from;
        to[dim] = i;
        const double weight = weights[static_cast<std::size_t>(from[dim])];
        if (weight != 0) next.at(to) += weight * now.at(from);
      });
    }
    now = next;
  }
  if (use.options.coordinates == Coordinates::crop)
    for_each_position(now.shape, [&](const Shape& at) {
      for (int dim = 0; dim < at.rank(); ++dim) {
        const double place = place_of(use, dim, at[dim]);
        if (place < 0 || place > static_cast<double>(use.x[dim] - 1)) now.at(at) = use.options.extrapolation;
      }
    });
  return now;
}

}  // namespace

Operator resize_operator() {
  Operator op{.name = "resize", .ulps = 8};
  std::vector<ResizeUse> uses;
  constexpr std::pair<Coordinates, const char*> rules[]{{Coordinates::half_pixel, "half_pixel"},
                                                        {Coordinates::half_pixel_symmetric, "symmetric"},
                                                        {Coordinates::pytorch_half_pixel, "pytorch"},
                                                        {Coordinates::align_corners, "align_corners"},
                                                        {Coordinates::asymmetric, "asymmetric"}};
  for (const auto& [rule, label] : rules)
    for (const auto& [mode, title] :
         {std::pair{Resize::nearest, "nearest "}, {Resize::linear, "linear "}, {Resize::cubic, "cubic "}}) {
      uses.push_back({message(title, label, " up"), {1, 2, 4, 3}, {1, 2, 7, 8}, {.mode = mode, .coordinates = rule}});
      uses.push_back({message(title, label, " down"), {2, 6, 9}, {2, 4, 1}, {.mode = mode, .coordinates = rule}});
      uses.push_back({message(title, label, " by scales"),
                      {3, 5, 4},
                      {3, 6, 10},
                      {.mode = mode, .coordinates = rule, .scales = {1, 1.3, 2.6}}});
    }
  for (const auto& [rule, label] :
       {std::pair{Nearest::round_prefer_ceil, "ceil of halves"}, {Nearest::floor, "floor"}, {Nearest::ceil, "ceil"}})
    for (const Coordinates rule_of : {Coordinates::asymmetric, Coordinates::half_pixel})
      uses.push_back({message("nearest, ", label, rule_of == Coordinates::asymmetric ? " asymmetric" : ""),
                      {2, 5, 6},
                      {2, 8, 3},
                      {.coordinates = rule_of, .nearest = rule}});
  for (const Resize mode : {Resize::linear, Resize::cubic}) {
    const std::string title = mode == Resize::linear ? "linear" : "cubic";
    for (const bool exclude : {false, true}) {
      const std::string ending = exclude ? " without outside" : "";
      uses.push_back({title + " antialias" + ending,
                      {1, 2, 9, 11},
                      {1, 2, 4, 3},
                      {.mode = mode, .exclude_outside = exclude, .antialias = true}});
      uses.push_back({title + " antialias up" + ending,
                      {2, 3, 4},
                      {2, 7, 3},
                      {.mode = mode, .exclude_outside = exclude, .antialias = true}});
    }
    uses.push_back({title + " without outside", {2, 5, 4}, {2, 8, 9}, {.mode = mode, .exclude_outside = true}});
    uses.push_back({title + " crop",
                    {1, 2, 5, 6},
                    {1, 2, 4, 7},
                    {.mode = mode,
                     .coordinates = Coordinates::crop,
                     .extrapolation = 10,
                     .roi = {0, 0, 0.25, -0.5, 1, 1, 0.75, 1.25}}});
  }
  uses.push_back({"cubic, a = -0.5", {2, 5, 4}, {2, 8, 9}, {.mode = Resize::cubic, .cubic = -0.5}});
  uses.push_back({"nearest crop",
                  {2, 5},
                  {2, 9},
                  {.coordinates = Coordinates::crop, .extrapolation = 3, .roi = {0, -0.5, 1, 1.5}}});
  uses.push_back({"as it is", {2, 3, 4}, {2, 3, 4}, {.mode = Resize::cubic}});
  uses.push_back({"of nothing", {0, 3}, {0, 5}, {.mode = Resize::linear}});
  for (const ResizeUse& use : uses) {
    const bool picks = use.options.mode == Resize::nearest;
    op.samples.push_back(
        {.name = use.name,
         .arguments = {picks ? integers(use.x, 0, 100) : uniform(use.x)},
         .call =
             [use](const std::vector<Tensor>& in) { return std::vector{op::resize(in[0], use.output, use.options)}; },
         .reference = [use](const std::vector<Array>& in) { return std::vector{resized(use, in[0])}; },
         .dtypes = picks ? std::vector{DType::float32, DType::float64, DType::int32, DType::uint8} : compute_dtypes,
         .exact = picks,
         .terms = picks ? 1 : 32.0,
         .gradient_terms = 64,
         .large_arguments = 0});
  }
  op.refuses("another number of sizes", Kind::shape, {"1 sizes", "[2,3]"}, [] { op::resize(ones({2, 3}), {4}); });
  op.refuses("a size of 0", Kind::shape, {"[2,0]"}, [] { op::resize(ones({2, 3}), {2, 0}); });
  op.refuses("another number of scales", Kind::shape, {"1 scales"}, [] {
    op::resize(ones({2, 3}), {2, 6}, {.scales = {2}});
  });
  op.refuses("a scale of 0", Kind::shape, {"a scale of 0"}, [] {
    op::resize(ones({2, 3}), {2, 6}, {.scales = {1, 0}});
  });
  op.refuses("no bounds", Kind::shape, {"0 bounds", "expected 4"}, [] {
    op::resize(ones({2, 3}), {2, 6}, {.coordinates = Coordinates::crop});
  });
  op.refuses("integers between elements", Kind::dtype, {"int32"}, [] {
    op::resize(ones({2, 3}, DType::int32), {2, 6}, {.mode = Resize::linear});
  });
  return op;
}

}  // namespace tern::testing
