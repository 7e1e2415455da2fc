#include <map>

#include "graph/host_recording.hpp"
#include "graph/random_graph.hpp"
#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/summary.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// TERN_TEST_PROGRAMS is the number of random programs; TERN_TEST_FIRST_PROGRAM the seed of the first one.
std::uint64_t program_count(std::uint64_t usual = 200) { return number_from("TERN_TEST_PROGRAMS", usual); }

/// Two images [n, 4, 6, 6] of eight different ones: to draw them costs more than what a program does with them.
std::vector<Tensor> images(std::int64_t n, std::uint64_t seed) {
  static std::map<std::pair<std::int64_t, std::uint64_t>, std::vector<Tensor>> drawn;
  std::vector<Tensor>& known = drawn[{n, seed % 8}];
  if (known.empty()) {
    Generator generator(seed % 8);
    known = {randn({n, 4, 6, 6}, generator), randn({n, 4, 6, 6}, generator)};
  }
  return known;
}

std::size_t nodes(const graph::Structure& structure) { return structure.nodes.size(); }

graph::Structure traced(const std::function<Tensor(const Tensor&)>& function, const Shape& shape) {
  return graph::trace([&](const std::vector<Tensor>& x) { return std::vector{function(x[0])}; }, {ones(shape)})
      .structure();
}

/// A recording that runs image by image where it can has the program's bits; returns whether it does run so.
bool check_slices(const RandomProgram& program, const graph::Graph& graph, std::uint64_t seed) {
  constexpr std::int64_t n = 6;
  graph::HostRecording recording(graph, n, 1);
  for (const std::uint64_t other : {100, 201, 302, 100}) {
    std::vector<Tensor> results;
    std::string reason;
    recording.run(images(n, seed + other), results, current_scope().context, reason);
    REQUIRE(reason == "");
    REQUIRE(difference_of(results, program(images(n, seed + other))) == "");
  }
  return recording.in_slices();
}

/// Random programs keep their bits in the mode of the scope under passes in any order, and as programs, at the batch of
/// their example and at others.
void check_programs(const std::string& name, std::uint64_t count) {
  const NoGrad no_grad;
  int sliced_count = 0;
  const std::uint64_t first = number_from("TERN_TEST_FIRST_PROGRAM", 0);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Device device{name,
                        {.precision = seed % 8 == 3   ? Precision::bf16
                                      : seed % 8 == 5 ? Precision::f16
                                                      : Precision::strict}};
    const RandomProgram program(seed);
    const std::int64_t example = seed % 3 == 2 ? 1 + static_cast<std::int64_t>(seed % 4) : 2;
    const graph::Graph graph = graph::trace(program, images(example, seed));
    INFO(name << ", seed " << seed << '\n' << graph.text());
    REQUIRE(graph.structure().batch == example);
    graph::Structure structure = graph.structure();
    std::mt19937_64 dice(seed);
    for (int i = 0; i < 5; ++i) switch (dice() % 5) {
        case 0:
          graph::remove_dead(structure);
          break;
        case 1:
          graph::fold_constants(structure);
          break;
        case 2:
          graph::merge_common(structure);
          break;
        case 3:
          graph::move_reshapes(structure);
          break;
        default:
          graph::fuse(structure);
      }
    const graph::Graph rewritten(structure);
    const graph::Program ready(graph, {.fold = false});
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{2}, 3 + static_cast<std::int64_t>(seed % 13)}) {
      const std::vector<Tensor> x = images(n, seed + 100);
      const std::vector<Tensor> expected = program(x);
      INFO("batch " << n << '\n' << rewritten.text());
      REQUIRE(difference_of(graph.run(x), expected) == "");
      REQUIRE(difference_of(rewritten.run(x), expected) == "");
      // Run, recorded and replayed.
      for (const std::uint64_t other : {100, 201, 302, 100})
        REQUIRE(difference_of(ready(images(n, seed + other)), program(images(n, seed + other))) == "");
    }
    if (name != "cuda" && name != "debug") sliced_count += check_slices(program, rewritten, seed);
  }
  if (count >= 100 && name != "cuda" && name != "debug") CHECK(sliced_count > static_cast<int>(count / 50));
}

}  // namespace

TEST_CASE("passes: random programs keep their bits under passes in any order, and as programs", "[graph]") {
  const std::string name = GENERATE("sequential", "vectorized", "debug");
  check_programs(name, program_count(name == "debug" ? 50 : 200));
}

TEST_CASE("passes: random programs keep their bits on cuda", "[graph][cuda]") {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::ranges::find(modes, "cuda") == modes.end()) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  check_programs("cuda", program_count());
}

