#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/image_nets.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

std::vector<std::string> names_of(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.structure().nodes) names.push_back(node.op->name());
  return names;
}

}  // namespace

TEST_CASE("trace: a LeNet reads as it is written", "[graph]") {
  const models::LeNet net;
  const graph::Graph graph = graph::trace(net, numbers({2, 1, 28, 28}));
  CHECK(names_of(graph) == std::vector<std::string>{"conv2d", "max_pool2d", "conv2d", "max_pool2d", "flatten", "linear",
                                                    "relu", "linear"});
  const std::string text = graph.text();
  CHECK_THAT(text, ContainsSubstring("graph LeNet\nbatch 2\ninput x float32[{n},1,28,28]\n"));
  CHECK_THAT(text, ContainsSubstring("%0:float32[{n},20,24,24] = conv2d(x, 0.weight, 0.bias)  # 0\n"));
  CHECK_THAT(text, ContainsSubstring("return %7\n"));
  CHECK(graph.parameter_count() == net.parameter_count());
}

TEST_CASE("trace: a graph runs at any batch, with the module's bits", "[graph]") {
  for (const char* name : {"sequential", "vectorized"}) {
    const Device device{name};
    const NoGrad no_grad;
    const auto check = [&](const nn::Module& net, const Shape& shape) {
      INFO(name << ", " << net.describe());
      const graph::Graph graph = graph::trace(net, numbers(shape));
      CHECK(graph.structure().batch == shape[0]);
      for (const std::int64_t n : {1, 2, 5}) {
        Shape other = shape;
        other[0] = n;
        const Tensor x = numbers(other, 7);
        INFO("batch " << n);
        CHECK(difference_of({graph(x)}, {net(x)}) == "");
        CHECK(difference_of({graph::optimized(graph)(x)}, {net(x)}) == "");
      }
    };
    check(models::LeNet(), {2, 1, 28, 28});
    for (const ImageNet& each : image_nets()) {
      const auto net = make(each.name, {10, each.image_size, each.width_divisor});
      net->eval();
      check(*net, {2, 3, each.image_size, each.image_size});
    }
    auto vit = make("vit", {10, 32, 8});
    vit->eval();
    check(*vit, {2, 3, 32, 32});
    auto mobile = make("mobilenetv2", {10, 32, 4});
    mobile->eval();
    check(*mobile, {2, 3, 32, 32});
    models::UNet unet(models::UNetOptions{.channels = 1, .classes = 2, .width_divisor = 16});
    unet.eval();
    check(unet, {2, 1, 32, 32});
  }
}

TEST_CASE("trace: a graph trains as its module, bit for bit", "[graph]") {
  struct Net {
    std::string name;
    std::function<std::shared_ptr<nn::Module>()> made;
    Shape input;
  };
  const auto image_net = [](const std::string& name, std::int64_t size, std::int64_t divisor) {
    return Net{name, [=] { return make(name, {10, size, divisor}, 3); }, {4, 3, size, size}};
  };
  const std::vector<Net> nets{{"lenet", [] { return std::make_shared<models::LeNet>(3); }, {4, 1, 28, 28}},
                              image_net("resnet18", 32, 16),
                              image_net("googlenet", 80, 16),
                              image_net("vit", 32, 8),
                              {"unet",
                               [] {
                                 return std::make_shared<models::UNet>(
                                     models::UNetOptions{.channels = 1, .classes = 2, .width_divisor = 16}, 3);
                               },
                               {2, 1, 16, 16}}};
  for (const char* name : {"sequential", "vectorized", "debug"})
    for (const Net& net : nets) {
      const Device device{name};
      INFO(name << ", " << net.name);
      const Tensor x = numbers(net.input);
      const auto trained = [&](bool as_graph) {
        const std::shared_ptr<nn::Module> module = net.made();
        std::optional<graph::Graph> graph;
        if (as_graph) graph = graph::optimized(graph::trace(*module, x));
        const nn::Module& runs = as_graph ? static_cast<const nn::Module&>(*graph) : *module;
        optim::SGD sgd(module->parameters(), {.learning_rate = 0.01, .momentum = 0.9});
        manual_seed(5);
        std::vector<Tensor> seen;
        for (int step = 0; step < 2; ++step) {
          sgd.zero_grad();
          const Tensor y = runs(x), loss = op::mean(op::mul(y, y));
          loss.backward();
          sgd.step();
          seen.push_back(loss.detach());
        }
        for (const auto& [key, tensor] : module->state()) seen.push_back(tensor);  // the graph holds the same tensors
        return seen;
      };
      CHECK(difference_of(trained(true), trained(false)) == "");
    }
}

