// The messages of typical mistakes, word for word: operator, expected, came, what to try.

#include "support/catch.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

struct Mistake {
  const char* message;
  std::function<void()> call;
};

Tensor labels(std::initializer_list<std::int64_t> values) { return tensor<std::int64_t>(values); }

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"conv2d: input has 3 channels, weight [6,1,5,5] expects 1 (input [32,3,28,28])",
       [] {
         op::conv2d(ones({32, 3, 28, 28}), ones({6, 1, 5, 5}));
       }},
      {"conv2d: input has 4 channels, weight [6,1,5,5] expects 2 (input [1,4,8,8], groups 2)",
       [] {
         op::conv2d(ones({1, 4, 8, 8}), ones({6, 1, 5, 5}), {}, {.groups = 2});
       }},
      {"conv2d: input has shape [28,28], expected 4 dimensions",
       [] {
         op::conv2d(ones({28, 28}), ones({6, 1, 5, 5}));
       }},
      {"conv2d: a kernel of 5 does not fit the height of 3 with padding 0",
       [] {
         op::conv2d(ones({1, 1, 3, 28}), ones({6, 1, 5, 5}));
       }},
      {"conv2d: bias [5] does not fit weight [6,1,5,5], expected [6]",
       [] {
         op::conv2d(ones({1, 1, 8, 8}), ones({6, 1, 5, 5}), ones({5}));
       }},
      {"add: shapes [2,3] and [4] do not broadcast: sizes 3 and 4 differ and neither is 1",
       [] {
         op::add(ones({2, 3}), ones({4}));
       }},
      {"add: inputs are float32 and float64; convert one with to(...)",
       [] { op::add(ones({2}), ones({2}, DType::float64)); }},
      {"relu: inputs are int32; operators compute in floating dtypes, convert with to(...)",
       [] { op::relu(ones({2}, DType::int32)); }},
      {"add: the first input is undefined", [] { op::add(Tensor(), ones({2})); }},
      {"where: the condition is float32, expected bool", [] { op::where(ones({2}), ones({2}), ones({2})); }},
      {"matmul: inner sizes 3 and 4 differ (inputs [2,3] and [4,5])",
       [] {
         op::matmul(ones({2, 3}), ones({4, 5}));
       }},
      {"matmul: shapes [2] and [3] do not broadcast: sizes 2 and 3 differ and neither is 1",
       [] {
         op::matmul(ones({2, 2, 3}), ones({3, 3, 5}));
       }},
      {"linear: input [32,784] does not end in the 800 features that weight [10,800] expects",
       [] {
         op::linear(ones({32, 784}), ones({10, 800}));
       }},
      {"linear: bias [11] does not fit weight [10,784], expected [10]",
       [] {
         op::linear(ones({32, 784}), ones({10, 784}), ones({11}));
       }},
      {"max_pool2d: padding 2x2 is more than half the kernel of 3x3",
       [] {
         op::max_pool2d(ones({1, 1, 8, 8}), 3, {.padding = 2});
       }},
      {"max_pool2d: a side of the window of 300x2 has more than 256 positions; use max over the dimensions",
       [] {
         op::max_pool2d(ones({1, 1, 400, 4}), {300, 2});
       }},
      {"avg_pool2d: a kernel of 3 does not fit the height of 2 with padding 0",
       [] {
         op::avg_pool2d(ones({1, 1, 2, 2}), 3);
       }},
      {"softmax: dimension 2 is outside a tensor of 2 dimensions",
       [] {
         op::softmax(ones({2, 3}), 2);
       }},
      {"sum: dimension -2 is named twice",
       [] {
         op::sum(ones({2, 3}), {0, -2});
       }},
      {"max: no elements to choose from (input [3,0])",
       [] {
         op::max(ones({3, 0}), {1});
       }},
      {"cross_entropy: label 10 at position 2 is outside [0, 10)",
       [] {
         op::cross_entropy(ones({4, 10}), labels({1, 2, 10, 3}));
       }},
      {"cross_entropy: the label tensor is float32, expected int64; convert with to(...)",
       [] {
         op::cross_entropy(ones({4, 10}), ones({4}));
       }},
      {"cross_entropy: 3 labels for 4 rows of predictions [4,10]",
       [] {
         op::cross_entropy(ones({4, 10}), labels({1, 2, 3}));
       }},
      {"mse: prediction [4,1] and target [4] differ; losses do not broadcast, expand or reshape one of them",
       [] {
         op::mse(ones({4, 1}), ones({4}));
       }},
      {"reshape: [2,3] has 6 elements, [4,2] 8",
       [] {
         ones({2, 3}).reshape({4, 2});
       }},
      {"reshape: [2,3] has 6 elements, which [-1,4] cannot hold",
       [] {
         ones({2, 3}).reshape({-1, 4});
       }},
      {"slice: step 0 never ends",
       [] {
         ones({2, 3}).slice(1, 0, 3, 0);
       }},
      {"cat: shapes [2,3] and [4,5] differ outside dimension 0",
       [] {
         op::cat({ones({2, 3}), ones({4, 5})}, 0);
       }},
      {"index_select: index 5 at position 1 is outside [0, 5)",
       [] {
         op::index_select(ones({5, 2}), 0, labels({0, 5}));
       }},
      {"batch_norm: weight [4] does not fit the 3 channels of input [8,3,4,4]",
       [] {
         op::batch_norm(ones({8, 3, 4, 4}), ones({4}), ones({4}), ones({3}), ones({3}));
       }},
      {"dropout: probability 1.5 is outside [0, 1]", [] { op::dropout(ones({2}), 1.5, true); }},
      {"item: a tensor of shape [2,3] has 6 elements, not one",
       [] {
         ones({2, 3}).item();
       }},
      {"tensor: shape [3,2] with strides [1,3] is not contiguous; call contiguous() first",
       [] {
         ones({2, 3}).transpose(0, 1).read<float>();
       }},
      {"tensor: elements are float32, not float64; convert with to(...)",
       [] {
         ones({2, 3}).to_vector<double>();
       }},
      {"set_requires_grad: int64 cannot require a gradient; only floating dtypes can",
       [] { ones({2}, DType::int64).set_requires_grad(); }},
      {"backward: a tensor of shape [2] is not a single loss; reduce it, or pass its gradient",
       [] { ones({2}).set_requires_grad().backward(); }},
      {"backward: this tensor does not depend on anything that requires a gradient; nor does the result of a Step, "
       "inside whose function backward belongs",
       [] { ones({}).backward(); }}};
  return all;
}

}  // namespace

