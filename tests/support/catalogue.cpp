#include "support/catalogue.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <limits>
#include <numeric>

#include "tern/autograd/tape.hpp"
#include "tern/core/random.hpp"

namespace tern::testing {
namespace {

std::uint64_t hash(const std::string& text) {
  std::uint64_t result = 0xcbf29ce484222325ull;
  for (const char letter : text) result = (result ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  return result;
}

/// Uniform in [0, 1), a function of the seed and the position.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : seed_(seed) {}
  double operator()(std::int64_t position) {
    if (const std::int64_t block = position / 4; block != block_) {
      block_ = block;
      words_ = random::philox(seed_, static_cast<std::uint64_t>(block), 0);
    }
    return static_cast<double>(random::uniform(words_.word[position % 4]));
  }

 private:
  std::uint64_t seed_;
  std::int64_t block_ = -1;
  random::Words words_{};
};

Array fill(const Argument& argument, const Shape& shape, std::uint64_t seed) {
  using Fill = Argument::Fill;
  Array result(shape);
  Numbers unit(seed);
  const std::int64_t count = result.size();
  switch (argument.fill) {
    case Fill::uniform:
      for (std::int64_t i = 0; i < count; ++i) {
        double value = argument.low + (argument.high - argument.low) * unit(i);
        if (std::abs(value) < 1.0 / 256) value += 1.0 / 128;
        result[i] = static_cast<double>(static_cast<float>(value));
      }
      break;
    case Fill::integers:
      for (std::int64_t i = 0; i < count; ++i)
        result[i] = std::floor(argument.low + (argument.high - argument.low + 1) * unit(i));
      break;
    case Fill::distinct:
      for (std::int64_t i = 0; i < count; ++i) result[i] = (static_cast<double>(i - count / 2) + 0.25) / 64;
      for (std::int64_t i = count - 1; i > 0; --i)
        std::swap(result[i], result[static_cast<std::int64_t>(unit(i) * static_cast<double>(i + 1))]);
      break;
    case Fill::listed:
      for (std::int64_t i = 0; i < count; ++i)
        result[i] = argument.elements[static_cast<std::size_t>(i) % argument.elements.size()];
      break;
  }
  return result;
}

/// The same, kept from the newest samples: each is drawn for every dtype and layout.
const Array& drawn(const Argument& argument, const Shape& shape, std::uint64_t seed) {
  struct Draw {
    Argument argument;
    Shape shape;
    std::uint64_t seed;
    Array array;
  };
  thread_local std::deque<Draw> newest;
  const auto same = [&](const Draw& draw) {
    const Argument& other = draw.argument;
    return draw.seed == seed && draw.shape == shape && other.fill == argument.fill && other.low == argument.low &&
           other.high == argument.high && other.elements == argument.elements;
  };
  const auto known = std::find_if(newest.begin(), newest.end(), same);
  if (known != newest.end()) return known->array;
  if (newest.size() == 16) newest.pop_front();
  return newest.emplace_back(Draw{argument, shape, seed, fill(argument, shape, seed)}).array;
}

/// TERN_TEST_DRAW=N draws other numbers for all samples.
std::uint64_t requested_draw() {
  const char* choice = std::getenv("TERN_TEST_DRAW");
  return choice == nullptr ? 0 : std::stoul(choice);
}

std::uint64_t seed_of(const Operator& op, const Sample& sample, std::size_t index) {
  static const std::uint64_t draw = requested_draw();
  return hash(op.name + "/" + sample.name) + index + draw * 0x9e3779b97f4a7c15ull;
}

/// An argument with special numbers.
void put_special(Array& array, Special special, const Sample& sample, DType dtype, std::size_t index,
                 std::uint64_t seed) {
  const bool wide = dtype == DType::float64;
  const double infinity = std::numeric_limits<double>::infinity();
  Numbers unit(seed + 1000);
  const auto put = [&](double share, const std::vector<double>& values) {
    const auto count = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(array.size())));
    for (std::int64_t i = 0; i < count; ++i)
      array[static_cast<std::int64_t>(unit(i) * static_cast<double>(array.size()))] =
          values[static_cast<std::size_t>(i) % values.size()];
  };
  switch (special) {
    case Special::none:
      return;
    case Special::nan:
      return put(0.01, {std::nan("")});
    case Special::infinity:
      return put(0.01, {infinity, -infinity});
    case Special::tiny:
      return put(0.5, wide ? std::vector<double>{-0.0, 0x1p-1060, -0x1p-1022, 0.0}
                           : std::vector<double>{-0.0, 0x1p-140, -0x1p-126, 0.0});
    case Special::large:
    case Special::small_large: {
      if (index >= sample.large_arguments) return;
      double terms = std::max(sample.terms, sample.gradient_terms);
      for (const Argument& argument : sample.arguments)
        terms = std::max(terms, static_cast<double>(element_count(argument.shape)));
      terms *= 4;
      const int most = (wide ? 1023 : 127) - static_cast<int>(std::ceil(std::log2(terms)));
      const bool is_large = (index % 2 == 0) == (special == Special::large);
      for (double& value : array.values) value = std::ldexp(value, is_large ? most : -most);
      return;
    }
  }
}

}  // namespace

