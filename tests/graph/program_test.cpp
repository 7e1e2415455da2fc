#include <atomic>
#include <thread>

#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/replaying.hpp"
#include "support/summary.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

graph::Graph of(const std::function<Tensor(const Tensor&)>& function, const Tensor& example) {
  return graph::trace([&](const std::vector<Tensor>& x) { return std::vector{function(x[0])}; }, {example});
}

/// A mode that records programs as a whole: cuda, if there is one.
const Mode& captured() { return fastest_mode() == "cuda" ? mode("cuda") : replaying_mode(); }

}  // namespace

TEST_CASE("program: many threads get the bits of one", "[graph]") {
  const Device device{"vectorized"};
  models::LeNet net;
  net.eval();
  const graph::Program program(net, {numbers({2, 1, 28, 28})});
  CHECK(program.unrecorded() == "");
  std::vector<Tensor> inputs, expected;
  const NoGrad no_grad;
  for (std::uint64_t i = 0; i < 8; ++i) {
    inputs.push_back(numbers({1 + static_cast<std::int64_t>(i % 3), 1, 28, 28}, i));
    expected.push_back(net(inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 40; ++i) {
        const std::size_t k = (t + i) % inputs.size();
        if (!difference_of({program(inputs[k])}, {expected[k]}).empty()) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("program: results stay as they are, and inputs too", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  const graph::Program program(of([](const Tensor& x) { return op::relu(op::mul(x, 2)); }, numbers({2, 3})));
  const Tensor x = numbers({2, 3}, 5), y = numbers({2, 3}, 6), kept = x.clone();
  const Tensor first = program(x), copy = first.clone();
  program(y);
  CHECK(difference_of({first, x}, {copy, kept}) == "");
  // A strided input is read as it lies.
  const Tensor turned = numbers({3, 2}, 7).transpose(0, 1);
  CHECK(difference_of({program(turned)}, {op::relu(op::mul(turned, 2))}) == "");
  // The input itself is a result.
  const graph::Program same(of([](const Tensor& z) { return z; }, numbers({2, 3})));
  CHECK(difference_of({same(x)}, {x}) == "");
  // So it is where calls are not recorded, and where they are a Step; nobody changes an input through a result.
  for (const char* mode : {"vectorized", "debug"}) {
    INFO(mode);
    const Device other{mode};
    const graph::Program dropped(of([](const Tensor& z) { return op::dropout(z, 0, true); }, numbers({2, 3})));
    const graph::Program plain(of([](const Tensor& z) { return z; }, numbers({2, 3})));
    for (const graph::Program* each : {&dropped, &plain})
      for (int call = 0; call < 4; ++call) (*each)(x).fill_(9);
    CHECK(difference_of({x}, {kept}) == "");
  }
}

TEST_CASE("program: results that share their elements each get their own", "[graph]") {
  const Device device{GENERATE("sequential", "vectorized", "debug")};
  const graph::Graph graph = graph::trace(
      [](const std::vector<Tensor>& x) {
        return std::vector{op::tanh(op::add(x[0], x[1])), op::mul(x[0], 2)};
      },
      {numbers({2, 3}), numbers({2, 3})});
  const graph::Program program(graph, {.fold = false});
  const NoGrad no_grad;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::vector<Tensor> x{numbers({2, 3}, i), numbers({2, 3}, i + 1)}, expected = graph.run(x);
    std::vector<Tensor> results(2, zeros({2, 3}));  // one tensor
    program.run(x, results);
    CHECK(difference_of(results, expected) == "");
    const Tensor rows = zeros({4, 3});
    results = {rows.slice(0, 0, 2), rows.slice(0, 2, 4)};  // two parts of one
    program.run(x, results);
    CHECK(difference_of(results, expected) == "");
    results = x;
    program.run(results, results);
    CHECK(difference_of(results, expected) == "");
  }
}

TEST_CASE("program: weights that change are noticed, unless they were folded", "[graph]") {
  for (const Mode* const each : {&mode("vectorized"), &replaying_mode(), &captured()}) {
    INFO(each->name);
    const Device device{*each};
    const NoGrad no_grad;
    nn::Sequential net{nn::Conv2d{3, 8, 3}, nn::Relu{}, nn::Conv2d{8, 16, 3}};
    net.eval();
    const Tensor x = numbers({1, 3, 16, 16});
    const graph::Program follows(net, {x}, {.fold = false}), folded(net, {x});
    const Tensor before = net(x);
    for (int i = 0; i < 4; ++i) CHECK(difference_of({follows(x), folded(x)}, {before, before}) == "");
    for (Tensor parameter : net.parameters()) parameter.copy_(op::mul(parameter, 0.5));
    for (int i = 0; i < 4; ++i) CHECK(difference_of({follows(x), folded(x)}, {net(x), before}) == "");
  }
}

TEST_CASE("program: weights that are inputs or computed are those of each call", "[graph]") {
  const Device device{GENERATE("sequential", "vectorized", "debug")};
  const NoGrad no_grad;
  const Tensor image = numbers({2, 16, 12, 12}), rows = numbers({6, 96}), held = numbers({16, 16, 3, 3}, 9);
  const auto check = [&](const graph::Function& function, const Tensor& x, const Shape& weight) {
    const graph::Graph graph = graph::trace(function, {x, numbers(weight)}, {.batch = false});
    const graph::Program program(graph), plain(graph, {.fold = false});
    for (std::uint64_t i = 0; i < 9; ++i) {
      const std::vector<Tensor> in{x, numbers(weight, i / 2)}, expected = function(in);
      INFO(current_scope().mode->name << ", call " << i << '\n' << graph.text());
      CHECK(difference_of(plain(in), expected) == "");
      CHECK(op::allclose(program(in)[0], expected[0], 1e-4, 1e-4));
    }
  };
  const auto conv = [](const std::vector<Tensor>& x) {
    return std::vector{op::conv2d(x[0], x[1], {}, {.padding = 1})};
  };
  check(conv, image, {16, 16, 3, 3});
  check(conv, image, {40, 16, 3, 3});
  check(conv, image, {32, 16, 1, 1});
  check([](const std::vector<Tensor>& x) { return std::vector{op::conv2d(x[0], x[1], {}, {.groups = 16})}; }, image,
        {16, 1, 3, 3});
  check([](const std::vector<Tensor>& x) { return std::vector{op::conv2d(x[0], op::tanh(x[1]))}; }, image,
        {16, 16, 3, 3});
  check([&](const std::vector<Tensor>& x) { return std::vector{op::conv2d(x[0], op::mul(held, x[1]))}; }, image,
        {16, 1, 1, 1});
  check([](const std::vector<Tensor>& x) { return std::vector{op::linear(x[0], x[1])}; }, rows, {64, 96});
  check(
      [](const std::vector<Tensor>& x) { return std::vector{op::linear(x[0], op::relu(x[1]), {}, Activation::relu)}; },
      rows, {64, 96});
  check([](const std::vector<Tensor>& x) { return std::vector{op::matmul(x[0], x[1])}; }, rows, {96, 64});
}

TEST_CASE("program: a step that calls a program sees its weights change", "[graph]") {
  const Device device{captured()};
  const NoGrad no_grad;
  nn::Sequential net{nn::Conv2d{8, 16, 3}};
  net.eval();
  const Tensor x = numbers({1, 8, 16, 16});
  const graph::Program follows(net, {x}, {.fold = false});
  Step step{[&](const Tensor& images) { return follows(images); }};
  for (int i = 0; i < 4; ++i) CHECK(difference_of({step(x)}, {net(x)}) == "");
  for (Tensor parameter : net.parameters()) parameter.copy_(op::mul(parameter, 0.5));
  for (int i = 0; i < 4; ++i) CHECK(difference_of({step(x)}, {net(x)}) == "");
}

TEST_CASE("program: what the host writes while it is recorded is written in each call", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  // interpolate makes positions on the host, and tril a mask.
  const auto net = [](const Tensor& x) {
    return op::tril(op::interpolate(op::relu(x), {7, 9}, {.mode = operators::Interpolation::bicubic}));
  };
  const graph::Program program(of(net, numbers({1, 2, 5, 5})));
  CHECK(program.unrecorded() == "");
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Tensor x = numbers({1, 2, 5, 5}, i);
    CHECK(difference_of({program(x)}, {net(x)}) == "");
  }
}

TEST_CASE("program: what cannot be recorded runs operator by operator, and says why", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  const graph::Program draws(of([](const Tensor& x) { return op::dropout(x, 0.5, true); }, numbers({4, 4})));
  const Tensor x = ones({4, 4});
  CHECK(difference_of({draws(x)}, {draws(x)}) != "");
  CHECK_THAT(draws.unrecorded(), ContainsSubstring("draws random numbers"));
  const Tensor square = numbers({3, 3});
  const graph::Program looks(of([](const Tensor& a) { return op::inverse(a); }, square));
  for (int i = 0; i < 3; ++i) CHECK(difference_of({looks(square)}, {op::inverse(square)}) == "");
  CHECK_THAT(looks.unrecorded(), ContainsSubstring("the host looks at"));
  const Device debug{"debug"};
  const graph::Program plain(of([](const Tensor& z) { return op::relu(z); }, numbers({2, 3})));
  CHECK(difference_of({plain(x.slice(0, 0, 2).slice(1, 0, 3))}, {ones({2, 3})}) == "");
}

TEST_CASE("program: a recording checks the indices of each call", "[graph]") {
  const Device device{GENERATE("sequential", "vectorized")};
  const NoGrad no_grad;
  const Tensor table = numbers({5, 3});
  const graph::Program program(
      of([&](const Tensor& i) { return op::index_select(op::relu(op::embedding(table, i)), 1, i); },
         tensor<std::int64_t>({1, 2}, {2})));
  for (const std::vector<std::int64_t>& i : {std::vector<std::int64_t>{2, 0}, {1, 1}, {0, 2}, {2, 2}}) {
    const Tensor index = tensor<std::int64_t>(i, {2});
    const Tensor expected = op::index_select(op::relu(op::embedding(table, index)), 1, index);
    CHECK(difference_of({program(index)}, {expected}) == "");
  }
  CHECK(program.unrecorded() == "");
  CHECK_THROWS_WITH(program(tensor<std::int64_t>({2, 5}, {2})), ContainsSubstring("embedding: index 5 at position 1"));
  CHECK(difference_of({program(tensor<std::int64_t>({2, 2}, {2}))}, {table.slice(0, 2, 3).clone()}) != "");
  CHECK(program.unrecorded() == "");
}

TEST_CASE("program: resizing is recorded", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  for (const auto mode : {op::Interpolation::nearest, op::Interpolation::bilinear, op::Interpolation::bicubic}) {
    const auto resized = [&](const Tensor& x) { return op::interpolate(op::relu(x), {9, 14}, {.mode = mode}); };
    const graph::Program program(of(resized, numbers({2, 3, 5, 7})));
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Tensor x = numbers({2, 3, 5, 7}, i);
      CHECK(difference_of({program(x)}, {resized(x)}) == "");
    }
    CHECK(program.unrecorded() == "");
  }
}

TEST_CASE("program: a module that trains is refused", "[graph]") {
  const nn::Sequential net{nn::Linear{3, 2}};
  CHECK_THROWS_AS(graph::Program(net, {ones({1, 3})}), Error);
}

TEST_CASE("program: the plan needs less memory than all results", "[graph]") {
  const Device device{"vectorized"};
  const graph::Program chain(of(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 10; ++i) y = op::tanh(y);
        return y;
      },
      numbers({1, 1000})));
  CHECK(chain.planned_bytes(1) == 4032);  // each result takes the place of the one before, rounded to 64 bytes
  CHECK(chain.planned_bytes(2) == 8000);
  const graph::Program rows(of(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 10; ++i) y = op::softmax(y);
        return y;
      },
      numbers({1, 1000})));
  CHECK(rows.planned_bytes(1) == 2 * 4032);  // two in turn: a row is read more than once
}

