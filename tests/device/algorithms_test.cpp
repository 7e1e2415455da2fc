#include "support/algorithms.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"
#include "vectorized/convolution/choice.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

bool is_available(const std::string& mode) {
  const std::vector<ModeStatus> all = modes();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == mode && each.available; });
}

const ProfileRow& row_of(const ProfileTable& table, const std::string& name, bool backward) {
  for (const ProfileRow& row : table.rows)
    if (row.name == name && row.backward == backward) return row;
  FAIL("no row " << name);
  return table.rows[0];
}

struct Convolution {
  Tensor x, weight;
  explicit Convolution(std::int64_t kernel = 3) {
    Generator generator(1);
    x = randn({2, 16, 12, 12}, generator).set_requires_grad();
    weight = randn({16, 16, kernel, kernel}, generator).set_requires_grad();
  }
  Tensor operator()() const { return op::conv2d(x, weight, {}, {.padding = 1}); }
};

}  // namespace

TEST_CASE("algorithms: a forced algorithm runs, and a profile says so", "[device][algorithms]") {
  const Device device{"vectorized"};
  const Convolution convolution;
  for (const char* algorithm : {"im2col", "rows", "winograd"}) {
    INFO(algorithm);
    const ForcedAlgorithm forward{"conv2d", algorithm}, to_x{"conv2d_grad_x", algorithm},
        to_weight{"conv2d_grad_weight", algorithm};
    const Profile profile;
    op::sum(convolution()).backward();
    for (const ForcedAlgorithm* forced : {&forward, &to_x, &to_weight}) {
      CHECK(forced->taken() == 1);
      CHECK(forced->missed() == 0);
    }
    CHECK(row_of(profile.table(), "conv2d", false).algorithm == algorithm);
    CHECK(row_of(profile.table(), "conv2d", true).algorithm ==
          message("grad_x ", algorithm, ", grad_weight ", algorithm));
    CHECK_THAT(profile.text(), ContainsSubstring("  algorithm\n"));
  }
}

TEST_CASE("algorithms: depthwise convolutions", "[device][algorithms]") {
  struct Use {
    Shape x, weight;
    op::Conv2dOptions options;
  };
  const Use uses[]{{{2, 24, 13, 11}, {24, 1, 3, 3}, {.padding = 1, .groups = 24}},
                   {{1, 13, 14, 9}, {13, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 13}},
                   {{2, 4, 9, 10}, {4, 1, 7, 7}, {.padding = 3, .groups = 4, .activation = Activation::relu}}};
  for (const Use& use : uses)
    for (const bool last : {false, true}) {
      INFO(use.x << " by " << use.weight << (last ? ", channels last" : ""));
      Generator generator(1);
      const Tensor plain = randn(use.x, generator), kernel = randn(use.weight, generator);
      const Tensor image = last ? op::permute(op::permute(plain, {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2}) : plain;
      const auto run = [&] {
        Tensor x = image.detach().set_requires_grad(), weight = kernel.detach().set_requires_grad();
        Tensor bias = ones({use.weight[0]}).set_requires_grad();
        const Tensor y = op::conv2d(x, weight, bias, use.options);
        op::sum(op::mul(y, y)).backward();
        return std::vector<std::vector<double>>{y.values(), x.grad().values(), weight.grad().values(),
                                                bias.grad().values()};
      };
      const Device device{"vectorized"};
      const ForcedAlgorithm forward{"conv2d", "depthwise"}, to_x{"conv2d_grad_x", "depthwise"},
          to_weight{"conv2d_grad_weight", "depthwise"};
      const auto found = run();
      for (const ForcedAlgorithm* forced : {&forward, &to_x, &to_weight}) {
        CHECK(forced->taken() == 1);
        CHECK(forced->missed() == 0);
      }
      const Device reference{"sequential"};
      const auto expected = run();
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::size_t j = 0; j < expected[i].size(); ++j)
          REQUIRE(found[i][j] == Approx(expected[i][j]).epsilon(1e-4).margin(1e-3));
    }
  const Device device{"vectorized"};
  for (const std::int64_t channels : {8, 9, 13, 32, 960})
    for (const std::int64_t kernel : {3, 5, 7}) {
      INFO(channels << " channels, " << kernel << "x" << kernel << ": the rule takes it by itself");
      const Profile profile;
      const Tensor x = ones({1, channels, 9, 9}).set_requires_grad();
      const Tensor weight = ones({channels, 1, kernel, kernel}).set_requires_grad();
      op::sum(op::conv2d(x, weight, {}, {.padding = kernel / 2, .groups = channels})).backward();
      CHECK(row_of(profile.table(), "conv2d", false).algorithm == "depthwise");
      CHECK(row_of(profile.table(), "conv2d", true).algorithm == "grad_x depthwise, grad_weight depthwise");
    }
  const ForcedAlgorithm forward{"conv2d", "depthwise"};
  op::conv2d(ones({1, 8, 5, 5}), ones({16, 1, 3, 3}), {}, {.groups = 8});  // two outputs of a channel
  CHECK(forward.missed() == 1);
  op::conv2d(ones({1, 8, 5, 5}), ones({8, 1, 3, 3}), {}, {.groups = 8});
  CHECK(forward.taken() == 1);
}

