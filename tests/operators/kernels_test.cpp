// Kernels called by hand, with what no operator of a host mode hands to them: bad labels and indices, which operators
// refuse before, batches of nothing, and keys of random streams that only a replayed step has.

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "tern/core/random.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/mode.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;

namespace {

template <class Check>
void everywhere(Check check) {
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    Context context = current_scope().context;
    check(mode(name), context);
  }
}

}  // namespace

TEST_CASE("kernels: a bad label makes its row's loss and gradient NaN, and nobody else's", "[operators]") {
  everywhere([](const Mode& mode, Context& context) {
    const auto& kernels = mode.operators.loss;
    const std::vector<float> logits(12, 0.5f), grad{1, 1, 1, 1};
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
      INFO(bad);
      const std::vector<std::int64_t> labels{0, bad, -100, 2};
      const kernels::CrossEntropy sizes{4, 3, -100, 0, kernels::Reduce::none};
      std::vector<float> loss(4), probabilities(12), gradient(12);
      const auto check = [&] {
        for (std::size_t row = 0; row < 4; ++row) {
          CHECK(std::isnan(loss[row]) == (row == 1));
          for (std::size_t c = 0; c < 3; ++c) CHECK(std::isnan(gradient[3 * row + c]) == (row == 1));
        }
        CHECK(loss[2] == 0);
      };
      kernels.cross_entropy(context, loss.data(), probabilities.data(), nullptr, logits.data(), labels.data(), sizes);
      kernels.cross_entropy_backward(context, gradient.data(), grad.data(), probabilities.data(), labels.data(), sizes);
      check();
      kernels.nll(context, loss.data(), logits.data(), labels.data(), sizes);
      kernels.nll_backward(context, gradient.data(), grad.data(), labels.data(), sizes);
      check();
    }
  });
}

TEST_CASE("kernels: the row of an index or a label that is none is zeros", "[operators]") {
  everywhere([](const Mode& mode, Context& context) {
    const std::vector<std::int64_t> index{2, -1, 0, 3, std::numeric_limits<std::int64_t>::min()};
    const std::vector<float> rows{1, 2, 3, 4, 5, 6};
    std::vector<float> out(10, -1), classes(15, -1);
    mode.movement.gather(context, out.data(), rows.data(), index.data(), 5, 3, 2 * sizeof(float));
    CHECK(out == std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0, 0, 0});
    mode.operators.shape.one_hot(context, classes.data(), index.data(), 5, 3);
    CHECK(classes == std::vector<float>{0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  });
}

// No operator hands it to them: a verifier does, for other modes.
TEST_CASE("kernels: the reference's pooled convolution is its convolution and its pooling", "[operators]") {
  const Mode& reference = mode("sequential");
  const Device device("sequential");
  Context context = current_scope().context;
  const auto& conv = reference.operators.conv;
  const auto& pooling = reference.operators.pooling;
  for (const Activation activation : {Activation::none, Activation::relu}) {
    const kernels::Conv2d sizes{
        .N = 2, .C = 3, .H = 7, .W = 8, .O = 4, .KH = 3, .KW = 3, .OH = 5, .OW = 6, .activation = activation};
    const kernels::Pool2d pool{
        .planes = 8, .H = 5, .W = 6, .OH = 2, .OW = 3, .KH = 2, .KW = 2, .stride_h = 2, .stride_w = 2};
    Generator generator(3);
    const auto drawn = [&](std::int64_t n) {
      std::vector<float> values;
      for (const double value : randn({n}, generator).values()) values.push_back(static_cast<float>(value));
      return values;
    };
    const std::vector<float> x = drawn(2 * 3 * 7 * 8), weight = drawn(4 * 3 * 9), bias = drawn(4), gradient = drawn(48);
    std::vector<float> whole(2 * 4 * 5 * 6), y(48), pooled(48), grad_whole(whole.size());
    std::vector<std::uint8_t> index(48), pooled_index(48);
    conv.conv2d(context, whole.data(), x.data(), weight.data(), bias.data(), sizes);
    pooling.max_pool2d(context, y.data(), index.data(), whole.data(), pool);
    conv.conv2d_max_pool2d(context, pooled.data(), pooled_index.data(), x.data(), weight.data(), bias.data(), sizes);
    CHECK(pooled == y);
    CHECK(pooled_index == index);
    std::vector<float> to_x(x.size()), to_weight(weight.size()), to_bias(4), x_of(x.size()), weight_of(weight.size()),
        bias_of(4);
    pooling.max_pool2d_backward(context, grad_whole.data(), gradient.data(), index.data(), pool);
    conv.conv2d_backward(context, to_x.data(), to_weight.data(), to_bias.data(), grad_whole.data(), x.data(),
                         weight.data(), whole.data(), sizes);
    conv.conv2d_max_pool2d_backward(context, x_of.data(), weight_of.data(), bias_of.data(), gradient.data(),
                                    index.data(), x.data(), weight.data(), pooled.data(), sizes);
    CHECK(x_of == to_x);
    CHECK(weight_of == to_weight);
    CHECK(bias_of == to_bias);
  }
}

TEST_CASE("kernels: a batch of nothing leaves the running statistics alone", "[operators]") {
  everywhere([](const Mode& mode, Context& context) {
    std::vector<float> mean(2), deviation(2), running_mean{3, 4}, running_var{5, 6};
    const kernels::BatchNorm none{0, 2, 7, 1e-5, 0.1, kernels::Layout::channels_first};
    mode.operators.normalization.batch_norm(context, nullptr, mean.data(), deviation.data(), running_mean.data(),
                                            running_var.data(), nullptr, nullptr, nullptr, nullptr, none);
    CHECK(running_mean == std::vector<float>{3, 4});
    CHECK(running_var == std::vector<float>{5, 6});
  });
}

TEST_CASE("kernels: dropout keeps what its stream says, by every part of the key", "[operators]") {
  everywhere([](const Mode& mode, Context& context) {
    constexpr std::int64_t n = 1003;
    const std::vector<double> in(n, 1);
    const std::uint64_t base = 5;
    for (const random::Key& key : {random::Key{7, 3}, random::Key{(std::uint64_t{9} << 32) + 7, 3},
                                   random::Key{7, (std::uint64_t{1} << 40) + 3}, random::Key{7, 3, &base}}) {
      std::vector<double> out(n);
      mode.float64.shape.dropout(context, out.data(), in.data(), n, 0.25, key);
      const std::uint64_t offset = key.offset + (key.base == nullptr ? 0 : *key.base);
      for (std::int64_t i = 0; i < n; ++i) {
        const bool kept = random::uniform(random::word(key.seed, offset, static_cast<std::uint64_t>(i))) >= 0.25f;
        REQUIRE(out[static_cast<std::size_t>(i)] == (kept ? 1 / 0.75 : 0));
      }
    }
    // The last number below 0.3 that a uniform one may be: an element that meets it is dropped.
    constexpr std::uint64_t offset = (std::uint64_t{1} << 40) + 2936858;
    REQUIRE(random::word(7, offset, 2) >> 8 == 5033164);
    std::vector<double> four(4);
    mode.float64.shape.dropout(context, four.data(), in.data(), 4, 0.3, {7, offset});
    CHECK(four[2] == 0);
  });
}