TEST_CASE("program: what kernels take for themselves has its place in the plan", "[graph]") {
  const Device device{"vectorized", {.threads = 2}};
  const NoGrad no_grad;
  // Those that take blocks of memory; the others take short lists of runs from the pool.
  const ForcedAlgorithm forced{"conv2d", GENERATE("im2col", "rows", "winograd")};
  nn::Sequential net{nn::Conv2d{1, 20, 5}, nn::MaxPool2d{2}, nn::Conv2d{20, 50, 5}, nn::Conv2d{50, 32, 3}};
  net.eval();
  const graph::Program program(net, {numbers({1, 1, 28, 28})}, {.fold = false});
  std::vector<Tensor> results;
  for (std::uint64_t i = 0; i < 6; ++i) {
    Tensor x = numbers({4, 1, 28, 28}, i);
    if (i == 4) x.slice(0, 2, 3).fill_(std::numeric_limits<double>::infinity());  // another algorithm may take more
    host_memory().reset_peak();
    const std::size_t before = host_memory().statistics().in_use;
    program.run({x}, results);
    const std::size_t taken = host_memory().statistics().peak - before;
    if (i == 3 || i == 5) CHECK(taken == 0);
    CHECK(difference_of(results, {net(x)}) == "");
  }
  CHECK(program.unrecorded() == "");
}

