// Tables found by dtype: where a mode has one of 16 bits, where it has none, and what watches operators meanwhile.

#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

constexpr DType halves[]{DType::bfloat16, DType::float16};

/// The sequential mode without a table of 16 bits.
Mode plain() {
  Mode mode = tern::mode("sequential");
  mode.bfloat16.reset();
  mode.float16.reset();
  return mode;
}

const Mode& converting() {
  static const Mode& mode = register_mode("converting", plain());
  return mode;
}

Tensor numbers(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  Generator generator(seed);
  return rand(shape, generator, -1, 1).to(dtype);
}

void add_one_more(Context&, float* out, const float* a, const float* b, const kernels::Broadcast& sizes) {
  for (std::int64_t i = 0; i < sizes.count; ++i) out[i] = a[i] + b[i] + 1;
}
void add_two_more(Context&, BFloat16* out, const BFloat16* a, const BFloat16* b, const kernels::Broadcast& sizes) {
  for (std::int64_t i = 0; i < sizes.count; ++i)
    out[i] = BFloat16(static_cast<float>(a[i]) + static_cast<float>(b[i]) + 2);
}

/// A convolutional network of one dtype.
nn::Sequential make_net(DType dtype) {
  Generator generator(3);
  return nn::Sequential(nn::Conv2d(1, 4, 3, {.padding = 1, .dtype = dtype}, generator),
                        nn::BatchNorm2d(4, {.dtype = dtype}), nn::Relu(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(64, 5, {.dtype = dtype}, generator));
}

/// 1 + 2^-10, which bfloat16 rounds to 1, as each gradient of the weight.
constexpr float fine = 1.0F + 0x1p-10F;
template <bool can_be_wide>
void fine_backward(Context&, BFloat16*, BFloat16* grad_weight, BFloat16*, const BFloat16*, const BFloat16*,
                   const BFloat16*, const BFloat16*, const kernels::Linear& sizes) {
  for (std::int64_t i = 0; i < sizes.in * sizes.out; ++i)
    if (can_be_wide && sizes.wide_parameters)
      reinterpret_cast<float*>(grad_weight)[i] = fine;
    else
      grad_weight[i] = BFloat16(fine);
}

/// The gradient of a float32 weight that a layer of the mode reads in bfloat16.
std::vector<double> weight_gradient(const char* mode) {
  const Device device{mode};
  const Tensor weight = numbers({3, 5}, DType::float32, 2).set_requires_grad();
  op::sum(op::linear(numbers({4, 5}, DType::bfloat16), weight.to(DType::bfloat16))).backward();
  return weight.grad().values();
}

}  // namespace

TEST_CASE("dtypes: one kernel of one table is one line", "[device][dtypes]") {
  Mode mine = mode("sequential");
  mine.operators.arithmetic.add = add_one_more;
  mine.bfloat16->arithmetic.add = add_two_more;
  register_mode("own 16-bit add", mine);
  mine.bfloat16.reset();
  register_mode("own add", mine);
  for (const auto& [name, of_bfloat16] : {std::pair{"own 16-bit add", 4}, {"own add", 3}}) {
    const Device device{name};
    CHECK(op::add(ones({3}), ones({3})).values() == std::vector<double>(3, 3));
    CHECK(op::add(ones({3}, DType::bfloat16), ones({3}, DType::bfloat16)).values() ==
          std::vector<double>(3, of_bfloat16));
    CHECK(op::add(ones({3}, DType::float64), ones({3}, DType::float64)).values() == std::vector<double>(3, 2));
  }
  int tables = 0;
  mine.for_each_table([&](auto&) { ++tables; });
  CHECK(tables == 7);  // four of integers
  CHECK(mine.table<BFloat16>() == nullptr);
  CHECK(mine.table<Float16>() == &*mine.float16);
  CHECK(static_cast<const Mode&>(mine).table<double>() == &mine.float64);
}

