#include "tern/graph/quantize.hpp"

#include "graph/random_graph.hpp"
#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/image_nets.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

constexpr graph::QuantizeOptions forced{.force = true, .repeats = 0};

std::size_t count(const graph::Graph& graph, const std::string& op) {
  std::size_t found = 0;
  for (const graph::Node& node : graph.structure().nodes) found += node.op->name() == op;
  return found;
}

/// The error of b, as QuantizeOptions::bound measures it.
double error(const Tensor& b, const Tensor& exact) {
  return std::sqrt(op::sum(op::square(op::sub(b, exact))).item() / op::sum(op::square(exact)).item());
}

graph::Graph traced(nn::Module& net, const Tensor& x) {
  net.eval();
  return graph::trace(net, x);
}

}  // namespace

TEST_CASE("quantize: LeNet stays in 8 bits from the image to the logits", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  models::LeNet net;
  const Tensor x = numbers({4, 1, 28, 28});
  const graph::Graph lenet = traced(net, x);
  graph::QuantizeReport report;
  const graph::Graph small = graph::quantize(lenet, {{x}}, forced, &report);
  INFO(small.text());
  CHECK(count(small, "quantize") == 1);
  CHECK(count(small, "dequantize") == 0);  // the last layer's result is float32
  CHECK(count(small, "quantized_conv2d") == 2);
  CHECK(count(small, "quantized_linear") == 2);
  CHECK(count(small, "quantized_max_pool2d") == 2);
  CHECK(small.structure().nodes.size() == 8);  // and a flatten
  CHECK(report.layers.size() == 4);
  CHECK(report.error > 0);
  CHECK(report.error < 0.05);
  CHECK(std::abs(error(small.forward(x), net(x)) - report.error) < 1e-3 * report.error);
  CHECK_THAT(report.text(), ContainsSubstring("int8") && ContainsSubstring("whole"));
  // It runs at any batch, as a graph, as a program, from its text, from its file, and in another mode, with one result.
  const Tensor more = numbers({7, 1, 28, 28}, 2), expected = small.forward(more);
  const graph::Program program(small);
  for (int i = 0; i < 3; ++i) CHECK(difference_of({program(more)}, {expected}) == "");
  CHECK(program.unrecorded() == "");
  const TemporaryFolder folder;
  small.save(folder / "lenet.tern");
  CHECK(difference_of({graph::Graph::load(folder / "lenet.tern").forward(more)}, {expected}) == "");
  const graph::Program loaded = graph::Program::load(folder / "lenet.tern");
  for (int i = 0; i < 3; ++i) CHECK(difference_of({loaded(more)}, {expected}) == "");
  const Device plain{"sequential"};
  CHECK(difference_of({small.forward(more)}, {expected}) == "");
}

TEST_CASE("quantize: the image networks have one result in all modes", "[graph]") {
  const NoGrad no_grad;
  for (const ImageNet& form :
       {ImageNet{"resnet18", 64, 16}, ImageNet{"resnet50", 64, 16}, ImageNet{"googlenet", 80, 8},
        ImageNet{"mobilenetv2", 64, 8}, ImageNet{"vgg16", 32, 16}, ImageNet{"alexnet", 67, 16}}) {
    INFO(form.name);
    const Device device{"vectorized"};
    const auto net = make(form);
    const Tensor x = random_images(*net, 3);
    const graph::Graph whole = traced(*net, x);
    graph::QuantizeReport report;
    const graph::Graph small = graph::quantize(whole, {{x}}, {.bound = 1, .force = true, .repeats = 0}, &report);
    INFO(small.text());
    CHECK(count(small, "conv2d") + count(small, "conv2d_cat") + count(small, "batch_norm") == 0);
    // Local response normalisation stays in float32.
    CHECK(count(small, "quantize") == 1 + count(small, "local_response_norm"));
    CHECK(count(small, "quantized_conv2d_cat") == (form.name == "googlenet" ? 9 : 0));
    CHECK(count(small, "quantized_cat") == 0);
    CHECK(count(small, "relu") + count(small, "relu6") + count(small, "add") == 0);
    CHECK(report.error < 0.3);
    const Tensor expected = small.forward(x);
    const graph::Program program(small);
    for (int i = 0; i < 3; ++i) CHECK(difference_of({program(x)}, {expected}) == "");
    const Device plain{"sequential"};
    CHECK(difference_of({small.forward(x)}, {expected}) == "");
  }
}

TEST_CASE("quantize: a program runs large layers in 8 bits on a few images at a time", "[graph]") {
  const Device device{"vectorized", {.threads = 2}};
  const NoGrad no_grad;
  nn::Sequential net{nn::Conv2d{3, 64, 3, {.padding = 1}}, nn::Relu{}, nn::Conv2d{64, 64, 3, {.padding = 1}},
                     nn::MaxPool2d{4}, nn::Conv2d{64, 8, 3}};
  const Tensor x = numbers({16, 3, 128, 128});
  const graph::Graph small = graph::quantize(traced(net, x.slice(0, 0, 1)), {{x.slice(0, 0, 1)}}, forced);
  const graph::Program program(small);
  CHECK(program.planned_bytes(16) <= 3 * program.planned_bytes(1));
  const Tensor expected = small.forward(x);
  for (int i = 0; i < 3; ++i) CHECK(difference_of({program(x)}, {expected}) == "");
}

