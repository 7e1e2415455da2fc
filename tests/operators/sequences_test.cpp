// Shapes after one another under free choice: what a mode remembers of one call must not be used for another. Each call
// runs twice, with a cold and a warm memory, and is compared with the sequential mode.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "support/algorithms.hpp"
#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/operators.hpp"

namespace {

using namespace tern;
namespace op = tern::operators;

/// One use of an operator: its inputs, which of them want a gradient, and the call.
struct Use {
  std::string name;
  std::vector<Shape> inputs;
  std::vector<bool> wanted;
  std::function<Tensor(const std::vector<Tensor>&)> call;
  bool shifted = false;  ///< the inputs begin one element behind an aligned address
};

/// What the place-th draw of a run gives, the same in every run. Kept, since drawing takes longer than most uses.
Tensor drawn(const Shape& shape, std::size_t place, bool shifted = false) {
  static std::map<std::pair<std::size_t, std::int64_t>, std::vector<float>> known;
  const std::int64_t count = element_count(shape);
  std::vector<float>& numbers = known[{place, count}];
  if (numbers.empty()) {
    Generator generator{7};
    for (std::size_t i = 0; i < place; ++i) generator.next();
    numbers = randn({count}, generator).to_vector<float>();
  }
  if (!shifted) return tensor(numbers, shape);
  // The same numbers, in a view.
  const Tensor room = zeros({count + 1});
  Tensor view = room.slice(0, 1, count + 1);
  view.copy_(tensor(numbers, {count}));
  return view.reshape(shape);
}

/// The result and the wanted gradients. Without any, no gradients are recorded.
std::vector<std::vector<double>> run(const Use& use, const std::string& mode, const DeviceOptions& options) {
  const Device device{mode, options};
  current_scope().activations = DType::float32;  // of kernels for float32: mixed precision has mixed_test.cpp
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < use.inputs.size(); ++i) {
    Tensor input = drawn(use.inputs[i], i, use.shifted);
    inputs.push_back(use.wanted[i] ? input.set_requires_grad() : input);
  }
  if (std::ranges::none_of(use.wanted, [](bool wanted) { return wanted; })) {
    const NoGrad inference;
    return {use.call(inputs).values()};
  }
  const Tensor y = use.call(inputs);
  op::sum(op::mul(y, drawn(y.shape(), inputs.size()))).backward();
  std::vector<std::vector<double>> results{y.detach().values()};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (use.wanted[i]) results.push_back(inputs[i].grad().values());
  return results;
}

/// The largest difference beside the largest number.
double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    if (!(difference <= apart)) apart = difference;
    size = std::max(size, std::abs(expected[i]));
  }
  return apart / size;
}

/// Uses with what the sequential mode makes of them.
struct Known {
  Use use;
  std::optional<std::vector<std::vector<double>>> expected = {};
};

/// What is wrong with a use now, or nothing.
std::string wrong(Known& known, const std::string& mode, const DeviceOptions& options, double tolerance) {
  if (!known.expected) known.expected = run(known.use, "sequential", {.precision = Precision::strict});
  std::string found;
  for (const char* memory : {"cold", "warm"}) {
    const auto results = run(known.use, mode, options);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double apart = distance(results[i], (*known.expected)[i]);
      if (!(apart <= tolerance)) found += message(" ", memory, " result ", i, " is off by ", apart, ";");
    }
  }
  return found;
}

/// Every use after every other one.
void all_pairs(std::vector<Known>& uses, const std::string& mode, const DeviceOptions& options, double tolerance) {
  for (Known& first : uses)
    for (Known& second : uses)
      for (Known* known : {&first, &second}) {
        const std::string found = wrong(*known, mode, options, tolerance);
        INFO(known->use.name << (known == &second ? " after " + first.use.name : "") << ":" << found);
        CHECK(found.empty());
      }
}

/// Every other channel far above zero and far below, so that rounded factors turn no relu on or off.
Tensor far_from_zero(const Tensor& bias) {
  std::vector<float> shift(static_cast<std::size_t>(bias.numel()));
  for (std::size_t i = 0; i < shift.size(); ++i) shift[i] = i % 2 == 0 ? 100.0F : -100.0F;
  return op::add(bias, tensor(shift, bias.shape()));
}

