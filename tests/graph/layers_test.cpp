// What merge_layers puts into a layer's weights.

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

graph::Graph inference(const Function& function, const Tensor& x) {
  return graph::for_inference(
      graph::trace([&](const std::vector<Tensor>& in) { return std::vector{function(in[0])}; }, {x}));
}

/// The names of the nodes that are left of a function, which computes the same.
std::vector<std::string> left_of(const Function& function, const Tensor& x) {
  const NoGrad no_grad;
  const graph::Graph graph = inference(function, x);
  INFO(graph.text());
  const Tensor expected = function(x), found = graph(x);
  REQUIRE(found.shape() == expected.shape());
  const double largest = op::max(op::abs(expected)).item();
  CHECK(op::max(op::abs(op::sub(found, expected))).item() <= 1e-5 * (1 + largest));
  std::vector<std::string> names;
  for (const graph::Node& node : graph.structure().nodes) names.push_back(node.op->name());
  return names;
}

using Names = std::vector<std::string>;

struct Net {
  explicit Net(std::uint64_t seed) : generator(seed) {}
  Tensor random(const Shape& shape) { return randn(shape, generator); }
  Generator generator;
};

struct Norm {
  Norm(Net& net, std::int64_t channels)
      : gain(net.random({channels})),
        shift(net.random({channels})),
        mean(net.random({channels})),
        variance(op::add(op::abs(net.random({channels})), 0.5)) {}
  Tensor operator()(const Tensor& x) const {
    return op::batch_norm(x, gain, shift, mean, variance, {.training = false});
  }
  Tensor gain, shift, mean, variance;
};

}  // namespace

TEST_CASE("layers: a scale and a shift for each channel go into a convolution", "[graph]") {
  Net net(1);
  const Tensor x = net.random({2, 6, 7, 5}), weight = net.random({8, 3, 3, 3}), bias = net.random({8});
  const Tensor scale = net.random({8, 1, 1}), shift = net.random({1, 8, 1, 1}), across = net.random({1, 1, 1, 3});
  for (const Tensor& first : {Tensor{}, bias}) {
    const auto conv = [&](const Tensor& in) { return op::conv2d(in, weight, first, {.padding = 1, .groups = 2}); };
    CHECK(left_of([&](const Tensor& in) { return op::mul(scale, conv(in)); }, x) == Names{"conv2d"});
    CHECK(left_of([&](const Tensor& in) { return op::add(conv(in), shift); }, x) == Names{"conv2d"});
    CHECK(left_of([&](const Tensor& in) { return op::relu(op::sub(op::mul(conv(in), scale), shift)); }, x) ==
          Names{"conv2d"});
  }
  const auto conv = [&](const Tensor& in) { return op::conv2d(in, weight, bias, {.groups = 2}); };
  CHECK(left_of([&](const Tensor& in) { return op::add(tensor({2.5F}), op::mul(conv(in), tensor({-3.0F}))); }, x) ==
        Names{"conv2d"});
  // Beside a normalisation, whose bias takes a shift.
  const Norm norm(net, 6);
  CHECK(left_of([&](const Tensor& in) { return op::add(tensor({0.5F}), norm(in)); }, x) == Names{"batch_norm"});
  // Other readers, other directions, a constant minus a layer, and what an activation separates stay.
  CHECK(left_of([&](const Tensor& in) { return op::mul(op::relu(conv(in)), scale); }, x).size() == 2);
  CHECK(left_of([&](const Tensor& in) { return op::mul(conv(in), across); }, x).size() == 2);
  CHECK(left_of([&](const Tensor& in) { return op::sub(shift, conv(in)); }, x).size() == 2);
  CHECK(left_of(
            [&](const Tensor& in) {
              const Tensor y = conv(in);
              return op::add(op::sigmoid(y), op::mul(y, scale));
            },
            x)
            .size() == 3);
}