TEST_CASE("dtypes: channels last is queried from the table that runs", "[device][dtypes]") {
  Mode mine = plain();
  mine.operators.channels_last = true;
  CHECK(mine.channels_last(DType::bfloat16));
  CHECK_FALSE(mine.channels_last(DType::float64));
  mine.bfloat16 = mode("sequential").bfloat16;
  CHECK_FALSE(mine.channels_last(DType::bfloat16));
  CHECK(mine.channels_last(DType::float16));
}

TEST_CASE("dtypes: without a table, operators compute in float32 and round the result once", "[device][dtypes]") {
  for (const char* name : {"converting", "vectorized", "debug:vectorized"}) {
    if (std::string(name) == "converting") converting();
    const Device device{name};
    for (const DType dtype : halves) {
      INFO(name << " in " << name_of(dtype));
      const auto same = [&](const Tensor& half, const Tensor& wide) {
        CHECK(half.dtype() == dtype);
        CHECK(half.values() == wide.to(dtype).values());
      };
      const Tensor a = numbers({6, 8}, dtype), b = numbers({6, 8}, dtype, 2), wide_a = a.to(DType::float32),
                   wide_b = b.to(DType::float32);
      same(a + b, wide_a + wide_b);
      same(op::exp(a), op::exp(wide_a));
      same(op::matmul(a, b, {.transpose_b = true}), op::matmul(wide_a, wide_b, {.transpose_b = true}));
      same(op::softmax(a), op::softmax(wide_a));
      same(op::sum(a, {1}), op::sum(wide_a, {1}));
      // Views with strides, repeated rows, parts that lie apart.
      same(a.transpose(0, 1) * b.transpose(0, 1), wide_a.transpose(0, 1) * wide_b.transpose(0, 1));
      same(a.slice(1, 1, 8, 3) - b.slice(1, 0, 7, 3), wide_a.slice(1, 1, 8, 3) - wide_b.slice(1, 0, 7, 3));
      same(a + b.slice(0, 2, 3).expand({6, 8}), wide_a + wide_b.slice(0, 2, 3).expand({6, 8}));
      CHECK(op::less(a, b).values() == op::less(wide_a, wide_b).values());
      CHECK(op::argmax(a).values() == op::argmax(wide_a).values());
      CHECK(op::one_hot(tensor<std::int64_t>({1, 0}), 2, dtype).values() == std::vector<double>{0, 1, 1, 0});
      CHECK(op::sum(numbers({0, 3}, dtype), {0}).values() == std::vector<double>(3, 0));
      CHECK((numbers({0, 3}, dtype) * 2.0).numel() == 0);
    }
  }
}

TEST_CASE("dtypes: convolutions that are joined write only their own channels", "[device][dtypes]") {
  Mode last = plain();
  last.operators.conv.layout = +[](const Context&, const kernels::Conv2d&) { return kernels::Layout::channels_last; };
  last.operators.channels_last = true;
  register_mode("converting, channels last", last);
  const Device device{"converting, channels last"};
  for (const DType dtype : halves) {
    const auto joined = [&](DType compute) {
      const Tensor x = numbers({2, 3, 5, 5}, dtype).to(compute);
      std::vector<Tensor> weights;
      for (const std::int64_t size : {1, 3}) {
        weights.push_back(numbers({4, 3, size, size}, dtype, 5).to(compute));
        weights.back().set_requires_grad();
      }
      const Tensor y = op::conv2d_cat({{x, weights[0], {}, {}}, {x, weights[1], {}, {.padding = 1}}});
      y.backward(ones(y.shape(), compute));
      return std::vector{y, weights[0].grad(), weights[1].grad()};
    };
    const std::vector<Tensor> half = joined(dtype), wide = joined(DType::float32);
    for (std::size_t i = 0; i < half.size(); ++i) {
      CHECK(half[i].dtype() == dtype);
      CHECK(half[i].values() == wide[i].to(dtype).values());
    }
  }
}