TEST_CASE("algorithms: 1x1 convolutions take channels-last images as they lie", "[device][algorithms]") {
  const Device device{"vectorized"};
  for (const std::int64_t outputs : {96, 21}) {
    INFO("16 channels to " << outputs);
    const Tensor weight = ones({outputs, 16, 1, 1}), planar = ones({1, 16, 9, 9});
    const Tensor last = op::permute(ones({1, 9, 9, 16}), {0, 3, 1, 2});
    // Planar images take what is fastest on this processor.
    const std::vector<double> expected = op::conv2d(planar, weight).values();
    const Profile profile;
    CHECK(op::conv2d(last, weight).values() == expected);
    const ProfileTable table = profile.table();
    CHECK(row_of(table, "conv2d", false).algorithm == "rows");
    for (const ProfileRow& row : table.rows) CHECK(row.name != "copy");
  }
}

TEST_CASE("algorithms: products", "[device][algorithms]") {
  const Device device{"vectorized"};
  Generator generator(1);
  const Tensor a = randn({40, 30}, generator), b = randn({20, 30}, generator), c = randn({30, 20}, generator);
  for (const char* algorithm : {"panels", "transposed", "dots"}) {
    const ForcedAlgorithm product{"matmul", algorithm}, layer{"linear", algorithm};
    op::matmul(a, b, {.transpose_b = true});
    CHECK(product.taken() == 1);
    op::linear(a, b);
    CHECK(layer.taken() == 1);
    op::matmul(a, c);  // dots need both factors side by side along k
    CHECK((std::string(algorithm) == "dots" ? product.missed() : product.taken() - 1) == 1);
  }
  for (const char* algorithm : {"panels", "transposed"}) {
    const ForcedAlgorithm to_x{"linear_grad_x", algorithm}, to_weight{"linear_grad_weight", algorithm};
    Tensor x = a.clone().set_requires_grad(), weight = b.clone().set_requires_grad();
    op::sum(op::linear(x, weight)).backward();
    CHECK(to_x.taken() == 1);
    CHECK(to_weight.taken() == 1);
  }
}