TEST_CASE("layers: a scale goes into a linear layer, through a permutation", "[graph]") {
  Net net(2);
  const Tensor x = net.random({2, 5, 4, 6}), weight = net.random({7, 6}), bias = net.random({7});
  const Tensor row = net.random({7}), column = net.random({7, 1, 1}), across = net.random({4});
  const auto linear = [&](const Tensor& in) { return op::linear(in, weight, bias); };
  CHECK(left_of([&](const Tensor& in) { return op::mul(linear(in), row); }, x) == Names{"linear"});
  CHECK(left_of(
            [&](const Tensor& in) {
              return op::mul(op::permute(linear(in), {0, 3, 1, 2}), column);
            },
            x) == Names{"linear", "permute"});
  const Tensor square = net.random({7, 1});
  CHECK(left_of(
            [&](const Tensor& in) {
              return op::mul(op::permute(linear(in), {0, 1, 3, 2}), square);
            },
            x) == Names{"linear", "permute"});
  CHECK(left_of(
            [&](const Tensor& in) {
              return op::mul(op::permute(linear(in), {0, 3, 1, 2}), across);
            },
            x)
            .size() == 3);
}

TEST_CASE("layers: branches over one value become one convolution", "[graph]") {
  Net net(3);
  for (const std::int64_t groups : {1, 2, 8}) {
    const std::int64_t C = 8, each = C / groups;
    const Tensor x = net.random({2, C, 9, 6}), wide = net.random({C, each, 5, 3}), small = net.random({C, each, 3, 1});
    const Tensor point = net.random({C, each, 1, 1}), bias = net.random({C}), scale = net.random({C, 1, 1});
    const Norm a(net, C), b(net, C), c(net, C);
    const auto conv = [&](const Tensor& in, const Tensor& weight, Pair padding, Pair stride = 1) {
      return op::conv2d(in, weight, bias, {.stride = stride, .padding = padding, .groups = groups});
    };
    INFO(groups << " groups");
    // Two kernels with normalisations, one of the value itself, and the value; scaled and activated.
    const auto block = [&](const Tensor& in) {
      const Tensor both = op::add(a(conv(in, point, 0)), b(conv(in, wide, {2, 1})));
      const Tensor all = op::sub(op::add(both, conv(in, small, {1, 0})), c(in));
      return op::gelu(op::add(in, op::mul(all, scale)));
    };
    CHECK(left_of(block, x) == Names{"conv2d"});
    const auto strided = [&](const Tensor& in) {
      return op::add(conv(in, small, {1, 0}, 2), op::sub(conv(in, wide, {2, 1}, 2), conv(in, point, 0, 2)));
    };
    CHECK(left_of(strided, x) == Names{"conv2d"});
  }
}

TEST_CASE("layers: branches that do not lie inside one another stay", "[graph]") {
  Net net(4);
  const Tensor x = net.random({1, 8, 9, 9}), weight = net.random({8, 8, 3, 3}), point = net.random({8, 8, 1, 1});
  const Tensor tall = net.random({8, 8, 5, 1}), single = net.random({8, 1, 3, 3}), half = net.random({8, 4, 3, 3});
  const auto conv = [&](const Tensor& in) { return op::conv2d(in, weight, {}, {.padding = 1}); };
  const auto count = [&](const Function& function) { return left_of(function, x).size(); };
  CHECK(count([&](const Tensor& in) { return op::add(conv(in), conv(op::relu(in))); }) == 3);
  CHECK(count([&](const Tensor& in) { return op::add(conv(in), op::conv2d(in, tall, {}, {.padding = {2, 0}})); }) == 2);
  CHECK(count([&](const Tensor& in) {
          return op::add(conv(in), op::conv2d(in, single, {}, {.padding = 1, .groups = 8}));
        }) == 2);
  CHECK(count([&](const Tensor& in) {
          return op::add(conv(in), op::conv2d(in, weight, {}, {.padding = 2, .dilation = 2}));
        }) == 2);
  CHECK(count([&](const Tensor& in) {
          return op::add(op::conv2d(in, half, {}, {.padding = 1, .groups = 2}), conv(in));
        }) == 2);
  // A convolution without padding crops its input: the sum with the cropped value is another one.
  CHECK(count([&](const Tensor& in) {
          return op::add(op::conv2d(in, weight), op::slice(op::slice(in, 2, 1, 8), 3, 1, 8));
        }) == 3);
  // A sum of a value and its normalisation is no convolution.
  const Norm norm(net, 8);
  CHECK(left_of([&](const Tensor& in) { return op::add(norm(in), in); }, x) == Names{"batch_norm"});
  // Running statistics of training, and normalisation by the batch, stay.
  const auto trains = [&](const Tensor& in) {
    return op::add(conv(in), op::batch_norm(in, {}, {}, {}, {}, {.training = true}));
  };
  CHECK(count(trains) == 2);
}