TEST_CASE("dtypes: numbers about elements are float32", "[device][dtypes]") {
  for (const char* name : {"sequential", "vectorized"}) {
    const Device device{name};
    for (const DType dtype : halves) {
      Tensor logits = numbers({4, 3}, dtype);
      logits.set_requires_grad();
      const Tensor loss = op::cross_entropy(logits, tensor<std::int64_t>({0, 1, 2, 1}));
      CHECK(loss.dtype() == DType::float32);
      loss.backward();
      CHECK(logits.grad().dtype() == dtype);
      CHECK(op::mse(logits.detach(), logits.detach()).dtype() == DType::float32);

      const Tensor x = numbers({2, 3, 4}, dtype);
      Tensor mean = zeros({3}), var = ones({3});
      CHECK(op::batch_norm(x, {}, {}, mean, var).dtype() == dtype);
      CHECK(mean.values() != std::vector<double>(3, 0));
      const std::string half_name(name_of(dtype));
      CHECK_THROWS_WITH(op::batch_norm(x, {}, {}, zeros({3}, dtype), ones({3}, dtype)),
                        "batch_norm: running_mean is " + half_name + ", expected float32 beside an input of " +
                            half_name + "; convert one with to(...)");
      CHECK(op::batch_norm(x, ones({3}), zeros({3}), mean, var).dtype() == dtype);
      const DType wide = DType::float64;
      CHECK_THROWS_WITH(op::batch_norm(x, ones({3}, wide), zeros({3}, wide), mean, var),
                        ContainsSubstring("weight is float64, expected float32 beside an input of " + half_name));
    }
  }
}

TEST_CASE("dtypes: a number of the caller keeps its digits and its range", "[device][dtypes]") {
  const Device device{"sequential"};
  // 257 is no bfloat16, 100000 no float16.
  CHECK((full({1}, 257, DType::bfloat16).to(DType::float32).item()) == 256);
  CHECK((full({1}, 512, DType::bfloat16) / 257.0).item() == 1.9921875);  // by 256 it would be 2
  CHECK((1e5 / full({1}, 1e4, DType::float16)).item() == 10);
  CHECK((full({1}, 1e4, DType::float16) / 1e5).item<Float16>().bits == Float16(0.1f).bits);
  Tensor many = ones({100000}, DType::float16);
  many.set_requires_grad();
  const Tensor mean = op::mean(many);
  CHECK(mean.item() == 1);  // the sum is beyond float16
  mean.backward();
  CHECK(many.grad().slice(0, 0, 1).item<Float16>().bits == Float16(1e-5f).bits);
}

TEST_CASE("dtypes: two dtypes at once and integers are errors", "[device][dtypes]") {
  CHECK_THROWS_WITH(op::add(ones({1}), ones({1}, DType::bfloat16)),
                    "add: inputs are float32 and bfloat16; convert one with to(...)");
  CHECK_THROWS_WITH(op::exp(ones({1}, DType::int32)),
                    "exp: inputs are int32; operators compute in floating dtypes, convert with to(...)");
}

TEST_CASE("dtypes: a mode that borrows leaves to its fallback what it has no table of", "[device][dtypes]") {
  static constexpr const char* own[] = {"add"};
  Mode mine = borrowing_mode("borrowing", "one operator of its own", host_memory(), "sequential");
  mine.operators.arithmetic.add = add_one_more;
  mine.own = own;
  register_mode("borrowing 16 bits", mine);
  const Device device{"borrowing 16 bits"};
  CHECK((ones({2}) + ones({2})).values() == std::vector<double>{3, 3});
  const Tensor two = full({2}, 2, DType::bfloat16);
  CHECK((two + two).values() == std::vector<double>{4, 4});
  CHECK((two * two).values() == std::vector<double>{4, 4});
}

