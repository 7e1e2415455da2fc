#pragma once
// The catalogue: every public operator with its samples, its float64 reference and the mistakes that it must name. The
// tests of every mode are generated from it (support/checks.hpp) and the benchmarks take their inputs from it, so it
// knows no test framework.

#include <string>
#include <vector>

#include "support/array.hpp"

namespace tern::testing {

/// One tensor argument: its shape and how its elements are drawn. All elements are exact in float32.
struct Argument {
  enum class Fill : std::uint8_t {
    uniform,   ///< [low, high), at least 1/256 away from 0
    integers,  ///< low ... high, so that sums are exact and the order does not matter
    distinct,  ///< all different, at least 1/64 apart: no ties for max
    listed     ///< `elements`, repeated
  };
  Shape shape;
  Fill fill = Fill::uniform;
  double low = -1, high = 1;
  std::vector<double> elements = {};
  std::optional<DType> dtype = {};  ///< for labels and masks; otherwise the dtype of the case,
  bool scalar = false;              ///< or that of scalars that go with its elements, see tern::Scalar
  bool differentiable = true;
  std::optional<Shape> expanded_from = {};  ///< the tensor is an expanded view of this shape
};

Argument uniform(const Shape& shape, double low = -1, double high = 1);
Argument integers(const Shape& shape, double low = -8, double high = 8);
Argument distinct(const Shape& shape);
Argument listed(const Shape& shape, std::vector<double> elements);
/// int64 in [0, classes).
Argument labels(const Shape& shape, std::int64_t classes);
Argument booleans(const Shape& shape);
/// Drawn as `shape` and expanded to `larger`, without a copy.
Argument expanded(const Shape& shape, const Shape& larger);
/// The argument without a gradient.
Argument constant(Argument argument);
/// Scalars that go with elements, without a gradient: statistics.
Argument scalars(Argument argument);

/// NaN, infinities, zeros, tiny, huge and ordinary numbers.
const std::vector<double>& special_values();

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
using Reference = std::function<std::vector<Array>(const std::vector<Array>& inputs)>;

inline const std::vector<DType> compute_dtypes{DType::float32, DType::float64};
inline const std::vector<DType> all_dtypes{DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                           DType::int32,   DType::int64,   DType::uint8,    DType::boolean};

/// One use of an operator.
struct Sample {
  std::string name = {};
  std::vector<Argument> arguments = {};
  Call call = {};
  Reference reference = {};
  std::vector<DType> dtypes = compute_dtypes;
  bool gradient = true;        ///< the arguments and the operator have one here
  int gradient_outputs = 100;  ///< only this many of the first results have one
  bool smooth = true;          ///< central differences of the reference are meaningful
  bool exact = false;          ///< every bit is determined
  bool compares = false;       ///< what it computed: if bits are not determined, neither is the gradient
  double terms = 1;            ///< numbers added for one element of the result: the tolerance grows with it
  double gradient_terms = 1;   ///< the same for the gradient
  double magnitude = 1;        ///< of terms that may cancel in a result: the tolerance is never below theirs
  /// For gradients that are a difference of terms far larger than themselves: the largest sum of the terms' magnitudes.
  std::function<double(const std::vector<Array>& inputs)> gradient_magnitude = {};
  bool large = false;      ///< enough work for several threads
  int scalars_from = 100;  ///< the results from here on are scalars that go with elements: losses, statistics, moments
  int roundings = 1;       ///< how often a 16-bit result is rounded on the way
  /// In the cases of large numbers this many of the first arguments are near the ends of the range, the others
  /// unchanged: a gradient that is a product of two large ones would overflow.
  std::size_t large_arguments = 100;
  /// Where the gradient of an activation jumps, and what it was applied to. In 16 bits these sums are rounded: those
  /// that may come to the other side of a threshold get no cotangent.
  std::vector<double> thresholds = {};
  Reference before = {};
};

/// A use that must throw.
struct Invalid {
  enum class Kind : std::uint8_t { any, shape, dtype, numeric, autograd };
  std::string name = {};
  Kind kind = Kind::shape;
  std::vector<std::string> words = {};  ///< what the message contains
  std::function<void()> call = {};
  std::string speaker = {};  ///< the name that the message begins with, if it is not the operator's
};

struct Operator {
  std::string name = {};  ///< as in the header; an overload has a suffix after a slash
  std::string family = {};
  double ulps = 4;            ///< units in the last place by which a result of one term may be off
  double gradient_scale = 0;  ///< of the terms of a difference with a rounded result, such as the 1 of 1 - y^2
  std::vector<Sample> samples = {};
  std::vector<Invalid> invalid = {};
  bool member = false;  ///< a member of Tensor, not a function of operators/*.hpp