TEST_CASE("passes: random programs have the same gradients as graphs, bit for bit", "[graph]") {
  const std::string name = GENERATE("sequential", "vectorized", "debug");
  for (std::uint64_t seed = 0; seed < program_count(60); ++seed) {
    const Device device{name, {.precision = seed % 4 == 3 ? Precision::bf16 : Precision::strict}};
    const RandomProgram program(seed);
    std::vector<Tensor> leaves = program.weights();
    for (Tensor& leaf : leaves) leaf.set_requires_grad();
    const graph::Graph graph = graph::trace(program, images(2, seed));
    INFO(name << ", seed " << seed << '\n' << graph.text());
    for (const std::int64_t n : {1, 2, 3}) {
      std::vector<Tensor> x, all = leaves;
      for (const Tensor& image : images(n, seed + 1)) all.push_back(x.emplace_back(image.clone().set_requires_grad()));
      const auto gradients = [&](const graph::Function& function) {
        for (Tensor& leaf : all) leaf.zero_grad();
        Tensor loss = zeros({});
        for (const Tensor& y : function(x)) loss = op::add(loss, op::mean(op::square(y.to(DType::float32))));
        if (loss.requires_grad()) loss.backward();
        std::vector<Tensor> made{loss.detach()};
        for (const Tensor& leaf : all) made.push_back(leaf.grad().defined() ? leaf.grad().clone() : zeros({}));
        return made;
      };
      INFO("batch " << n);
      const std::vector<Tensor> expected = gradients(program);
      REQUIRE(difference_of(gradients([&](const auto& in) { return graph.run(in); }), expected) == "");
    }
  }
}

TEST_CASE("passes: folding batch normalisation changes rounding alone", "[graph]") {
  const Device device{"sequential"};
  const NoGrad no_grad;
  for (std::uint64_t seed = 0; seed < program_count() / 2; ++seed) {
    const RandomProgram program(seed);
    const graph::Graph folded = graph::for_inference(graph::trace(program, images(2, seed)));
    INFO("seed " << seed << '\n' << folded.text());
    const std::vector<Tensor> x = images(2, seed + 100), expected = program(x), found = folded.run(x);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double largest = op::max(op::abs(expected[i])).item();
      REQUIRE(op::max(op::abs(op::sub(found[i], expected[i]))).item() <= 1e-4 * (1 + largest));
    }
    CHECK(folded.parameters().empty());
  }
}

TEST_CASE("passes: in 16 bits no activation loses the rounding before it", "[graph]") {
  const NoGrad no_grad;
  const Tensor weight = numbers({4, 4, 3, 3}), square = numbers({16, 16}), x = numbers({2, 4, 16, 16}, 3);
  for (const std::string& mode : testing::available_modes())
    for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
      const Device device{mode};
      for (const char* name : {"relu", "relu6", "sigmoid", "tanh", "gelu", "silu", "hardswish"})
        for (const bool conv : {true, false}) {
          INFO(mode << ' ' << dtype << ' ' << name);
          const operators::Op& activation = operators::op(name);
          const Tensor factor = (conv ? weight : square).to(dtype), image = x.to(dtype);
          const auto layer = [&](const std::vector<Tensor>& in) {
            return activation.run({conv ? op::conv2d(in[0], factor) : op::linear(in[0], factor)}, {});
          };
          const graph::Graph graph = graph::optimized(graph::trace(layer, {image}));
          CHECK(difference_of(graph.run({image}), layer({image})) == "");
          const bool bounds = std::string_view(name).starts_with("relu");
          CHECK(nodes(graph.structure()) == (bounds || dtype == DType::float32 ? 1 : 2));
        }
    }
}

TEST_CASE("passes: a layer, its batch normalisation and its activation become one node", "[graph]") {
  nn::Sequential net{nn::Conv2d{1, 4, 3}, nn::BatchNorm2d{4}, nn::Relu{}, nn::MaxPool2d{2}};
  net.eval();
  const graph::Graph graph = graph::for_inference(graph::trace(net, ones({1, 1, 10, 10})));
  REQUIRE(nodes(graph.structure()) == 1);
  CHECK(graph.structure().nodes[0].op->name() == "conv2d_max_pool2d");
  // The module trains on, and the graph stays as it is.
  const Tensor before = graph(ones({1, 1, 10, 10}));
  const NoGrad no_grad;
  for (Tensor parameter : net.parameters()) parameter.fill_(2);
  CHECK(difference_of({graph(ones({1, 1, 10, 10}))}, {before}) == "");
}

