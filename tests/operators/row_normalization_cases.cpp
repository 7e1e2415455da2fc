// Normalisations of rows with statistics of their own.

#include <algorithm>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

// Rows of `length` elements side by side, each normalised with its own mean and variance; then weight and bias, whose
// element for position i is parameter(i).
Array normalized(const std::vector<Array>& in, std::int64_t length, double epsilon, bool centred,
                 const std::function<std::int64_t(std::int64_t)>& parameter) {
  Array out(in[0].shape);
  for (std::int64_t begin = 0; begin < out.size(); begin += length) {
    double mean = 0, square = 0;
    for (std::int64_t i = begin; i < begin + length; ++i) mean += in[0][i] / static_cast<double>(length);
    if (!centred) mean = 0;
    for (std::int64_t i = begin; i < begin + length; ++i)
      square += (in[0][i] - mean) * (in[0][i] - mean) / static_cast<double>(length);
    for (std::int64_t i = begin; i < begin + length; ++i) {
      out[i] = (in[0][i] - mean) / std::sqrt(square + epsilon);
      if (in.size() > 1) out[i] *= in[1][parameter(i)];
      if (in.size() > 2) out[i] += in[2][parameter(i)];
    }
  }
  return out;
}

// inverse deviation * weight * (g - mean of g - normalised x * mean of their products), and no |g| is above 1.
double magnitude_of(const std::vector<Array>& in, std::int64_t length, double epsilon) {
  double weight = in.size() > 1 ? 0 : 1, largest = 0;
  if (in.size() > 1)
    for (const double value : in[1].values) weight = std::max(weight, std::abs(value));
  for (std::int64_t begin = 0; begin < in[0].size(); begin += length) {
    double mean = 0, square = 0, farthest = 0;
    for (std::int64_t i = begin; i < begin + length; ++i) mean += in[0][i] / static_cast<double>(length);
    for (std::int64_t i = begin; i < begin + length; ++i) {
      farthest = std::max(farthest, std::abs(in[0][i] - mean));
      square += (in[0][i] - mean) * (in[0][i] - mean) / static_cast<double>(length);
    }
    const double inverse = 1 / std::sqrt(square + epsilon);
    largest = std::max(largest, inverse * weight * (2 + farthest * inverse));
  }
  return largest;
}

struct Use {
  Shape x;
  std::int64_t length;  // of a row
  Shape parameters;
  std::function<std::int64_t(std::int64_t)> parameter;
  std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon)> call;
  bool centred = true;
  bool large = false;
};

void add(Operator& op, const std::string& name, const Use& use) {
  const double epsilon = 1e-3;
  const int most = use.centred ? 3 : 2;
  for (const int count : {1, most}) {
    std::vector<Argument> arguments{uniform(use.x, -2, 2)};
    if (count > 1) arguments.push_back(uniform(use.parameters, 0.5, 2));
    if (count > 2) arguments.push_back(uniform(use.parameters));
    const double rows = static_cast<double>(element_count(use.x)) / static_cast<double>(use.length);
    op.samples.push_back(
        {.name = message(use.x, ' ', name, count == 1 ? " alone" : ""),
         .arguments = arguments,
         .call =
             [use, epsilon](const std::vector<Tensor>& in) {
               return std::vector{
                   use.call(in[0], in.size() > 1 ? in[1] : Tensor(), in.size() > 2 ? in[2] : Tensor(), epsilon)};
             },
         .reference =
             [use, epsilon](const std::vector<Array>& in) {
               return std::vector{normalized(in, use.length, epsilon, use.centred, use.parameter)};
             },
         .terms = std::max(4.0, std::sqrt(static_cast<double>(use.length))),
         .gradient_terms = std::max({8.0, rows, static_cast<double>(use.length)}),
         .gradient_magnitude =
             [use, epsilon](const std::vector<Array>& in) { return magnitude_of(in, use.length, epsilon); },
         .large = use.large});
  }
}