  void refuses(std::string use, Invalid::Kind kind, std::vector<std::string> words, std::function<void()> call,
               std::string speaker = {}) {
    invalid.push_back({std::move(use), kind, std::move(words), std::move(call), std::move(speaker)});
  }
};

/// Every public operator, family by family.
const std::vector<Operator>& catalogue();

/// The elements of argument `index` of a sample, the same in each call.
Array draw(const Operator& op, const Sample& sample, std::size_t index);

/// Special values among, or instead of, the numbers of a sample's arguments.
enum class Special : std::uint8_t {
  none,
  nan,         ///< a few NaN
  infinity,    ///< a few infinities of either sign
  tiny,        ///< some zeros of either sign, denormal numbers, the smallest normal ones
  large,       ///< every other argument near the end of the dtype's range, as far as sums of its products stay inside,
               ///< and those between as small
  small_large  ///< the same, starting with a small one
};

/// Tensors of one dtype and layout for a sample's arguments. With `rounded`, numbers are rounded to that first.
std::vector<Tensor> make_inputs(const Operator& op, const Sample& sample, DType dtype,
                                Layout layout = Layout::contiguous, Special special = Special::none,
                                std::optional<DType> rounded = {});

/// The dtype of an argument in a case of `dtype`.
DType dtype_of(const Argument& argument, DType dtype);

// One function per family, in tests/operators/<family>_cases.cpp.
std::vector<Operator> arithmetic_cases();
std::vector<Operator> dot_cases();
std::vector<Operator> conv_cases();
std::vector<Operator> residual_cases();
std::vector<Operator> activation_cases();
std::vector<Operator> pooling_cases();
std::vector<Operator> average_pooling_cases();
std::vector<Operator> reduction_cases();
std::vector<Operator> loss_cases();
std::vector<Operator> normalization_cases();
std::vector<Operator> view_cases();
std::vector<Operator> shape_cases();
std::vector<Operator> joining_cases();
std::vector<Operator> update_cases();
// Those that are composed of others.
std::vector<Operator> composed_arithmetic_cases();
std::vector<Operator> composed_activation_cases();
std::vector<Operator> composed_reduction_cases();
std::vector<Operator> composed_loss_cases();
std::vector<Operator> row_normalization_cases();
std::vector<Operator> composed_shape_cases();
std::vector<Operator> function_cases();
std::vector<Operator> integer_cases();
std::vector<Operator> integer_reduction_cases();
std::vector<Operator> conv_form_cases();
std::vector<Operator> indexing_cases();
std::vector<Operator> resizing_cases();
std::vector<Operator> attention_cases();
std::vector<Operator> further_function_cases();
std::vector<Operator> rearranging_cases();
std::vector<Operator> option_cases();
std::vector<Operator> threshold_cases();
std::vector<Operator> bit_cases();
std::vector<Operator> volume_conv_cases();
std::vector<Operator> volume_cases();
std::vector<Operator> patch_cases();
std::vector<Operator> einsum_cases();
std::vector<Operator> scattering_cases();
std::vector<Operator> rotary_cases();
std::vector<Operator> recurrent_cases();
std::vector<Operator> sampling_cases();
std::vector<Operator> fourier_cases();
std::vector<Operator> linalg_cases();
std::vector<Operator> quantized_cases();
std::vector<Operator> quantized_pooling_cases();

/// A reference that applies `function` to each element.
Reference each(std::function<double(double)> function);
/// A reference that applies `function` to each pair of broadcast elements; `dtype` if it is not that of the inputs.
Reference each_pair(std::function<double(double, double)> function, std::optional<DType> dtype = {});

/// A result whose element at each position is the input's at source(position).
Array picked(const Array& x, const Shape& shape, const std::function<Shape(const Shape&)>& source);

// For operators that only move elements: every dtype, exact.
/// Small integers; bool keeps whether they are 0.
Argument any_values(const Shape& shape);
Operator movement(const char* name, bool member = false);
Sample moving(std::string name, std::vector<Argument> arguments, Call call, Reference reference, bool large = false);

}  // namespace tern::testing