TEST_CASE("quantize: layers return to float32 until the error meets the bound", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  models::LeNet net;
  const Tensor x = numbers({4, 1, 28, 28});
  const graph::Graph lenet = traced(net, x);
  graph::QuantizeReport all, some, none;
  graph::quantize(lenet, {{x}}, {.bound = 1, .force = true, .repeats = 0}, &all);
  const graph::Graph part =
      graph::quantize(lenet, {{x}}, {.bound = all.error * 0.9, .force = true, .repeats = 0}, &some);
  const auto quantized = [](const graph::QuantizeReport& report) {
    return std::ranges::count_if(report.layers, [](const auto& layer) { return layer.quantized; });
  };
  CHECK(quantized(all) == 4);
  CHECK(quantized(some) < 4);
  CHECK(quantized(some) > 0);
  CHECK(some.error <= all.error * 0.9);
  CHECK(count(part, "conv2d") + count(part, "conv2d_max_pool2d") + count(part, "linear") > 0);
  CHECK(std::abs(error(part.forward(x), net(x)) - some.error) < 1e-3 * some.error);
  // The worst of the four is the first to go.
  const auto worst = std::ranges::max_element(all.layers, {}, &graph::QuantizedLayer::error);
  CHECK(!some.layers[static_cast<std::size_t>(worst - all.layers.begin())].quantized);
  const graph::Graph real = graph::quantize(lenet, {{x}}, {.bound = 1e-9, .force = true, .repeats = 0}, &none);
  CHECK(quantized(none) == 0);
  CHECK(none.error == 0);
  CHECK(count(real, "quantize") == 0);
  CHECK(difference_of({real.forward(x)}, {graph::for_inference(lenet).forward(x)}) == "");
}

TEST_CASE("quantize: timed layers are quantised where that is faster", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  nn::Sequential net{nn::Conv2d{64, 64, 3, {.padding = 1}}, nn::Relu{}, nn::Conv2d{64, 64, 3, {.padding = 1}}};
  const Tensor x = numbers({2, 64, 28, 28});
  graph::QuantizeReport report;
  const graph::Graph made = graph::quantize(traced(net, x), {{x}}, {.repeats = 3}, &report);
  for (const graph::QuantizedLayer& layer : report.layers) {
    CHECK(layer.float_seconds > 0);
    CHECK(layer.int8_seconds > 0);
    if (layer.quantized) CHECK(layer.int8_seconds < layer.float_seconds);
  }
  const bool any = std::ranges::any_of(report.layers, [](const auto& layer) { return layer.quantized; });
  CHECK((count(made, "quantized_conv2d") > 0) == any);
  if (any) CHECK(report.int8_seconds < report.float_seconds);
}

TEST_CASE("quantize: calibration leaves outliers out where that is requested", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  nn::Sequential net{nn::Linear{64, 16}};
  const Tensor x = numbers({512, 64});
  Tensor calibration = x.clone();
  calibration.slice(0, 0, 1).slice(1, 0, 1).fill_(1000);
  const graph::Graph linear = traced(net, x);
  const auto error_of = [&](graph::Calibration how, double percentile) {
    const graph::Graph made =
        graph::quantize(linear, {{calibration}},
                        {.calibration = how, .percentile = percentile, .bound = 100, .force = true, .repeats = 0});
    return error(made.forward(x), net(x));
  };
  const double wide = error_of(graph::Calibration::min_max, 99.99),
               most = error_of(graph::Calibration::percentile, 99.9),
               least_lost = error_of(graph::Calibration::entropy, 99.99);
  CHECK(most < 0.5 * wide);
  CHECK(least_lost < 0.5 * wide);
  CHECK(std::abs(error_of(graph::Calibration::percentile, 100) - wide) < 0.1 * wide);
}

TEST_CASE("quantize: values with several readers, sums of inputs, channels of zeros", "[graph]") {
  const NoGrad no_grad;
  const Tensor weight = numbers({8, 8, 3, 3}, 3), bias = numbers({8}, 4), zeros_in = zeros({8, 8, 1, 1});
  Tensor tiny = weight.clone();
  tiny.slice(0, 0, 1).fill_(1e-25);
  const auto net = [=](const std::vector<Tensor>& in) {
    const Tensor a = op::conv2d(in[0], tiny, bias, {.padding = 1});
    const Tensor b = op::conv2d(a, weight, {}, {.padding = 1, .activation = Activation::relu});
    const Tensor c = op::add(b, a), d = op::relu(c);
    const Tensor e = op::conv2d(d, zeros_in, bias);
    return std::vector{op::neg(c), op::cat({d, e, in[0]}, 1), op::avg_pool2d(e, 3, {.stride = 2, .padding = 1})};
  };
  const std::vector<Tensor> inputs{numbers({2, 8, 9, 9})};
  const graph::Graph whole = graph::trace(net, inputs);
  const Device device{"vectorized"};
  graph::QuantizeReport report;
  const graph::Graph made =
      graph::quantize(whole, {inputs, {numbers({2, 8, 9, 9}, 7)}}, {.bound = 1, .force = true, .repeats = 0}, &report);
  INFO(made.text());
  CHECK(count(made, "quantized_conv2d") == 3);
  CHECK(report.error < 0.05);
  const std::vector<Tensor> found = made.run(inputs), expected = net(inputs);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(error(found[i], expected[i]) < 0.05);
  const Device plain{"sequential"};
  CHECK(difference_of(made.run(inputs), found) == "");
}