Known conv(Shape x, Shape weight, const op::Conv2dOptions& options, bool bias = false,
           std::vector<bool> wanted = {true, true, true}) {
  std::string name = message("conv2d ", x, " * ", weight, " stride ", options.stride.h, bias ? " with bias" : "",
                             options.activation == Activation::none ? "" : " and activation");
  std::vector<Shape> inputs{std::move(x), std::move(weight)};
  if (bias) inputs.push_back({inputs[1][0]});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!wanted[i]) name += message(", input ", i, " without gradient");
  return {{std::move(name), std::move(inputs), std::move(wanted), [options](const std::vector<Tensor>& in) {
             const Tensor shift = in.size() > 2 ? in[2] : Tensor{};
             switch (options.activation) {
               case Activation::relu:
                 return op::conv2d(in[0], in[1], far_from_zero(shift), options);
               case Activation::none:
                 return op::conv2d(in[0], in[1], shift, options);
               default:
                 return op::conv2d(in[0], op::mul(in[1], 0.1), shift, options);  // where they are not steep
             }
           }}};
}

/// Convolutions that look alike once their channels are filled up or after space-to-depth.
std::vector<Known> alike(std::int64_t N) {
  const op::Conv2dOptions same{.padding = 1};
  std::vector<Known> uses;
  uses.push_back(conv({N, 16, 12, 12}, {32, 16, 2, 2}, {}));
  uses.push_back(conv({N, 3, 24, 24}, {32, 3, 4, 4}, {.stride = 2}));
  uses.push_back(conv({N, 4, 24, 24}, {32, 4, 4, 4}, {.stride = 2}));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 3, 3}, same));
  uses.push_back(conv({N, 4, 12, 12}, {32, 4, 3, 3}, same));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 3, 3}, same, true));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 3, 3}, same, true, {false, true, false}));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 3, 3}, {.padding = 1, .activation = Activation::relu}, true));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 3, 3}, {.padding = 1, .activation = Activation::tanh}, true));
  uses.push_back(conv({N, 8, 12, 12}, {32, 8, 1, 1}, {.activation = Activation::relu}, true));
  uses.push_back(conv({N, 16, 12, 12}, {32, 8, 3, 3}, {.padding = 1, .groups = 2}));
  uses.push_back(uses[3]);
  uses.back().use.name += ", shifted";
  uses.back().use.shifted = true;
  return uses;
}

std::vector<Known> products() {
  std::vector<Known> uses;
  const auto add = [&](std::string name, std::vector<Shape> inputs, auto call) {
    for (const bool shifted : {false, true})
      uses.push_back(
          {{name + (shifted ? ", shifted" : ""), inputs, std::vector<bool>(inputs.size(), true), call, shifted}});
  };
  add("matmul", {{96, 128}, {128, 64}}, [](const auto& in) { return op::matmul(in[0], in[1]); });
  add("matmul, odd", {{97, 127}, {127, 63}}, [](const auto& in) { return op::matmul(in[0], in[1]); });
  add("matmul, transposed", {{128, 96}, {64, 128}},
      [](const auto& in) { return op::matmul(in[0], in[1], {.transpose_a = true, .transpose_b = true}); });
  add("matmul, batch", {{3, 96, 128}, {3, 128, 64}}, [](const auto& in) { return op::matmul(in[0], in[1]); });
  add("linear", {{96, 128}, {64, 128}, {64}}, [](const auto& in) { return op::linear(in[0], in[1], in[2]); });
  add("linear, relu", {{96, 128}, {64, 128}, {64}},
      [](const auto& in) { return op::linear(in[0], in[1], far_from_zero(in[2]), Activation::relu); });
  add("matmul, few rows", {{3, 128}, {64, 128}},
      [](const auto& in) { return op::matmul(in[0], in[1], {.transpose_b = true}); });
  for (const std::int64_t rows : {1, 2, 4})
    add(message("linear, ", rows, " rows"), {{rows, 132}, {36, 132}, {36}},
        [](const auto& in) { return op::linear(in[0], in[1], far_from_zero(in[2]), Activation::relu); });
  add("linear, no bias", {{96, 128}, {64, 128}}, [](const auto& in) { return op::linear(in[0], in[1]); });
  return uses;
}