TEST_CASE("trace: batch normalisation in training leaves the module's statistics alone", "[graph]") {
  nn::Sequential net{nn::Conv2d{1, 4, 3}, nn::BatchNorm2d{4}, nn::Relu{}};
  const nn::State before = [&] {
    nn::State copy;
    for (const auto& [name, tensor] : net.state()) copy.emplace(name, tensor.clone());
    return copy;
  }();
  const graph::Graph graph = graph::trace(net, numbers({2, 1, 8, 8}));
  for (const auto& [name, tensor] : net.state()) CHECK(difference_of({tensor}, {before.at(name)}) == "");
  // And a call changes them, as the module's would.
  graph(numbers({2, 1, 8, 8}));
  CHECK(difference_of({net.state().at("1.running_mean")}, {before.at("1.running_mean")}) != "");
}

TEST_CASE("trace: programs that look at values are refused, with their place", "[graph]") {
  class Decides : public nn::Module {
   public:
    Tensor forward(const Tensor& x) const override { return op::sum(x).item() > 0 ? op::relu(x) : x; }
    std::string describe() const override { return "Decides"; }
  };
  const nn::Sequential net{nn::Relu{}, Decides{}};
  try {
    graph::trace(net, numbers({2, 3}));
    FAIL("traced");
  } catch (const graph::GraphError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("1, Decides"));
    CHECK_THAT(error.what(), ContainsSubstring("reads"));
  }
  const auto refused = [&](const std::function<Tensor(const Tensor&)>& function) {
    CHECK_THROWS_AS(
        graph::trace([&](const std::vector<Tensor>& x) { return std::vector{function(x[0])}; }, {numbers({2, 3})}),
        graph::GraphError);
  };
  refused([](const Tensor& x) { return full({2}, x.values()[0]); });
  refused([](const Tensor& x) {
    Tensor y = op::relu(x);
    y.fill_(1);
    return y;
  });
  refused([](const Tensor& x) {
    Tensor y = op::relu(x);
    y.slice(1, 0, 1).copy_(zeros({2, 1}));
    return y;
  });
  refused([](const Tensor& x) { return op::add(x, randn({3})); });  // it would be the same in each call
}

TEST_CASE("trace: programs that decide by sizes that follow from elements are refused", "[graph]") {
  const NoGrad no_grad;
  const auto places = [](const Tensor& x) { return op::nonzero(op::greater(x, zeros({1}))); };
  for (const bool batch : {false, true}) {
    const graph::TraceOptions options{.batch = batch};
    const auto traced = [&](const std::function<Tensor(const Tensor&)>& function) {
      return graph::trace([&](const std::vector<Tensor>& x) { return std::vector{function(x[0])}; }, {numbers({4, 6})},
                          options);
    };
    CHECK_THROWS_WITH(
        traced([&](const Tensor& x) { return op::mul(op::sum(x), static_cast<double>(places(x).size(0))); }),
        ContainsSubstring("with other elements the program calls mul_number"));
    CHECK_THROWS_AS(traced([&](const Tensor& x) { return places(x).size(0) > 12 ? op::relu(x) : op::neg(x); }),
                    graph::GraphError);
    // What only computes with them has as many as there are.
    const auto selected = [&](const Tensor& x) {
      const Tensor all = places(x);
      return op::mean(op::index_select(x, 0, all.slice(1, 0, 1).reshape({-1})));
    };
    const graph::Graph graph = traced(selected);
    const graph::Program program(graph);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const Tensor x = numbers({4, 6}, i);
      CHECK(difference_of({graph(x), program(x)}, {selected(x), selected(x)}) == "");
    }
  }
}