Argument uniform(const Shape& shape, double low, double high) { return {.shape = shape, .low = low, .high = high}; }
Argument integers(const Shape& shape, double low, double high) {
  return {.shape = shape, .fill = Argument::Fill::integers, .low = low, .high = high};
}
Argument distinct(const Shape& shape) { return {.shape = shape, .fill = Argument::Fill::distinct}; }
Argument listed(const Shape& shape, std::vector<double> elements) {
  return {.shape = shape, .fill = Argument::Fill::listed, .elements = std::move(elements)};
}
Argument labels(const Shape& shape, std::int64_t classes) {
  Argument result = integers(shape, 0, static_cast<double>(classes - 1));
  result.dtype = DType::int64;
  result.differentiable = false;
  return result;
}
Argument booleans(const Shape& shape) {
  Argument result = integers(shape, 0, 1);
  result.dtype = DType::boolean;
  result.differentiable = false;
  return result;
}
Argument expanded(const Shape& shape, const Shape& larger) {
  Argument result = uniform(larger);
  result.expanded_from = shape;
  return result;
}
Argument constant(Argument argument) {
  argument.differentiable = false;
  return argument;
}
Argument scalars(Argument argument) {
  argument.scalar = true;
  return constant(std::move(argument));
}

DType dtype_of(const Argument& argument, DType dtype) {
  return argument.dtype.value_or(argument.scalar ? scalar_of(dtype) : dtype);
}

const std::vector<double>& special_values() {
  static const double infinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> values{std::nan(""), infinity, -infinity, 0.0,  -0.0,  1.0,  -1.0,
                                          0x1p-140,     -0x1p-60, 0x1p100,   100., -100., 0.75, -2.5};
  return values;
}