TEST_CASE("program: large results of images exist for a few images at a time", "[graph]") {
  const Device device{"vectorized", {.threads = 2}};
  const NoGrad no_grad;
  nn::Sequential net{nn::Conv2d{3, 16, 3, {.padding = 1}}, nn::Relu{}, nn::Conv2d{16, 16, 3, {.padding = 1}},
                     nn::MaxPool2d{4}, nn::Conv2d{16, 8, 3}};
  net.eval();
  const graph::Program program(net, {numbers({1, 3, 128, 128})}, {.fold = false});
  const std::size_t one = program.planned_bytes(1), eight = program.planned_bytes(8);
  CHECK(one >= 2 * 16 * 128 * 128 * 4);
  CHECK(eight <= 2 * one);
  for (std::uint64_t i = 0; i < 5; ++i) {
    Tensor x = numbers({8, 3, 128, 128}, i);
    // Infinity leads a kernel to another algorithm, for all images.
    if (i == 3) x.slice(0, 2, 3).fill_(std::numeric_limits<double>::infinity());
    CHECK(difference_of({program(x)}, {net(x)}) == "");
  }
  CHECK(program.unrecorded() == "");
  const Tensor x = numbers({8, 3, 128, 128}), expected = net(x);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) wrong += !difference_of({program(x)}, {expected}).empty();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("program: a kernel does not write over what is read later, or by itself in another order", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  const auto same = [](const std::function<std::vector<Tensor>(const Tensor&)>& function) {
    const graph::Program program(graph::trace([&](const std::vector<Tensor>& x) { return function(x[0]); },
                                              {numbers({6, 6})}, {.batch = false}));
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Tensor x = numbers({6, 6}, i);
      CHECK(difference_of(program(std::vector{x}), function(x)) == "");
    }
  };
  same([](const Tensor& x) {  // a result that is read again
    const Tensor y = op::exp(x);
    return std::vector{y, op::relu(y), op::tanh(y)};
  });
  same([](const Tensor& x) {  // both inputs are views of one block
    const Tensor y = op::exp(x);
    return std::vector{op::sub(y, y.transpose(0, 1))};
  });
  same([](const Tensor& x) {
    const Tensor y = op::exp(x), z = op::neg(y);
    return std::vector{op::add(op::mul(y, y), z)};
  });
}