TEST_CASE("trace: several inputs and results, constants and parameters of a function", "[graph]") {
  const NoGrad no_grad;
  Tensor scale = full({3}, 2).set_requires_grad();
  const Tensor shift = full({3}, 0.5);
  const graph::Graph graph = graph::trace(
      [&](const std::vector<Tensor>& x) {
        const Tensor y = op::add(op::mul(x[0], scale), shift);
        return std::vector{op::add(y, x[1]), y, x[0]};
      },
      {numbers({2, 3}), numbers({2, 3}, 2)}, {.inputs = {"left", "right"}});
  CHECK_THAT(graph.text(), ContainsSubstring("input left float32[{n},3]\ninput right float32[{n},3]\n"));
  CHECK_THAT(graph.text(), ContainsSubstring("parameter p0 float32[3]"));
  CHECK_THAT(graph.text(), ContainsSubstring("constant c0 float32[3]"));
  CHECK(graph.parameters().size() == 1);
  const Tensor a = numbers({4, 3}, 3), b = numbers({4, 3}, 4);
  const Tensor y = op::add(op::mul(a, scale), shift);
  CHECK(difference_of(graph.run({a, b}), {op::add(y, b), y, a}) == "");
  CHECK_THROWS_AS(graph.run({a, numbers({5, 3})}), ShapeError);
  CHECK_THROWS_AS(graph.run({a, b.to(DType::float64)}), DTypeError);
  CHECK_THROWS_AS(graph.run({a}), Error);
  CHECK_THROWS_AS(graph(a), Error);
}

TEST_CASE("trace: sizes that follow the batch are written as such, others are fixed", "[graph]") {
  const auto traced = [](const std::function<Tensor(const Tensor&)>& function) {
    return graph::trace([&](const std::vector<Tensor>& x) { return std::vector{function(x[0])}; }, {numbers({2, 6})});
  };
  const graph::Graph merged = traced([](const Tensor& x) { return x.reshape({x.size(0) * 3, 2}); });
  CHECK_THAT(merged.text(), ContainsSubstring("reshape(x) shape=[{3n},2]"));
  CHECK(difference_of({merged(numbers({5, 6}))}, {numbers({5, 6}).reshape({15, 2})}) == "");
  // An unrolled loop over the batch is another program for each.
  const graph::Graph fixed = traced([](const Tensor& x) {
    Tensor total = x[0];
    for (std::int64_t i = 1; i < x.size(0); ++i) total = op::add(total, x[i]);
    return total;
  });
  CHECK(fixed.structure().batch == 0);
  CHECK_THROWS_AS(fixed(numbers({3, 6})), ShapeError);
  // Sizes at two batches lie on a line, whatever they are: others show what they follow.
  const std::vector<std::function<Tensor(const Tensor&)>> curved{
      [](const Tensor& x) { return x.slice(0, 0, x.size(0) / 2); },
      [](const Tensor& x) {
        return op::expand(x.slice(0, 0, 1), {x.size(0) * x.size(0), 6});
      },
      [](const Tensor& x) { return x.slice(0, x.size(0) % 2, 2); },
      [](const Tensor& x) { return x.slice(0, 0, std::min<std::int64_t>(x.size(0), 8)); },
      [](const Tensor& x) { return x.size(0) > 100 ? op::relu(x) : op::neg(x); }};
  for (std::size_t i = 0; i < curved.size(); ++i) {
    INFO("function " << i);
    const graph::Graph graph = traced(curved[i]);
    CHECK(graph.structure().batch == 0);
    CHECK(difference_of({graph(numbers({2, 6}))}, {curved[i](numbers({2, 6}))}) == "");
    CHECK_THROWS_AS(graph(numbers({12, 6})), ShapeError);
  }
  // A size that reached its limit below the batch of the example.
  const auto limited = [](const std::vector<Tensor>& in) {
    const Tensor x = in[0].slice(0, 0, std::min<std::int64_t>(in[0].size(0), 3));
    return std::vector{op::cat({x, zeros(x.shape())}, 0)};
  };
  const graph::Graph small = graph::trace(limited, {numbers({4, 6})});
  CHECK(small.structure().batch == 0);
  CHECK_THROWS_AS(small(numbers({2, 6})), ShapeError);
  // Other work for one example.
  const auto single = [](const Tensor& x) { return x.size(0) == 1 ? op::relu(x) : op::neg(x); };
  const graph::Graph several =
      graph::trace([&](const std::vector<Tensor>& in) { return std::vector{single(in[0])}; }, {numbers({2, 6})});
  CHECK(several.structure().batch == 0);
  CHECK_THROWS_AS(several(numbers({1, 6})), ShapeError);
  // Other work for one example, where an expand hands on its input: the rows behind the first, and none there.
  const auto behind = [](const std::vector<Tensor>& in) {
    const Tensor x = op::expand(op::mean(in[0], {0}, true), in[0].shape());
    return std::vector{op::add(in[0], op::sum(x.slice(0, std::min<std::int64_t>(1, x.size(0) - 1), 100), {0}, true))};
  };
  const graph::Graph rows = graph::trace(behind, {numbers({2, 6})});
  CHECK(rows.structure().batch == 0);
  CHECK_THROWS_WITH(rows(numbers({1, 6})), ContainsSubstring("at a batch of 1 the program calls sum") &&
                                               ContainsSubstring("Trace it with an example"));
  CHECK(difference_of({graph::trace(behind, {numbers({1, 6})})(numbers({1, 6}))}, behind({numbers({1, 6})})) == "");
  // A constant that is another part of the same tensor.
  const Tensor both = numbers({2, 6}), even = both.slice(0, 0, 1), odd = both.slice(0, 1, 2);
  const graph::Graph parts = traced([&](const Tensor& x) { return op::add(x, x.size(0) % 2 == 0 ? even : odd); });
  CHECK(parts.structure().batch == 0);
  CHECK_THROWS_AS(parts(numbers({3, 6})), ShapeError);
  // Operators that hand on their input at the example's batch, and not at others.
  const auto widened = [](const std::vector<Tensor>& in) {
    const Tensor x = op::expand(op::max(in[0], {0}, true), in[0].shape());
    return std::vector{op::add(in[0], x.slice(0, 0, 3))};
  };
  for (const std::int64_t n : {1, 2, 3}) {
    const graph::Graph wide = graph::trace(widened, {numbers({n, 6})});
    INFO(wide.text());
    CHECK(wide.structure().batch == 0);
    CHECK(difference_of({wide(numbers({n, 6}))}, widened({numbers({n, 6})})) == "");
  }
  const auto whole = [](const std::vector<Tensor>& in) {
    return std::vector{op::add(in[0], op::expand(op::max(in[0], {0}, true), in[0].shape()).contiguous())};
  };
  const graph::Graph one = graph::trace(whole, {numbers({1, 6})});
  CHECK(one.structure().batch == 1);
  for (const std::int64_t n : {1, 2, 7}) CHECK(difference_of({one(numbers({n, 6}))}, whole({numbers({n, 6})})) == "");
  // Other work without examples alone.
  const auto none = [](const Tensor& x) { return x.size(0) == 0 ? op::relu(x) : op::neg(x); };
  const graph::Graph some = graph::Graph(graph::parse(traced(none).text(), {}));
  CHECK_THAT(some.text(), ContainsSubstring("batch 2 from 1\n"));
  CHECK(difference_of({some(numbers({1, 6}))}, {op::neg(numbers({1, 6}))}) == "");
  CHECK_THROWS_WITH(some(numbers({0, 6})), ContainsSubstring("has no examples"));
  // A copy in place of the slice that holds all of one example.
  const graph::Graph last =
      graph::trace([](const std::vector<Tensor>& in) { return std::vector{op::copy(in[0].slice(0, -1, 1 << 20))}; },
                   {numbers({2, 6})});
  CHECK(last.structure().batch == 2);
  CHECK(difference_of({last(numbers({1, 6}))}, {numbers({1, 6})}) == "");
  // A program that takes few examples follows the batch as far as that.
  const Tensor table = numbers({5, 6});
  const graph::Graph few = traced([&](const Tensor& x) { return op::add(x, table.slice(0, 0, x.size(0))); });
  CHECK(difference_of({few(numbers({5, 6}))}, {op::add(numbers({5, 6}), table)}) == "");
}