TEST_CASE("algorithms: factors in bfloat16", "[device][algorithms]") {
  std::vector<const char*> algorithms = testing::algorithms_of(mode("vectorized"), "matmul");
  std::erase_if(algorithms, [](const char* algorithm) { return !testing::rounds(algorithm); });
  CHECK(algorithms.empty() == (mode("vectorized").description.find(" for bf16") == std::string::npos));
  if (algorithms.empty()) WARN("skipped: this processor has none");
  Generator generator(1);
  const Tensor a = randn({40, 70}, generator), b = randn({50, 70}, generator);
  for (const char* const algorithm : algorithms) {
    INFO(algorithm);
    const ForcedAlgorithm forced{"matmul", algorithm};
    const auto product = [&](const DeviceOptions& options, const Tensor& x, const Tensor& y) {
      const Device device{"vectorized", options};
      return op::matmul(x, y, {.transpose_b = true});
    };
    const Tensor rounded = product({.precision = Precision::bf16}, a, b);
    CHECK(forced.taken() == 1);
    // Of factors that have 8 bits the products are exact, so it is the sum that is rounded.
    const auto in_8_bits = [](const Tensor& x) { return x.to(DType::bfloat16).to(DType::float32); };
    const std::vector<double> got = rounded.values(), expected = product({}, in_8_bits(a), in_8_bits(b)).values();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 70 * 0x1p-23 * 70);
    CHECK(forced.missed() == 1);
    product({.precision = Precision::bf16}, a.to(DType::bfloat16), b.to(DType::bfloat16));
    CHECK(forced.taken() == 2);
    product({.precision = Precision::bf16}, a.to(DType::float16), b.to(DType::float16));  // has 11
    product({.precision = Precision::bf16}, a.to(DType::float64), b.to(DType::float64));
    product({.precision = Precision::tf32}, a, b);
    CHECK(forced.taken() == 2);
    product({.precision = Precision::bf16, .verify = true}, a, b);  // the bounds are those of rounded factors
    CHECK(forced.taken() == 3);

    const ForcedAlgorithm forward{"conv2d", algorithm}, to_x{"conv2d_grad_x", algorithm},
        to_weight{"conv2d_grad_weight", algorithm};
    for (const Precision precision : {Precision::bf16, Precision::strict}) {
      const Device device{"vectorized", {.precision = precision}};
      Tensor x = randn({2, 8, 9, 7}, generator).set_requires_grad();
      Tensor weight = randn({16, 8, 3, 3}, generator).set_requires_grad();
      op::sum(op::conv2d(x, weight, {}, {.padding = 1})).backward();
      CHECK((forward.taken() == 1 && to_x.taken() == 1 && to_weight.taken() == 1));  // strictly another one
    }
  }
}

TEST_CASE("algorithms: attention", "[device][algorithms]") {
  Generator generator(1);
  for (const char* name : {"vectorized", "cuda"}) {
    if (!is_available(name)) continue;
    const Device device{name};
    for (const char* algorithm : {"fused", "composed"}) {
      INFO(name << ' ' << algorithm);
      const ForcedAlgorithm forced{"attention", algorithm};
      const Profile profile;
      const Tensor x = randn({2, 8, 3}, generator).set_requires_grad();
      op::sum(op::scaled_dot_product_attention(x, x, x, {.is_causal = true})).backward();
      const bool fused = std::string(algorithm) == "fused";
      CHECK(forced.taken() == (fused ? 2 : 1));  // a composed one has no backward of its own
      CHECK(forced.missed() == 0);
      if (fused) CHECK(row_of(profile.table(), "scaled_dot_product_attention", true).algorithm == "attention fused");
    }
    const ForcedAlgorithm wants_kernels{"attention", "fused"};
    const Tensor x = randn({2, 8, 3}, generator);
    op::scaled_dot_product_attention(x, x, x, {.mask = ones({8, 8}, DType::boolean)});  // masks are always composed
    CHECK(wants_kernels.taken() == 0);
  }
}

TEST_CASE("algorithms: attention of few queries reads keys and values in place", "[device][algorithms]") {
  for (const char* name : {"vectorized", "cuda"}) {
    if (!is_available(name)) continue;
    INFO(name);
    const Device device{name};
    Generator generator(1);
    const Tensor key = randn({2, 100, 8}, generator).set_requires_grad();
    for (const std::int64_t queries : {1, 4, 5}) {
      const Profile profile;
      const Tensor query = randn({2, queries, 8}, generator).set_requires_grad();
      op::sum(op::scaled_dot_product_attention(query, key, key)).backward();
      const std::string wanted = queries <= 4 ? "streamed" : "fused";
      CHECK(row_of(profile.table(), "scaled_dot_product_attention", false).algorithm == "attention " + wanted);
      CHECK(row_of(profile.table(), "scaled_dot_product_attention", true).algorithm == "attention " + wanted);
    }
  }
}