const std::vector<Operator>& catalogue() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> result;
    const auto append = [&](const char* family, std::vector<Operator> operators) {
      for (Operator& op : operators) {
        op.family = family;
        result.push_back(std::move(op));
      }
    };
    append("arithmetic", arithmetic_cases());
    append("dot", dot_cases());
    append("conv", conv_cases());
    append("conv", residual_cases());
    append("activation", activation_cases());
    append("pooling", pooling_cases());
    append("pooling", average_pooling_cases());
    append("reduction", reduction_cases());
    append("loss", loss_cases());
    append("normalization", normalization_cases());
    append("shape", view_cases());
    append("shape", shape_cases());
    append("shape", joining_cases());
    append("update", update_cases());
    append("arithmetic", composed_arithmetic_cases());
    append("activation", composed_activation_cases());
    append("reduction", composed_reduction_cases());
    append("loss", composed_loss_cases());
    append("normalization", row_normalization_cases());
    append("shape", composed_shape_cases());
    append("arithmetic", function_cases());
    append("integer", integer_cases());
    append("integer", integer_reduction_cases());
    append("conv", conv_form_cases());
    append("indexing", indexing_cases());
    append("resizing", resizing_cases());
    append("attention", attention_cases());
    append("arithmetic", further_function_cases());
    append("shape", rearranging_cases());
    append("options", option_cases());
    append("activation", threshold_cases());
    append("integer", bit_cases());
    append("conv", volume_conv_cases());
    append("pooling", volume_cases());
    append("shape", patch_cases());
    append("dot", einsum_cases());
    append("indexing", scattering_cases());
    append("attention", rotary_cases());
    append("recurrent", recurrent_cases());
    append("sampling", sampling_cases());
    append("quantized", quantized_cases());
    append("quantized", quantized_pooling_cases());
    append("fourier", fourier_cases());
    append("linalg", linalg_cases());
    return result;
  }();
  return all;
}

Array draw(const Operator& op, const Sample& sample, std::size_t index) {
  const Argument& argument = sample.arguments[index];
  const std::uint64_t seed = seed_of(op, sample, index);
  if (!argument.expanded_from) return drawn(argument, argument.shape, seed);
  return broadcast_array(drawn(argument, *argument.expanded_from, seed), argument.shape);
}

std::vector<Tensor> make_inputs(const Operator& op, const Sample& sample, DType dtype, Layout layout, Special special,
                                std::optional<DType> rounded) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sample.arguments.size(); ++i) {
    const Argument& argument = sample.arguments[i];
    const DType type = dtype_of(argument, dtype);
    const std::uint64_t seed = seed_of(op, sample, i);
    Array array = drawn(argument, argument.expanded_from.value_or(argument.shape), seed);
    if (!argument.dtype && array.size() > 0) put_special(array, special, sample, dtype, i, seed);
    if (rounded && !argument.dtype)
      for (double& value : array.values) value = stored(value, dtype_of(argument, *rounded));
    Tensor tensor = tensor_of(array, type, layout);
    const NoGrad no_grad;
    inputs.push_back(argument.expanded_from ? tensor.expand(argument.shape) : std::move(tensor));
  }
  return inputs;
}

Reference each(std::function<double(double)> function) {
  return [function](const std::vector<Array>& inputs) {
    Array result(inputs[0].shape);
    for (std::int64_t i = 0; i < result.size(); ++i) result[i] = function(inputs[0][i]);
    return std::vector<Array>{result};
  };
}

Reference each_pair(std::function<double(double, double)> function, std::optional<DType> dtype) {
  return [function, dtype](const std::vector<Array>& inputs) {
    Array result(broadcast("reference", inputs[0].shape, inputs[1].shape), 0, dtype);
    std::int64_t i = 0;
    for_each_position(result.shape, [&](const Shape& position) {
      result[i++] = function(broadcast_at(inputs[0], position), broadcast_at(inputs[1], position));
    });
    return std::vector<Array>{result};
  };
}

Array picked(const Array& x, const Shape& shape, const std::function<Shape(const Shape&)>& source) {
  Array result(shape);
  std::int64_t i = 0;
  for_each_position(shape, [&](const Shape& position) { result[i++] = x.at(source(position)); });
  return result;
}

Argument any_values(const Shape& shape) { return integers(shape, 0, 100); }

Operator movement(const char* name, bool member) { return {.name = name, .member = member}; }

Sample moving(std::string name, std::vector<Argument> arguments, Call call, Reference reference, bool large) {
  return {.name = std::move(name),
          .arguments = std::move(arguments),
          .call = std::move(call),
          .reference = std::move(reference),
          .dtypes = large ? compute_dtypes : all_dtypes,
          .exact = true,
          .gradient_terms = 8,
          .large = large};
}

}  // namespace tern::testing