TEST_CASE("dtypes: a network of 16 bits trains, its optimisers keep float32", "[device][dtypes]") {
  for (const char* name : {"sequential", "vectorized", "debug", "debug:vectorized"})
    for (const DType dtype : halves) {
      INFO(name << " in " << name_of(dtype));
      nn::Sequential net = make_net(dtype);
      for (const Tensor& parameter : net.parameters()) CHECK(parameter.dtype() == dtype);
      optim::Adam adam(net.parameters(), {.learning_rate = 0.02});
      const Tensor x = numbers({10, 1, 8, 8}, dtype);
      const Tensor labels = tensor<std::int64_t>({0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
      const Device device{name};
      double first = 0, last = 0;
      for (int step = 0; step < 25; ++step) {
        adam.zero_grad();
        const Tensor loss = op::cross_entropy(net(x), labels);
        loss.backward();
        const Tensor norm = optim::clip_grad_norm(net.parameters(), 5);
        CHECK(norm.dtype() == DType::float32);
        adam.step();
        last = loss.item();
        if (step == 0) first = last;
      }
      CHECK(first > 1);
      CHECK(last < 0.5);
      const nn::State state = adam.state();
      CHECK(state.at("0.exp_avg").dtype() == DType::float32);
      optim::Adam other(net.parameters());
      other.load_state(state);
      CHECK(other.state().at("0.exp_avg_sq").values() == state.at("0.exp_avg_sq").values());
      // Frozen statistics, with gradients.
      net.eval();
      const Tensor frozen = op::cross_entropy(net(x), labels);
      frozen.backward();
      const NoGrad no_grad;
      CHECK(op::cross_entropy(net(x), labels).item() == Approx(frozen.item()).margin(0.1));
    }
}

TEST_CASE("dtypes: a momentum of 16-bit parameters does not lose what is small", "[device][dtypes]") {
  const Device device{"sequential"};
  Tensor parameter = ones({1}, DType::bfloat16);
  parameter.set_requires_grad();
  optim::SGD sgd({parameter}, {.learning_rate = 1, .momentum = 0.999});
  for (int step = 0; step < 3; ++step) {
    parameter.set_grad(full({1}, step == 0 ? 1 : 1e-3, DType::bfloat16));
    sgd.step();
  }
  // In bfloat16 it would stay 1: 0.999 + 0.001.
  const double small = static_cast<float>(BFloat16(1e-3f));
  CHECK(sgd.state().at("0.momentum_buffer").item() == Approx(0.999 * (0.999 + small) + small).epsilon(1e-6));
}

TEST_CASE("dtypes: clipping float16 gradients does not overflow", "[device][dtypes]") {
  const Device device{"sequential"};
  Tensor parameter = zeros({4}, DType::float16);
  parameter.set_requires_grad();
  parameter.set_grad(full({4}, 3e4, DType::float16));
  CHECK(optim::clip_grad_norm({parameter}, 2).item() == Approx(6e4));
  CHECK(parameter.grad().values() == std::vector<double>(4, 1));
}

TEST_CASE("dtypes: a recorded step of 16 bits has the bits of an eager one", "[device][dtypes]") {
  Mode without = testing::replaying_mode();
  without.bfloat16.reset();
  const Mode& converting_and_replaying = register_mode("replaying, converting", without);
  for (const Mode* mode : {&testing::replaying_mode(), &converting_and_replaying}) {
    std::vector<double> eager;
    for (const bool recorded : {false, true}) {
      nn::Sequential net = make_net(DType::bfloat16);
      optim::SGD sgd(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
      const Tensor labels = tensor<std::int64_t>({0, 1, 2, 3});
      const Device device{*mode};
      const auto train = [&](const Tensor& x) {
        sgd.zero_grad();
        const Tensor loss = op::cross_entropy(net(x), labels);
        loss.backward();
        sgd.step();
        return loss.detach();
      };
      Step step(train);
      std::vector<double> losses;
      for (std::uint64_t i = 0; i < 8; ++i) {
        const Tensor x = numbers({4, 1, 8, 8}, DType::bfloat16, i);
        losses.push_back((recorded ? step(x) : train(x)).item());
      }
      if (recorded) {
        CHECK(step.replays() >= 4);
        CHECK(losses == eager);
      }
      eager = losses;
    }
  }
}

TEST_CASE("dtypes: profiler, verifier and NaN finder see 16-bit operands", "[device][dtypes]") {
  converting();
  for (const char* name : {"sequential", "converting", "vectorized"}) {
    INFO(name);
    const Device device{name, {.verify = true}};
    for (const DType dtype : halves) {
      const Tensor a = numbers({17, 9}, dtype), b = numbers({9, 5}, dtype);
      const Profile profile;
      op::softmax(op::matmul(a, b));
      op::relu(numbers({2, 4, 6, 6}, dtype).permute({0, 2, 3, 1}));
      const ProfileTable table = profile.table();
      const auto row = std::ranges::find(table.rows, "matmul", &ProfileRow::name);
      REQUIRE(row != table.rows.end());
      CHECK(row->calls == 1);
      CHECK(row->flops == 2.0 * 17 * 9 * 5);
      CHECK(row->bytes > 0);
    }
  }
  const Device checked{"sequential", {.numerics = Numerics::check}};
  const Tensor big = full({2}, 6e4, DType::float16);
  CHECK_THROWS_WITH(big + big, ContainsSubstring("add in sequential") && ContainsSubstring("float16 [2], is inf"));
}

TEST_CASE("dtypes: the verifier finds a fault in a 16-bit kernel, and one behind a conversion", "[device][dtypes]") {
  Mode faulty = mode("sequential");
  faulty.bfloat16->arithmetic.add = add_two_more;
  register_mode("faulty 16-bit add", faulty);
  Mode behind = plain();
  behind.operators.arithmetic.add = add_one_more;
  register_mode("faulty behind a conversion", behind);
  for (const char* name : {"faulty 16-bit add", "faulty behind a conversion"}) {
    const Device device{name, {.verify = true}};
    const Tensor a = numbers({4}, DType::bfloat16);
    CHECK_THROWS_AS(a + a, VerifyError);
    CHECK_NOTHROW(a * a);
  }
  Mode nan = plain();
  nan.operators.arithmetic.add =
      +[](Context&, float* out, const float*, const float*, const kernels::Broadcast& sizes) {
        for (std::int64_t i = 0; i < sizes.count; ++i) out[i] = i == 1 ? std::nanf("") : 0;
      };
  register_mode("faulty with NaN", nan);
  {
    const Device device{"faulty with NaN", {.verify = true}};
    const Tensor none = zeros({4});
    CHECK_THROWS_AS(none + none, VerifyError);
  }
  // A result that is off by two units of its last place.
  Mode coarse = mode("sequential");
  coarse.bfloat16->arithmetic.neg = +[](Context&, BFloat16* out, const BFloat16* in, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = BFloat16(-static_cast<float>(in[i]));
      out[i].bits = static_cast<std::uint16_t>(out[i].bits + 3);
    }
  };
  register_mode("coarse", coarse);
  const Device device{"coarse", {.verify = true}};
  CHECK_THROWS_AS(op::neg(ones({4}, DType::bfloat16)), VerifyError);
}

TEST_CASE("dtypes: a kernel that replaces a wide one writes gradients of 16 bits", "[device]") {
  Mode mine = mode("sequential");
  mine.bfloat16->dot.linear_backward = fine_backward<true>;
  mine.bfloat16->wide_parameters = true;
  register_mode("wide backward", mine);
  mine.bfloat16->dot.linear_backward = fine_backward<false>;
  register_mode("own backward", mine);
  CHECK(weight_gradient("wide backward") == std::vector<double>(15, fine));
  CHECK(weight_gradient("own backward") == std::vector<double>(15, 1.0));
}