std::vector<Known> attentions() {
  std::vector<Known> uses;
  for (const bool is_causal : {false, true})
    uses.push_back({{is_causal ? "attention, causal" : "attention",
                     {{2, 8, 70, 32}, {2, 8, 90, 32}, {2, 8, 90, 32}},
                     {true, true, true},
                     [is_causal](const auto& in) {
                       return op::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = is_causal});
                     }}});
  uses.push_back({{"attention, one query",
                   {{2, 8, 1, 32}, {2, 8, 90, 32}, {2, 8, 90, 32}},
                   {true, true, true},
                   [](const auto& in) { return op::scaled_dot_product_attention(in[0], in[1], in[2]); }}});
  return uses;
}

/// In one kernel only without gradients, and with channels last.
Known inverted_residual() {
  return {{"inverted_residual",
           {{1, 30, 31, 16}, {96, 16, 1, 1}, {96}, {96, 1, 3, 3}, {96}, {24, 96, 1, 1}, {24}},
           std::vector<bool>(7, false),
           [](const auto& in) {
             return op::inverted_residual(op::permute(in[0], {0, 3, 1, 2}), {in[1], in[2], in[3], in[4], in[5], in[6]},
                                          {}, {.padding = 1});
           }}};
}

/// How far a result may be from the strict one.
double tolerance(Precision precision) {
  return precision == Precision::strict ? 1e-4 : precision == Precision::tf32 ? 5e-3 : 4e-2;
}

/// Convolutions, products, attention and a residual block, of which every algorithm of a mode fits some.
/// A convolution of stored numbers of 8 bits: weight is [O, KH, KW, C / groups].
Known quantized(const Shape& x, const Shape& weight, const op::QuantizedConv2dOptions& options) {
  return {{message("quantized_conv2d ", x, " * ", weight),
           {x, weight},
           {false, false},
           [options](const std::vector<Tensor>& in) {
             const std::int64_t O = in[1].shape()[0];
             return op::quantized_conv2d(op::quantize(in[0], {.scale = 0.03, .zero = 128}),
                                         op::mul(in[1], 25.0).to(DType::int8), zeros({O}, DType::int32),
                                         full({O}, 1e-3), {}, options);
           }}};
}

std::vector<Known> for_algorithms() {
  std::vector<Known> uses = alike(2);
  for (const std::vector<Known>& more : {products(), attentions()}) uses.insert(uses.end(), more.begin(), more.end());
  uses.push_back(inverted_residual());
  uses.push_back(quantized({2, 16, 9, 9}, {24, 3, 3, 16}, {.padding = 1, .dtype = DType::float32}));
  uses.push_back(quantized({2, 24, 9, 9}, {24, 3, 3, 1}, {.padding = 1, .groups = 24, .dtype = DType::float32}));
  uses.push_back(conv({2, 6, 14, 14}, {16, 6, 5, 5}, {}, true));
  uses.push_back({{"linear, many rows", {{300, 20}, {68, 20}, {68}}, {true, true, true}, [](const auto& in) {
                     return op::linear(in[0], in[1], far_from_zero(in[2]), Activation::relu);
                   }}});
  uses.push_back({{"linear, several rounds", {{70, 300}, {36, 300}, {36}}, {true, true, true}, [](const auto& in) {
                     return op::linear(in[0], in[1], far_from_zero(in[2]), Activation::relu);
                   }}});
  // Small planes: one and several blocks of rows, of channels in and out, whole packs and none.
  uses.push_back(conv({9, 1, 28, 28}, {20, 1, 5, 5}, {}, true));
  uses.push_back(conv({5, 20, 12, 12}, {50, 20, 5, 5}, {.activation = Activation::relu}, true));
  uses.push_back(conv({3, 7, 9, 11}, {13, 7, 3, 3}, {.padding = {2, 1}}, true));
  uses.push_back(conv({7, 3, 6, 5}, {70, 3, 3, 3}, {.padding = 1}));
  uses.push_back(uses.back());
  uses.back().use.name += ", shifted";
  uses.back().use.shifted = true;
  uses.push_back(conv({2, 32, 9, 9}, {64, 32, 3, 3}, {.padding = 1, .activation = Activation::relu}, true));
  uses.push_back(conv({2, 32, 9, 9}, {64, 32, 1, 1}, {}, true));
  uses.push_back(conv({2, 10, 9, 9}, {6, 10, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}, true));
  uses.push_back(conv({2, 24, 9, 8}, {24, 1, 3, 3}, {.padding = 1, .groups = 24}, true));
  return uses;
}