TEST_CASE("passes: a product with a constant matrix and a constant row are a linear layer", "[graph]") {
  Generator generator(1);
  const Tensor matrix = randn({8, 5}, generator), row = randn({1, 5}, generator), x = randn({3, 4, 8}, generator);
  const auto layer = [&](const Tensor& in) { return op::gelu(op::add(row, op::matmul(in, matrix))); };
  const graph::Graph graph = graph::for_inference(graph::Graph(traced(layer, {3, 4, 8})));
  REQUIRE(nodes(graph.structure()) == 1);
  CHECK(graph.structure().nodes[0].op->name() == "linear");
  CHECK(op::allclose(graph(x), layer(x), 1e-5, 1e-5));
  // A sum that is used twice, and one that broadcasts, stay.
  const auto wide = [&](const Tensor& in) { return op::add(op::matmul(in, matrix), op::reshape(row, {5, 1, 1})); };
  CHECK(nodes(graph::for_inference(graph::Graph(traced(wide, {4, 8}))).structure()) == 2);
  const auto twice = [&](const Tensor& in) {
    const Tensor product = op::matmul(in, matrix);
    return op::mul(op::add(product, row), product);
  };
  CHECK(nodes(graph::for_inference(graph::Graph(traced(twice, {4, 8}))).structure()) == 3);
}

TEST_CASE("passes: reshapes that cancel out are removed", "[graph]") {
  Generator generator(3);
  const Tensor weight = randn({4, 2, 1, 3}, generator), x = randn({2, 2, 1, 9}, generator);
  const auto layer = [&](const Tensor& in) {
    const Tensor flat = op::relu(op::conv2d(in, weight).reshape({in.size(0), 4, 7}));
    return op::max_pool2d(flat.unsqueeze(2).reshape({in.size(0), 4, 1, 7}), {1, 2});
  };
  const graph::Graph graph = graph::optimized(graph::Graph(traced(layer, {2, 2, 1, 9})));
  INFO(graph.text());
  CHECK(nodes(graph.structure()) == 2);
  const Tensor larger = randn({5, 2, 1, 9}, generator);
  CHECK(difference_of({graph(x), graph(larger)}, {layer(x), layer(larger)}) == "");
  // Images come back in order, whatever order the convolution left them in.
  const auto images = [&](const Tensor& in) {
    const Tensor flat = op::relu(op::conv2d(in, ones({16, 16, 3, 3})).reshape({in.size(0), 8, 72}));
    const Tensor back = flat.reshape({in.size(0), 16, 6, 6});
    return op::add(back, back);
  };
  const graph::Graph turned = graph::optimized(graph::Graph(traced(images, {2, 16, 8, 8})));
  const Tensor many = randn({3, 16, 8, 8}, generator);
  const Device device{"vectorized"};
  CHECK(turned(many).strides() == images(many).strides());
  // One that others read as well stays.
  const auto shared = [&](const Tensor& in) {
    const Tensor flat = op::conv2d(in, weight).reshape({in.size(0), 28});
    return op::cat({op::relu(flat), op::sigmoid(flat)}, 1);
  };
  const graph::Graph kept = graph::optimized(graph::Graph(traced(shared, {2, 2, 1, 9})));
  CHECK(nodes(kept.structure()) == 5);
  CHECK(difference_of({kept(x)}, {shared(x)}) == "");
}

TEST_CASE("passes: taps that meet padding alone are cut", "[graph]") {
  Generator generator(2);
  const Tensor weight = randn({4, 3, 3, 3}, generator), x = randn({2, 3, 6, 9}, generator);
  struct Cut {
    Pair padding, dilation, stride, left;
  };
  for (const Cut& cut : {Cut{8, 8, 1, {1, 3}}, Cut{9, 9, 1, 1}, Cut{{9, 5}, {9, 5}, 2, {1, 3}},
                         Cut{{3, 20}, {3, 20}, 1, {3, 1}}, Cut{{12, 9}, {9, 9}, 1, 1}}) {
    const auto layer = [&](const Tensor& in) {
      return op::conv2d(in, weight, {}, {.stride = cut.stride, .padding = cut.padding, .dilation = cut.dilation});
    };
    const graph::Graph graph = graph::for_inference(graph::Graph(traced(layer, {2, 3, 6, 9})));
    INFO(graph.text());
    const graph::Structure& structure = graph.structure();
    const Tensor& kept = structure.values[static_cast<std::size_t>(structure.nodes[0].inputs[1])].tensor;
    CHECK(kept.shape() == Shape{4, 3, cut.left.h, cut.left.w});
    CHECK(op::allclose(graph(x), layer(x), 1e-5, 1e-5));
  }
}