TEST_CASE("program: saved and loaded it has the same bits", "[graph]") {
  const Device device{"vectorized"};
  const TemporaryFolder folder;
  const NoGrad no_grad;
  auto net = models::ResNet18({10, 64, 16}, 1);
  net.eval();
  const Tensor x = numbers({2, 3, 64, 64});
  const graph::Program program(net, {x});
  program.save(folder / "net.tern");
  const graph::Program loaded = graph::Program::load(folder / "net.tern");
  CHECK(difference_of({loaded(x)}, {program(x)}) == "");
  CHECK(difference_of({loaded(numbers({5, 3, 64, 64}))}, {program(numbers({5, 3, 64, 64}))}) == "");
  CHECK_THROWS_AS(loaded(numbers({2, 3, 32, 64})), ShapeError);
  CHECK_THROWS_AS(graph::Program::load(folder / "none"), FileError);
}

namespace {

/// Convolutions whose kernels copy the weight before they use it, for one algorithm or dtype or another: channels of no
/// whole lanes, of groups, one channel, few outputs, strides and dilations.
struct Convolution {
  std::int64_t C, O, K, H, stride = 1, dilation = 1, groups = 1;
};
constexpr Convolution convolutions[]{
    {4, 4, 3, 6, 1, 7},
    {4, 8, 3, 9, 1, 2},
    {13, 20, 3, 9},
    {13, 20, 3, 17, 2},
    {30, 30, 5, 12},
    {96, 75, 3, 14},
    {3, 64, 7, 32, 2},
    {1, 9, 3, 12},
    {9, 1, 3, 12},
    {40, 40, 3, 14, 2, 1, 2},
    {60, 60, 3, 14, 1, 1, 10},
    {36, 36, 3, 9, 2, 1, 4},
    {24, 24, 3, 12, 1, 1, 24},
    {129, 33, 1, 7},
    {64, 96, 1, 7, 2},
    {256, 64, 3, 7},
    {64, 128, 3, 14},
    {100, 18, 7, 8, 2},
};

void check_convolutions(const std::string& name) {
  const NoGrad no_grad;
  const Precision precision = GENERATE(Precision::strict, Precision::tf32, Precision::bf16, Precision::f16);
  for (const Convolution& c : convolutions) {
    const Device device{name, {.precision = precision}};
    const Tensor weight = numbers({c.O, c.C / c.groups, c.K, c.K}, 3), bias = numbers({c.O}, 4);
    const op::Conv2dOptions options{.stride = c.stride,
                                    .padding = c.dilation * (c.K / 2),
                                    .dilation = c.dilation,
                                    .groups = c.groups,
                                    .activation = Activation::relu};
    const auto net = [&](const Tensor& x) { return op::conv2d(x, weight, bias, options); };
    const graph::Program program(of(net, numbers({2, c.C, c.H, c.H})), {.fold = false});
    for (const std::int64_t n : {1, 3})
      for (std::uint64_t seed = 5; seed < 9; ++seed) {  // run, recorded and replayed
        const Tensor x = numbers({n, c.C, c.H, c.H}, seed);
        INFO(name << ", "
                  << "precision " << static_cast<int>(precision) << ", " << n << " x " << c.C << " to " << c.O << " by "
                  << c.K << ", stride " << c.stride << ", dilation " << c.dilation << ", groups " << c.groups);
        REQUIRE(difference_of({program(x)}, {net(x)}) == "");
      }
  }
}

}  // namespace

TEST_CASE("program: convolutions that copy their weights keep their bits in replays", "[graph]") {
  check_convolutions(GENERATE("sequential", "vectorized"));
}

TEST_CASE("program: convolutions that copy their weights keep their bits in replays, in cuda", "[graph][cuda]") {
  for (const std::string& name : available_modes())
    if (name == "cuda") check_convolutions(name);
}