TEST_CASE("trace: inputs that share their elements, with each other or with the program, are distinguished",
          "[graph]") {
  const auto difference = [](const std::vector<Tensor>& x) { return std::vector{op::sub(x[0], x[1])}; };
  const Tensor x = numbers({2, 3}), y = numbers({2, 3}, 2), z = numbers({2, 3}, 3);
  CHECK(difference_of(graph::trace(difference, {x, x}).run({y, z}), {op::sub(y, z)}) == "");
  const Tensor rows = numbers({4, 3});
  const graph::Graph views = graph::trace(difference, {rows.slice(0, 0, 2), rows.slice(0, 0, 2)});
  CHECK(difference_of(views.run({y, z}), {op::sub(y, z)}) == "");
  CHECK(views.structure().batch == 2);
  const graph::Graph holds =
      graph::trace([&](const std::vector<Tensor>& in) { return std::vector{op::add(in[0], x)}; }, {x});
  CHECK(difference_of(holds.run({y}), {op::add(y, x)}) == "");
  const NoGrad no_grad;
  const nn::Linear net{3, 3, {.bias = false}};
  const Tensor weight = net.parameters()[0], input = numbers({3, 3});
  CHECK(difference_of({graph::trace(net, weight)(input)}, {net(input)}) == "");
}