Operator layer_norm(const char* name, bool centred) {
  Operator op{.name = name, .ulps = 8};
  struct Sizes {
    Shape x, normalized;
    bool large = false;
  };
  const auto call_of = [centred](const Shape& shape) {
    return [centred, shape](const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
      return centred ? op::layer_norm(x, shape, weight, bias, epsilon) : op::rms_norm(x, shape, weight, epsilon);
    };
  };
  for (const Sizes& sizes :
       {Sizes{{17}, {17}}, Sizes{{7, 33}, {33}}, Sizes{{2, 3, 10}, {10}}, Sizes{{2, 3, 5, 4}, {5, 4}},
        Sizes{{3, 4}, {3, 4}}, Sizes{{0, 5}, {5}}, Sizes{{601, 128}, {128}, true},
        // As many rows as cuda wants for a warp each, and lengths for its larger blocks and for more than they hold.
        Sizes{{2050, 65}, {65}, true}, Sizes{{3, 1024}, {1024}, true}, Sizes{{2, 1030}, {1030}, true},
        Sizes{{2, 2052}, {2052}, true}, Sizes{{3, 2501}, {2501}, true}, Sizes{{1, 9000}, {9000}, true},
        Sizes{{5, 1}, {1}}, Sizes{{3, 31}, {31}}, Sizes{{2, 4097}, {4097}, true}, Sizes{{2, 9001}, {9001}, true},
        // Rows whose threads sum the gradients of weight and bias as well.
        Sizes{{1025, 67}, {67}, true}, Sizes{{1025, 260}, {260}, true}, Sizes{{1027, 1030}, {1030}, true},
        Sizes{{1024, 2049}, {2049}, true},
        // As many rows as one cluster sums, and one more; lengths on both sides of what cuda's threads hold.
        Sizes{{33, 132}, {132}}, Sizes{{256, 128}, {128}, true}, Sizes{{257, 129}, {129}, true},
        Sizes{{1025, 17}, {17}, true}, Sizes{{1024, 16}, {16}, true}, Sizes{{32, 513}, {513}, true},
        Sizes{{33, 512}, {512}, true}, Sizes{{9, 4096}, {4096}, true}}) {
    const std::int64_t length = element_count(sizes.normalized);
    add(op, message("over ", sizes.normalized),
        {.x = sizes.x,
         .length = length,
         .parameters = sizes.normalized,
         .parameter = [length](std::int64_t i) { return i % length; },
         .call = call_of(sizes.normalized),
         .centred = centred,
         .large = sizes.large});
  }
  // Weighted gradients, whose sums leave float32's range; what they lead to is inside, as the deviation is large.
  add(op, "of large weights",
      {.x = {8, 256},
       .length = 256,
       .parameters = {256},
       .parameter = [](std::int64_t i) { return i % 256; },
       .call = call_of({256}),
       .centred = centred});
  Sample& wide = op.samples.back();
  wide.arguments[0] = uniform({8, 256}, -1e12, 1e12);
  wide.arguments[1] = uniform({256}, 4e37, 5e37);
  wide.dtypes = {DType::float32};
  wide.magnitude = 5e37;  // near the mean of a row the difference is small beside what it is weighted with
  wide.smooth = false;    // a step of 1e-5 is nothing beside 1e12
  wide.large_arguments = 0;
  const auto call = [call_of](const Tensor& x, const Shape& shape, const Tensor& weight) {
    call_of(shape)(x, weight, {}, 1e-5);
  };
  op.refuses("another last dimension", Kind::shape, {"[2,3]", "[4]"}, [call] { call(ones({2, 3}), {4}, {}); });
  op.refuses("no dimension", Kind::shape, {"[2,3]"}, [call] { call(ones({2, 3}), {}, {}); });
  op.refuses("another weight", Kind::shape, {"weight", "[2]", "[3]"}, [call] { call(ones({2, 3}), {3}, ones({2})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [call] { call(ones({2, 3}), {3}, ones({3}, DType::float64)); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] { call(ones({2, 3}, DType::int32), {3}, {}); });
  return op;
}

Operator group_norm(const char* name, bool instances) {
  Operator op{.name = name, .ulps = 8};
  struct Sizes {
    Shape x;
    std::int64_t groups;
    bool large = false;
  };
  for (const Sizes& sizes :
       {Sizes{{2, 4, 3, 5}, 2}, Sizes{{3, 6, 7}, 3}, Sizes{{2, 5, 9}, 1}, Sizes{{1, 4, 33}, 4}, Sizes{{2, 6, 7, 7}, 2},
        Sizes{{2, 6, 4, 4}, 3}, Sizes{{4, 8, 31, 33}, 4, true}, Sizes{{2, 4, 60, 64}, 1, true},
        Sizes{{3, 157, 7, 7}, 1, true},
        // More than a block holds, in packs and not.
        Sizes{{1, 2, 181, 181}, 1, true}, Sizes{{1, 2, 184, 184}, 1, true}, Sizes{{1, 2, 257, 257}, 1, true}}) {
    const std::int64_t channels = sizes.x[1], groups = instances ? channels : sizes.groups;
    const std::int64_t area = element_count(sizes.x) / (sizes.x[0] * channels);
    add(op, message(groups, " groups"),
        {.x = sizes.x,
         .length = area * channels / groups,
         .parameters = {channels},
         .parameter = [area, channels](std::int64_t i) { return i / area % channels; },
         .call =
             [groups, instances](const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
               return instances ? op::instance_norm(x, weight, bias, epsilon)
                                : op::group_norm(x, groups, weight, bias, epsilon);
             },
         .large = sizes.large});
  }
  const auto call = [instances](const Tensor& x, std::int64_t groups, const Tensor& weight) {
    instances ? op::instance_norm(x, weight) : op::group_norm(x, groups, weight);
  };
  op.refuses("another weight", Kind::shape, {"weight", "[3]", "[4]"}, [call] { call(ones({2, 4, 3}), 2, ones({3})); });
  op.refuses("no channels", Kind::shape, {"[4]"}, [call] { call(ones({4}), 2, {}); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] { call(ones({2, 4, 3}, DType::int32), 2, {}); });
  if (instances)
    op.refuses("planes of one element", Kind::shape, {"[2,4,1]"}, [call] { call(ones({2, 4, 1}), 2, {}); });
  else
    op.refuses("groups of unequal size", Kind::shape, {"3 groups"}, [call] { call(ones({2, 4, 3}), 3, {}); });
  return op;
}

}  // namespace

std::vector<Operator> row_normalization_cases() {
  std::vector<Operator> all;
  all.push_back(layer_norm("layer_norm", true));
  all.push_back(layer_norm("rms_norm", false));
  all.push_back(group_norm("group_norm", false));
  all.push_back(group_norm("instance_norm", true));
  return all;
}

}  // namespace tern::testing