TEST_CASE("quantize: what it refuses", "[graph]") {
  const Device device{"vectorized"};
  nn::Sequential net{nn::Linear{4, 2}};
  const graph::Graph linear = traced(net, ones({1, 4}));
  CHECK_THROWS_WITH(graph::quantize(linear, {}), ContainsSubstring("no batches"));
  CHECK_THROWS_WITH(graph::quantize(linear, {{full({1, 4}, NAN)}}), ContainsSubstring("not finite"));
  CHECK_THROWS_WITH(graph::quantize(linear, {{zeros({0, 4})}}), ContainsSubstring("show no number"));
  CHECK_NOTHROW(graph::quantize(linear, {{zeros({0, 4})}, {ones({2, 4})}}, {.repeats = 0}));
  CHECK_THROWS_WITH(graph::quantize(linear, {{ones({1, 4})}}, {.percentile = 0}), ContainsSubstring("percentile"));
  CHECK_THROWS_AS(graph::quantize(linear, {{ones({1, 5})}}), ShapeError);
  CHECK_THROWS_WITH(graph::quantize(linear, {{ones({1, 4})}, {full({2, 4}, INFINITY)}}),
                    ContainsSubstring("inf, which is not finite, in 'x' of batch 1"));
  nn::Sequential trains{nn::Linear{4, 2}, nn::Dropout{0.5}};
  trains.train();
  CHECK_THROWS_WITH(graph::quantize(graph::trace(trains, ones({1, 4})), {{ones({1, 4})}}),
                    ContainsSubstring("dropout of 1 trains; call eval()"));
}

TEST_CASE("quantize: sums of many terms stay within int32", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  nn::Sequential net{nn::Linear{80000, 2}};
  for (Tensor weight : net.parameters()) weight.fill_(0.01);
  net.parameters()[0].slice(0, 1, 2).fill_(-0.01);
  const Tensor half = rand({2, 80000}), all = ones({2, 80000});  // larger sums than the calibration shows
  const graph::Graph made = graph::quantize(traced(net, half), {{half}}, forced);
  CHECK(error(made(half), net(half)) < 0.05);
  CHECK(error(made(all), net(all)) < 0.05);
}

TEST_CASE("quantize: the bound counts results of 16 bits", "[graph]") {
  const Device device{"vectorized"};
  const Tensor x = numbers({16, 8}), weight = numbers({4, 8}, 3);
  const auto net = [&](const std::vector<Tensor>& in) {
    return std::vector{op::cast(op::linear(in[0], weight, {}), DType::float16)};
  };
  graph::QuantizeReport report;
  const graph::Graph made = graph::quantize(graph::trace(net, {x}), {{x}}, {.bound = 1e-9, .repeats = 0}, &report);
  CHECK(count(made, "quantized_linear") == 0);
  CHECK(report.error == 0);
}

TEST_CASE("quantize: random graphs at other batches than those of the calibration", "[graph]") {
  const NoGrad no_grad;
  const auto images = [](std::int64_t n, std::uint64_t draw) {
    return std::vector{numbers({n, 4, 6, 6}, draw), numbers({n, 4, 6, 6}, draw + 1)};
  };
  for (const char* name : {"vectorized", "sequential"}) {
    const Device device{name};
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const RandomProgram program(seed);
      graph::QuantizeReport report;
      const graph::Graph small =
          graph::quantize(graph::trace(program, images(2, 1)), {images(2, 1), images(3, 5), images(8, 11)},
                          {.bound = 1e9, .force = true, .repeats = 0}, &report);
      const graph::Program ready(small, {.fold = false});
      for (const std::int64_t n : {1, 2, 5}) {
        INFO(name << ", seed " << seed << ", batch " << n << '\n' << small.text());
        const std::vector<Tensor> x = images(n, 21), expected = program(x), found = small.run(x);
        for (int i = 0; i < 4; ++i) CHECK(difference_of(ready(x), found) == "");
        for (std::size_t i = 0; i < found.size(); ++i)
          if (op::max(op::abs(expected[i])).item() > 1e-3) CHECK(error(found[i], expected[i]) < 3 * report.error + 0.1);
      }
    }
  }
}
