// Mixed precision: Precision::bf16 and f16 in the modes that have tables of 16 bits.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/places.hpp"
#include "support/summary.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

namespace op = tern::operators;

struct Narrowed {
  Precision precision;
  DType dtype;
};
constexpr Narrowed kinds[]{{Precision::bf16, DType::bfloat16}, {Precision::f16, DType::float16}};

/// Calls use(kind) in a scope of each mode and kind that narrows activations.
void in_each(const std::function<void(const std::string& mode, const Narrowed&)>& use) {
  std::vector<std::string> modes = available_modes();
  modes.emplace_back("debug");
  for (const std::string& mode : modes)
    for (const Narrowed& kind : kinds) {
      const Device device{mode, {.precision = kind.precision}};
      if (op::activations() == DType::float32) continue;
      INFO(mode << ", " << name_of(kind.dtype));
      use(mode, kind);
    }
}

Tensor leaf(const Shape& shape, std::uint64_t seed) { return numbers(shape, seed).set_requires_grad(); }

/// A small network with every kind of layer, and its loss.
struct Net {
  nn::Sequential layers;
  explicit Net(Generator generator = Generator{7})
      : layers{nn::Conv2d{3, 8, 3, {.padding = 1}, generator},
               nn::BatchNorm2d{8},
               nn::Relu{},
               nn::MaxPool2d{2},
               nn::Conv2d{8, 16, 3, {.padding = 1, .bias = false}, generator},
               nn::BatchNorm2d{16},
               nn::Relu{},
               nn::Flatten{},
               nn::Linear{16 * 16, 10, {}, generator}} {}
  Tensor operator()(const Tensor& x) const { return layers(x); }
};

}  // namespace

TEST_CASE("mixed: modes with tables of 16 bits narrow activations", "[mixed]") {
  std::vector<std::string> modes = available_modes();
  modes.emplace_back("debug");
  for (const std::string& name : modes) {
    INFO(name);
    if (name == "sequential" || name == "cuda") CHECK((mode(name).bfloat16 && mode(name).float16));
    for (const Narrowed& kind : kinds) {
      const DType expected = mode(name).bfloat16 ? kind.dtype : DType::float32;
      const Device device{name, {.precision = kind.precision}};
      CHECK(op::activations() == expected);
      const Device inner{name, {.threads = 1}};
      CHECK(op::activations() == expected);
      const Device strict{name, {.precision = Precision::strict}};
      CHECK(op::activations() == DType::float32);
    }
    for (const Precision precision : {Precision::strict, Precision::tf32}) {
      const Device device{name, {.precision = precision}};
      CHECK(op::activations() == DType::float32);
    }
  }
  CHECK(precision_of("f16") == Precision::f16);
}

TEST_CASE("mixed: dtypes of activations, weights and losses", "[mixed]") {
  in_each([](const std::string&, const Narrowed& kind) {
    const Tensor x = numbers({2, 3, 8, 8}, 1), weight = leaf({8, 3, 3, 3}, 2), bias = leaf({8}, 3);
    const Tensor image = op::conv2d(x, weight, bias, {.padding = 1});
    CHECK(image.dtype() == kind.dtype);
    const Tensor gain = leaf({8}, 4), shift = leaf({8}, 5), mean = zeros({8}), var = ones({8});
    const Tensor normal = op::batch_norm(image, gain, shift, mean, var, {.activation = Activation::relu});
    CHECK(normal.dtype() == kind.dtype);
    CHECK(mean.dtype() == DType::float32);
    // A float32 tensor that meets an activation.
    const Tensor place = leaf({8, 8, 8}, 6);
    const Tensor sum = op::add(normal, place);
    CHECK(sum.dtype() == kind.dtype);
    const Tensor flat = op::layer_norm(sum.flatten(1), {512}, leaf({512}, 7), leaf({512}, 8));
    CHECK(flat.dtype() == kind.dtype);
    const Tensor factor = leaf({10, 512}, 9);
    const Tensor logits = op::linear(flat, factor);
    CHECK(logits.dtype() == kind.dtype);
    CHECK(op::softmax(logits).dtype() == DType::float32);
    CHECK(op::sum(logits).dtype() == DType::float32);
    CHECK(op::relu(logits).dtype() == kind.dtype);
    CHECK(op::matmul(numbers({2, 3}), numbers({3, 4})).dtype() == kind.dtype);
    CHECK(op::add(numbers({2}), numbers({2})).dtype() == DType::float32);
    const Tensor loss = op::cross_entropy(logits, tensor<std::int64_t>({1, 4}));
    CHECK(loss.dtype() == DType::float32);
    loss.backward();
    for (const Tensor& each : {weight, bias, gain, shift, place, factor}) {
      REQUIRE(each.grad().defined());
      CHECK(each.grad().dtype() == DType::float32);
    }
  });
}

// What runs inside an operator, and in its backward, keeps its dtypes.
TEST_CASE("mixed: composed operators compute inside as ever", "[mixed]") {
  in_each([](const std::string& mode, const Narrowed&) {
    const auto results = [] {
      Tensor a = leaf({4, 4}, 1), b = leaf({4, 4}, 2);
      const Tensor y = op::mse(op::norm(op::sub(a, b), 2, {1}), zeros({4}));
      y.backward();
      return std::vector{y.detach(), a.grad(), b.grad(), op::inverse(a.detach())};
    };
    const std::vector<Tensor> mixed = results();
    const Device strict{mode, {.precision = Precision::strict}};
    CHECK(difference_of(mixed, results()) == "");
  });
}