/// Every algorithm that the mode knows by name, forced: it runs somewhere, and what it computes is right.
void run_algorithms(const std::string& mode_name, const std::vector<Precision>& precisions) {
  const std::vector<std::string> modes = tern::testing::available_modes();
  if (std::find(modes.begin(), modes.end(), mode_name) == modes.end()) {
    WARN("skipped: mode " << mode_name << " is not available");
    return;
  }
  std::vector<Known> uses = for_algorithms();
  for (const Decision& decision : mode(mode_name).decisions)
    for (const char* algorithm : decision.algorithms) {
      if (algorithm == nullptr || decision.name == std::string_view("all_reduce")) break;  // a group's, no operator's
      std::int64_t taken = 0;
      for (const Precision precision : precisions) {
        INFO(decision.name << ':' << algorithm << ", precision " << static_cast<int>(precision));
        const Device device{mode_name, {.precision = precision}};
        const auto around = tern::testing::force_around(decision.name);
        const ForcedAlgorithm forced{decision.name, algorithm};
        for (Known& known : uses) {
          const std::string found = wrong(known, mode_name, {.precision = precision}, tolerance(precision));
          INFO(known.use.name << ':' << found);
          CHECK(found.empty());
        }
        taken += forced.taken();
      }
      // Without cuDNN, on an older card or with code for one, some algorithms are missing.
      if (taken == 0) WARN(mode_name << " took nowhere " << decision.name << ':' << algorithm);
      if (mode_name == "vectorized") CHECK(taken > 0);
    }
}

void run_sequences(const std::string& mode, std::int64_t N, const std::vector<DeviceOptions>& scopes) {
  const std::vector<std::string> modes = tern::testing::available_modes();
  if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
    WARN("skipped: mode " << mode << " is not available");
    return;
  }
  std::vector<std::vector<Known>> families;
  for (const std::int64_t kernel : {1, 3, 5}) {
    std::vector<Known>& few_channels = families.emplace_back();
    for (const std::int64_t channels : {4, 3, 1, 2})
      few_channels.push_back(conv({N, channels, 24, 24}, {32, channels, kernel, kernel}, {.padding = kernel / 2}));
  }
  families.push_back(alike(N));
  families.push_back(products());
  for (const DeviceOptions& scope : scopes) {
    const Precision precision = scope.precision.value_or(Precision::strict);
    INFO("precision " << static_cast<int>(precision) << ", deterministic " << scope.deterministic.value_or(true));
    for (std::vector<Known>& uses : families) all_pairs(uses, mode, scope, tolerance(precision));
  }
}

}  // namespace

TEST_CASE("sequences: vectorized", "[sequences][mode][vectorized]") {
  run_sequences("vectorized", 1, {{.deterministic = false}, {.precision = Precision::bf16}});
}
TEST_CASE("sequences: cuda", "[sequences][mode][cuda]") {
  std::vector<DeviceOptions> scopes;
  for (const Precision precision : {Precision::strict, Precision::tf32, Precision::bf16})
    for (const bool deterministic : {true, false})
      scopes.push_back({.precision = precision, .deterministic = deterministic});
  run_sequences("cuda", 4, scopes);
}
TEST_CASE("sequences: vectorized by every algorithm", "[sequences][mode][vectorized]") {
  run_algorithms("vectorized", {Precision::strict, Precision::bf16});
}
TEST_CASE("sequences: cuda by every algorithm", "[sequences][mode][cuda]") {
  run_algorithms("cuda", {Precision::strict, Precision::tf32, Precision::bf16});
}