TEST_CASE("passes: a layer takes its normalisation, the shortcut and the activation", "[graph]") {
  const Device device{"sequential"};
  const nn::Conv2d conv{4, 4, 1};
  nn::BatchNorm2d norm{4};
  norm.eval();
  const graph::Graph graph = graph::for_inference(
      graph::trace([&](const std::vector<Tensor>& x) { return std::vector{norm(conv(x[0]), x[0], Activation::relu)}; },
                   {ones({2, 4, 5, 5})}));
  REQUIRE(nodes(graph.structure()) == 1);
  CHECK(graph.structure().nodes[0].op->name() == "conv2d_add");
  Generator generator{1};
  const Tensor x = randn({3, 4, 5, 5}, generator);
  const NoGrad no_grad;
  const Tensor expected = norm(conv(x), x, Activation::relu);
  CHECK(op::max(op::abs(op::sub(graph(x), expected))).item() <= 1e-5);
}

TEST_CASE("passes: a convolution that adds leaves its result in the layout of the sum", "[graph]") {
  for (const std::string& mode : testing::available_modes()) {
    INFO(mode);
    const Device device{mode};
    const NoGrad no_grad;
    const Tensor x = ones({2, 16, 8, 8}), weight = ones({16, 16, 3, 3}), y = op::conv2d(x, weight, {}, {.padding = 1});
    for (const Tensor& added : {x, y.clone()})
      CHECK(op::conv2d_add(x, weight, {}, added, {.padding = 1}).strides() == op::add(y, added).strides());
  }
}

TEST_CASE("passes: an inverted residual becomes one node, with the bits of its convolutions", "[graph]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    INFO(mode);
    const Device device{mode};
    const NoGrad no_grad;
    Generator generator{1};
    const Tensor wide = randn({48, 16, 1, 1}, generator), middle = randn({48, 1, 3, 3}, generator);
    const Tensor narrow = randn({16, 48, 1, 1}, generator), bias = randn({48}, generator);
    const auto block = [&](const std::vector<Tensor>& in) {
      const Tensor x = op::permute(op::permute(in[0], {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2});  // channels last
      const Tensor y =
          op::relu6(op::conv2d(op::relu6(op::conv2d(x, wide, bias)), middle, bias, {.padding = 1, .groups = 48}));
      const Tensor z = op::add(op::conv2d(y, narrow), x);
      return std::vector{op::conv2d(op::conv2d(z, middle.slice(0, 0, 16), {}, {.stride = 2, .groups = 16}), wide)};
    };
    for (const std::int64_t side : {7, 30}) {
      const Tensor x = randn({2, 16, side, side + 1}, generator);
      const graph::Graph graph = graph::for_inference(graph::trace(block, {x}));
      std::vector<std::string> names;
      for (const graph::Node& node : graph.structure().nodes) names.push_back(node.op->name());
      CHECK(std::ranges::count(names, "inverted_residual") == 2);
      CHECK(std::ranges::count(names, "conv2d") == 0);
      CHECK(difference_of({graph(x)}, block({x})) == "");
    }
  }
}

TEST_CASE("passes: what has another reader, another shape or another activation is not joined", "[graph]") {
  const Tensor weight = ones({4, 4, 3, 3}), scale = ones({4});
  const auto fused = [](graph::Structure structure, graph::Rounding rounding = graph::Rounding::fewer) {
    graph::fuse(structure, rounding);
    return nodes(structure);
  };
  const auto conv = [&](const Tensor& x) { return op::conv2d(x, weight, {}, {.padding = 1}); };
  const auto norm = [&](const Tensor& x) { return op::batch_norm(x, scale, scale, scale, scale, {.training = false}); };
  CHECK(fused(traced([&](const Tensor& x) { return op::relu(conv(x)); }, {1, 4, 6, 6})) == 1);
  CHECK(fused(traced([&](const Tensor& x) { return op::sigmoid(op::relu(conv(x))); }, {1, 4, 6, 6})) == 2);
  CHECK(fused(traced(
            [&](const Tensor& x) {
              const Tensor y = conv(x);
              return op::add(op::relu(y), y);
            },
            {1, 4, 6, 6})) == 3);
  const graph::Structure sum = traced([&](const Tensor& x) { return op::relu(op::add(x, norm(x))); }, {1, 4, 6, 6});
  CHECK(fused(sum) == 1);
  CHECK(fused(sum, graph::Rounding::same) == 3);
  CHECK(fused(traced([&](const Tensor& x) { return op::relu6(op::add(x, conv(x))); }, {1, 4, 6, 6}),
              graph::Rounding::same) == 1);
  CHECK(fused(traced([&](const Tensor& x) { return op::relu6(norm(x)); }, {1, 4, 6, 6})) == 1);
  CHECK(fused(traced([&](const Tensor& x) { return op::silu(conv(x)); }, {1, 4, 6, 6})) == 1);
  CHECK(fused(traced([&](const Tensor& x) { return op::silu(op::add(x, conv(x))); }, {1, 4, 6, 6})) == 2);
  CHECK(fused(traced([&](const Tensor& x) { return op::add(norm(x), scale.reshape({4, 1, 1})); }, {1, 4, 6, 6})) == 3);
  CHECK(fused(traced([&](const Tensor& x) { return op::tanh(norm(x)); }, {1, 4, 6, 6})) == 2);
  CHECK(fused(traced([&](const Tensor& x) { return op::add(x, op::mul(x, scale)); }, {3, 4}), graph::Rounding::same) ==
        1);
  CHECK(fused(traced([&](const Tensor& x) { return op::max_pool2d(conv(x), 2, {.stride = Pair{1}}); }, {1, 4, 6, 6})) ==
        2);
}