TEST_CASE("mixed: normalisation takes 16 bits beside float32 weights", "[mixed]") {
  for (const std::string& mode : available_modes())
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      INFO(mode << ", " << name_of(dtype));
      const Device device{mode};
      const auto run = [&](const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& call, DType of_x,
                           const Shape& shape, const Shape& parameters) {
        const Tensor x = numbers(shape, 1).to(dtype).to(of_x).set_requires_grad();
        const Tensor weight = leaf(parameters, 2), bias = leaf(parameters, 3);
        const Tensor y = call(x, weight, bias);
        CHECK(y.dtype() == of_x);
        op::sum(op::mul(y.to(DType::float32), numbers(shape, 4).to(dtype).to(DType::float32))).backward();
        CHECK(x.grad().dtype() == of_x);
        CHECK(weight.grad().dtype() == DType::float32);
        return std::vector{y.detach(), x.grad(), weight.grad(), bias.grad()};
      };
      const double unit = dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11;
      const auto same = [&](const auto& call, const Shape& shape, const Shape& parameters) {
        const std::vector<Tensor> narrow = run(call, dtype, shape, parameters),
                                  wide = run(call, DType::float32, shape, parameters);
        for (std::size_t i = 0; i < narrow.size(); ++i) {
          INFO("result " << i);
          const std::vector<double> got = narrow[i].values(), expected = wide[i].values();
          double largest = 0;
          for (const double value : expected) largest = std::max(largest, std::abs(value));
          for (std::size_t k = 0; k < got.size(); ++k)
            REQUIRE(std::abs(got[k] - expected[k]) <= unit * (std::abs(expected[k]) + (i == 0 ? 0 : largest)) + 1e-5);
        }
      };
      for (const bool added : {false, true})
        same(
            [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
              return op::batch_norm(x, weight, bias, zeros({16}), ones({16}), {.activation = Activation::relu},
                                    added ? numbers(x.shape(), 9).to(dtype).to(x.dtype()) : Tensor());
            },
            {3, 16, 6, 5}, {16});
      same([](const Tensor& x, const Tensor& weight,
              const Tensor& bias) { return op::layer_norm(x, {40}, weight, bias); },
           {6, 40}, {40});
      same([](const Tensor& x, const Tensor& weight, const Tensor& bias) { return op::group_norm(x, 4, weight, bias); },
           {3, 16, 5, 5}, {16});
    }
}

TEST_CASE("mixed: a replayed step has the bits of eager training, and learns", "[mixed]") {
  in_each([](const std::string&, const Narrowed& kind) {
    const Tensor labels = randint(0, 10, {8}, *std::make_unique<Generator>(5));
    const Tensor x = numbers({8, 3, 8, 8}, 3);
    std::vector<std::vector<Tensor>> seen;
    for (const bool replays : {false, true}) {
      Net net;
      optim::MasterWeights weights{net.layers.parameters()};
      optim::SGD sgd{weights.parameters(), {.learning_rate = 0.05, .momentum = 0.9}};
      optim::GradScaler scaler{{.scale = 1024}};
      const auto train = [&](const Tensor& in, const Tensor& wanted) {
        const Tensor loss = op::cross_entropy(net(in), wanted);
        net.layers.zero_grad();
        if (kind.dtype == DType::float16) {
          scaler.scale(loss).backward();
          scaler.step(weights, sgd);
        } else {
          loss.backward();
          sgd.step();
        }
        return loss;
      };
      Step step{train};
      std::vector<Tensor>& results = seen.emplace_back();
      for (int i = 0; i < 12; ++i) results.push_back((replays ? step(x, labels) : train(x, labels)).detach().clone());
      CHECK(results.back().item() < 0.5 * results.front().item());
      for (const Tensor& parameter : net.layers.parameters()) {
        CHECK(parameter.dtype() == DType::float32);
        results.push_back(parameter.detach());
      }
    }
    CHECK(difference_of(seen[0], seen[1]) == "");
  });
}

TEST_CASE("mixed: a traced network holds its casts", "[mixed][graph]") {
  in_each([](const std::string& mode, const Narrowed& kind) {
    Net net;
    net.layers.eval();
    const Tensor x = numbers({2, 3, 8, 8}, 3);
    const NoGrad no_grad;
    const graph::Graph graph = graph::trace(net.layers, x);
    const Tensor eager = net(x);
    CHECK(eager.dtype() == kind.dtype);
    CHECK(difference_of(graph.run({x}), {eager}) == "");
    CHECK(difference_of({graph::Program(graph, {.fold = false})(x)}, {eager}) == "");
    {
      const Device strict{mode, {.precision = Precision::strict}};
      CHECK(difference_of(graph.run({x}), {eager}) == "");
    }
    // Deployed, the weights are 16-bit constants, rounded after the normalisation was folded in.
    const graph::Graph deployed = graph::for_inference(graph);
    std::map<std::string, int> calls;
    for (const graph::Node& node : deployed.structure().nodes) ++calls[node.op->name()];
    CHECK(calls["cast"] == 1);  // the image
    CHECK(calls["batch_norm"] == 0);
    for (const graph::Value& value : deployed.structure().values)
      if (value.tensor.defined()) CHECK(value.dtype == kind.dtype);
    const std::vector<double> got = graph::Program(graph)(x).values(), expected = eager.values();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(0.1));
  });
}

TEST_CASE("mixed: the documentation lists the operators as their schemas do", "[mixed][docs]") {
  std::map<op::Mixed, std::string> names;
  for (const op::Op* each : op::all_ops())
    if (each->mixed() != op::Mixed::joins)
      names[each->mixed()] += (names[each->mixed()].empty() ? ": `" : ", `") + each->name() + "`";
  const std::string page = std::regex_replace(read_bytes(source_path("docs/numbers.md")), std::regex("\\s+"), " ");
  for (const auto& [mixed, list] : names) {
    INFO(list);
    CHECK(page.find(list + ".") != std::string::npos);
  }
}