TEST_CASE("algorithms: attention of 16 bits by warpgroups, where the card has them", "[device][algorithms]") {
  if (!is_available("cuda")) return;
  const Device device{"cuda"};
  const ForcedAlgorithm forced{"attention", "warpgroups"};
  const Profile profile;
  Generator generator(1);
  const Tensor x = randn({2, 8, 8}, generator).to(DType::bfloat16).detach().set_requires_grad();
  op::sum(op::scaled_dot_product_attention(x, x, x)).backward();
  CHECK(forced.taken() == (forced.missed() == 0 ? 2 : 0));
  const std::string taken = forced.missed() == 0 ? "attention warpgroups" : "attention fused";
  CHECK(row_of(profile.table(), "scaled_dot_product_attention", true).algorithm == taken);
}

TEST_CASE("algorithms: attention without a mask stores no scores", "[device][algorithms]") {
  Generator generator(1);
  for (const char* name : {"vectorized", "cuda"}) {
    if (!is_available(name)) continue;
    INFO(name);
    Device device{name, {.threads = 2}};
    constexpr std::int64_t length = 1024;
    const Tensor x = randn({16, length, 8}, generator).set_requires_grad();
    Memory& memory = *device.mode().memory;
    device.synchronize();
    const std::size_t before = memory.statistics().in_use;
    memory.reset_peak();
    op::sum(op::scaled_dot_product_attention(x, x, x)).backward();
    device.synchronize();
    CHECK(memory.statistics().peak - before < static_cast<std::size_t>(16 * length * length) * sizeof(float) / 4);
  }
}

TEST_CASE("algorithms: one that does not fit leaves the choice free", "[device][algorithms]") {
  const Device device{"vectorized"};
  const ForcedAlgorithm winograd{"conv2d", "winograd"};
  const Convolution one(1);
  one();
  CHECK(winograd.taken() == 0);
  CHECK(winograd.missed() == 1);
}

TEST_CASE("algorithms: by themselves convolutions follow a rule", "[device][algorithms]") {
  const Device device{"vectorized"};
  const auto algorithms = [](const Shape& x, const Shape& weight, std::int64_t stride, std::int64_t padding) {
    const Tensor image = ones(x).set_requires_grad(), kernel = ones(weight).set_requires_grad();
    const Profile profile;
    op::sum(op::conv2d(image, kernel, {}, {.stride = stride, .padding = padding})).backward();
    const ProfileTable table = profile.table();
    return message(row_of(table, "conv2d", false).algorithm, "; ", row_of(table, "conv2d", true).algorithm);
  };
  CHECK(algorithms({8, 1, 28, 28}, {6, 1, 5, 5}, 1, 2) == "im2col; grad_x im2col, grad_weight im2col");
  CHECK(algorithms({8, 64, 28, 28}, {64, 64, 3, 3}, 1, 1) == "winograd; grad_x winograd, grad_weight winograd");
  CHECK(algorithms({8, 64, 28, 28}, {64, 64, 1, 1}, 1, 0) == "rows; grad_x rows, grad_weight rows");
  CHECK(algorithms({8, 64, 28, 28}, {64, 64, 3, 3}, 2, 1) == "taps; grad_x rows, grad_weight rows");
  CHECK(algorithms({8, 3, 227, 227}, {96, 3, 11, 11}, 4, 0) == "winograd; grad_x rows, grad_weight winograd");
}