TEST_CASE("errors: the messages, word for word", "[core]") {
  const Device device{"sequential"};
  for (const Mistake& mistake : mistakes()) {
    std::string said = "nothing";
    try {
      mistake.call();
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said == mistake.message);
  }
}

TEST_CASE("messages: numbers, text, dtypes and shapes are as a stream prints them", "[errors]") {
  const auto printed = [](const auto& part) {
    PlainStream stream;
    stream << part;
    return stream.str();
  };
  const auto agrees = [&](const auto& part) { CHECK(message(part) == printed(part)); };
  for (const double number : {0.0, -0.0, 1.0, -1.5, 0.1, 1e5, 123456.0, 1234567.0, 999999.5, 1e-4, 1e-5, 3e300, 5e-324,
                              2.0 / 3, std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    agrees(number);
    agrees(static_cast<float>(number));
  }
  agrees(std::numeric_limits<std::int64_t>::min());
  agrees(std::numeric_limits<std::uint64_t>::max());
  agrees(-7);
  agrees(true);
  agrees('c');
  agrees(std::uint8_t{65});
  agrees("literal");
  agrees(std::string("a\0b", 3));
  agrees(std::string_view("view"));
  for (const DTypeFacts& facts : dtype_facts) agrees(facts.dtype);
  agrees(Shape{});
  agrees(Shape{2, 0, 12345678901});
  agrees(ones({2, 2}));
  CHECK(message("a", 1, ' ', 2.5, Shape{3}) == "a1 2.5[3]");
}