TEST_CASE("passes: an inception module is one conv2d_cat, with its bits", "[graph]") {
  const NoGrad no_grad;
  Generator generator(1);
  models::Inception net({8, 4, 4, 8, 4, 8, 4}, nn::Start::kaiming, generator);
  net.eval();
  const Tensor x = randn({2, 8, 6, 6}, generator);
  for (const char* name : {"sequential", "vectorized"}) {
    const Device device{name};
    const graph::Graph graph = graph::optimized(graph::trace(net, x));
    CHECK(graph.structure().nodes.back().op->name() == "conv2d_cat");
    CHECK(difference_of({graph(x)}, {net(x)}) == "");
  }
}

TEST_CASE("passes: nothing that reads running statistics passes the node that updates them", "[graph]") {
  const Device device{"sequential"};
  const NoGrad no_grad;
  for (int kind = 0; kind < 4; ++kind) {
    Tensor mean = zeros({4}), deviation = ones({4});
    const auto update = [&](const Tensor& x) { return op::batch_norm(x, {}, {}, mean, deviation, {.training = true}); };
    const auto program = [&](const std::vector<Tensor>& inputs) {
      const Tensor& x = inputs[0];
      const auto read = [&] { return kind == 3 ? op::exp(mean.reshape({4, 1})) : op::exp(mean); };
      const Tensor before = kind == 2 ? op::batch_norm(x, {}, {}, mean, deviation, {.training = false}) : read();
      const Tensor normal = update(x);
      if (kind == 1) return std::vector{normal, op::relu(op::batch_norm(x, {}, {}, mean, deviation, {}))};
      if (kind == 2) return std::vector{normal, op::relu(before)};
      return std::vector{normal, before, read()};
    };
    const auto fresh = [&] { mean.fill_(0.25), deviation.fill_(2); };
    const std::vector<Tensor> inputs{op::mul(images(2, 1)[0], 3)};
    fresh();
    graph::Structure structure = graph::trace(program, inputs).structure();
    graph::fold_constants(structure);
    graph::merge_common(structure);
    graph::fuse(structure);
    const graph::Graph rewritten(structure);
    INFO(rewritten.text());
    fresh();
    const std::vector<Tensor> expected = program(inputs);
    fresh();
    CHECK(difference_of(rewritten.run(inputs), expected) == "");
  }
}

TEST_CASE("passes: what is computed twice, or for nobody, or of constants, goes", "[graph]") {
  graph::Structure structure = traced(
      [](const Tensor& x) {
        op::exp(x);
        const Tensor two = op::add(ones({1}), 1);
        return op::add(op::mul(op::relu(x), two), op::relu(x));
      },
      {2, 3});
  REQUIRE(nodes(structure) == 6);
  graph::remove_dead(structure);
  CHECK(nodes(structure) == 5);
  graph::fold_constants(structure);
  CHECK(nodes(structure) == 4);
  graph::merge_common(structure);
  CHECK(nodes(structure) == 3);
  // Random numbers are drawn as often as they were.
  structure =
      traced([](const Tensor& x) { return op::add(op::dropout(x, 0.5, true), op::dropout(x, 0.5, true)); }, {2, 3});
  graph::merge_common(structure);
  CHECK(nodes(structure) == 3);
}