TEST_CASE("algorithms: what a trial finds is remembered under the whole problem, listed and bounded",
          "[device][algorithms]") {
  const NoGrad no_grad;
  using vectorized::convolution::remembered_choices;
  const Convolution convolution;
  const Device device{"vectorized", {.threads = 2, .deterministic = false}};
  {
    const Device deterministic{"vectorized", {.deterministic = true}};
    const std::size_t before = remembered_choices().size();
    convolution();
    CHECK(remembered_choices().size() == before);
  }
  std::size_t known = remembered_choices().size();
  const auto adds = [&] { return remembered_choices().size() - std::exchange(known, remembered_choices().size()); };
  const auto of_this = [](const std::string& line) {
    return line.starts_with("conv2d of 2x16x12x12 by 16x16x3x3, stride 1x1, padding 1x1") &&
           (line.ends_with(": rows") || line.ends_with(": winograd") || line.ends_with(": lines"));
  };
  convolution();
  CHECK(adds() == 1);
  const std::vector<std::string> lines = remembered_choices();
  CHECK(std::count_if(lines.begin(), lines.end(), of_this) == 1);
  convolution();
  CHECK(adds() == 0);
  op::conv2d(convolution.x, convolution.weight, zeros({16}), {.padding = 1});
  CHECK(adds() == 1);
  op::conv2d(convolution.x, convolution.weight, {}, {.padding = 1, .activation = Activation::relu});
  CHECK(adds() == 1);
  op::conv2d(convolution.x, convolution.weight, {}, {.padding = 0});
  CHECK(adds() == 1);
  op::conv2d(convolution.x.to(DType::float64), convolution.weight.to(DType::float64), {}, {.padding = 1});
  CHECK(adds() == 1);
  for (std::int64_t h = 3; h < 37; ++h)
    for (std::int64_t w = 3; w < 37; ++w) op::conv2d(zeros({1, 16, h, w}), convolution.weight);
  CHECK(remembered_choices().size() == 1024 + 1);  // of float32, and the one of float64
}

TEST_CASE("algorithms: forced ones nest, belong to their mode and are restored", "[device][algorithms]") {
  const Device device{"vectorized"};
  const Convolution convolution;
  CHECK(forced_algorithms().empty());
  {
    const ForcedAlgorithm outer{"conv2d", "winograd"};
    {
      const ForcedAlgorithm inner{"conv2d", "rows"}, other{"matmul", "transposed"};
      CHECK(forced_algorithms() == "conv2d:rows,matmul:transposed");
      convolution();
      CHECK(inner.taken() == 1);
      CHECK(outer.taken() + outer.missed() == 0);
      const Device reference{"sequential"};
      CHECK(forced_algorithms().empty());
    }
    convolution();
    CHECK(outer.taken() == 1);
    CHECK(forced_algorithms() == "conv2d:winograd");
  }
  CHECK(forced_algorithms().empty());
}

TEST_CASE("algorithms: an unknown name is an error that lists the names there are", "[device][algorithms]") {
  {
    const Device device{"vectorized"};
    CHECK_THROWS_WITH((ForcedAlgorithm{"conv2d", "tile"}), ContainsSubstring("\"tile\"") &&
                                                               ContainsSubstring("im2col, rows, winograd") &&
                                                               ContainsSubstring("vectorized"));
    CHECK_THROWS_WITH((ForcedAlgorithm{"conv3d", "winograd"}),
                      ContainsSubstring("\"conv3d\"") && ContainsSubstring("conv2d, conv2d_grad_x"));
  }
  const Device device{"sequential"};
  CHECK_THROWS_AS((ForcedAlgorithm{"conv2d", "winograd"}), Error);
}

TEST_CASE("algorithms: TERN_ALGORITHM=vectorized.conv2d:rows,matmul:transposed", "[.][environment-algorithms]") {
  const Convolution convolution;
  const Device device{"vectorized"};
  CHECK(forced_algorithms() == "conv2d:rows,matmul:transposed");
  {
    const Profile profile;
    convolution();
    CHECK(row_of(profile.table(), "conv2d", false).algorithm == "rows");
  }
  const ForcedAlgorithm winograd{"conv2d", "winograd"};
  convolution();
  CHECK(winograd.taken() == 1);
}

TEST_CASE("algorithms: TERN_ALGORITHM that no mode understands", "[.][environment-no-algorithms]") {
  CHECK_THROWS_WITH((Device{"vectorized"}),
                    ContainsSubstring("TERN_ALGORITHM") && ContainsSubstring("im2col, rows, winograd"));
}
