// Parts of one tensor: their gradients cost what they hold, and are what they always were.

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/profile.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

Tensor counted(const Shape& shape, DType dtype = DType::float64) {
  Tensor x(shape, DType::float64);
  double next = 0;
  for (double& value : x.write<double>()) value = next++;
  return x.to(dtype);
}

// The bytes that backward takes at its peak, beyond what is there.
std::size_t bytes_of_backward(const Tensor& loss) {
  Memory& memory = host_memory();
  memory.reset_peak();
  const std::size_t before = memory.statistics().in_use;
  loss.backward();
  return memory.statistics().peak - before;
}

std::int64_t calls(const Profile& profile, const std::string& name) {
  std::int64_t count = 0;
  for (const ProfileRow& row : profile.table().rows)
    if (row.backward && row.name == name) count += row.calls;
  return count;
}

using Cut = std::function<Tensor(const Tensor& x, std::int64_t t)>;

// A random view of x, and the same of the numbers of its elements.
struct Numbered {
  Tensor x, number;
};
Numbered viewed(std::mt19937& dice, const Numbered& of) {
  const auto roll = [&](std::int64_t sides) {
    return static_cast<std::int64_t>(dice() % static_cast<unsigned>(sides));
  };
  const auto both = [&](auto view) { return Numbered{view(of.x), view(of.number)}; };
  const int rank = of.x.rank();
  switch (rank == 0 ? 5 : roll(7)) {
    case 0:
    case 1: {
      const std::int64_t dim = roll(rank), size = of.x.size(dim), begin = roll(size + 1), end = roll(size + 2);
      const std::int64_t step = 1 + roll(3);
      return both([&](const Tensor& t) { return t.slice(dim, begin, end, step); });
    }
    case 2:
      return of.x.size(0) == 0 ? of : both([i = roll(of.x.size(0))](const Tensor& t) { return t[i]; });
    case 3:
      return both([a = roll(rank), b = roll(rank)](const Tensor& t) { return t.transpose(a, b); });
    case 4:
      return both([](const Tensor& t) { return t.flatten(); });
    case 5:
      return both([](const Tensor& t) { return t.unsqueeze(0); });
    default: {
      const std::int64_t dim = roll(rank), size = of.x.size(dim);
      return both([&](const Tensor& t) { return t.slice(dim, size, -size - 1, -1); });
    }
  }
}

}  // namespace

TEST_CASE("slices: the gradient of many slices of one tensor takes the bytes of one tensor", "[autograd]") {
  constexpr std::int64_t steps = 64, width = 2048;
  constexpr std::size_t bytes = steps * width * sizeof(float);
  const auto loss_of = [&](const Cut& cut, const Tensor& x) {
    Tensor state = zeros({width});
    for (std::int64_t t = 0; t < steps; ++t) state = op::add(op::mul(state, 0.5), cut(x, t));
    return op::sum(state);
  };
  const auto slice = [](const Tensor& x, std::int64_t t) { return x.slice(0, t, t + 1).squeeze(0); };
  const auto row = [](const Tensor& x, std::int64_t t) { return x[t]; };
  const auto row_of_row = [](const Tensor& x, std::int64_t t) {
    return x.reshape({8, steps / 8, width})[t / (steps / 8)][t % (steps / 8)];
  };
  const auto column = [](const Tensor& x, std::int64_t t) { return x.reshape({width, steps}).transpose(0, 1)[t]; };
  for (const auto& cut : {Cut(slice), Cut(row), Cut(row_of_row), Cut(column)}) {
    Tensor leaf = ones({steps, width}).set_requires_grad();
    CHECK(bytes_of_backward(loss_of(cut, leaf)) < 2 * bytes);
    const double first = leaf.grad().values()[0];
    CHECK(first == std::pow(0.5, steps - 1));
    // Of the result of an operator, which has its gradient copied once.
    const Tensor before = leaf.grad();
    leaf.zero_grad();
    CHECK(bytes_of_backward(loss_of(cut, op::mul(leaf, 1.0))) < 4 * bytes);
    CHECK(leaf.grad().values() == before.values());
  }
}

TEST_CASE("slices: random views of one tensor have the gradients of their elements", "[autograd]") {
  for (const char* name : {"sequential", "vectorized", "debug"}) {
    const Device device(name);
    for (unsigned seed = 0; seed < 150; ++seed) {
      INFO(name << " " << seed);
      std::mt19937 dice(seed);
      const auto size = [&](unsigned most) { return 1 + static_cast<std::int64_t>(dice() % most); };
      const Shape shape{size(4), size(4), size(5)};
      const DType dtype = dice() % 3 == 0 ? DType::bfloat16 : dice() % 2 == 0 ? DType::float32 : DType::float64;
      Tensor leaf = zeros(shape, dtype).set_requires_grad();
      Values expected(static_cast<std::size_t>(leaf.numel()), 0.0);
      const Tensor inner = dice() % 2 == 0 ? leaf : op::mul(leaf, 1.0);
      Tensor loss = zeros({}, dtype);
      const int parts = 1 + static_cast<int>(dice() % 5);
      for (int part = 0; part < parts; ++part) {
        Numbered pair{inner, counted(shape)};
        for (int depth = 1 + static_cast<int>(dice() % 4); depth > 0; --depth)
          if (pair.x.rank() < 7) pair = viewed(dice, pair);
        const double weight = 1 + static_cast<double>(dice() % 8);
        loss = op::add(loss, op::sum(op::mul(pair.x, weight)));
        for (const double number : pair.number.values()) expected[static_cast<std::size_t>(number)] += weight;
      }
      loss.backward();
      REQUIRE(leaf.grad().values() == expected);
      REQUIRE(leaf.grad().is_contiguous());
    }
  }
}

TEST_CASE("slices: parts meet whole gradients, other backwards and other handles", "[autograd]") {
  Tensor x = counted({3, 2}).set_requires_grad();
  op::add(op::sum(op::mul(x, x[0])), op::sum(x.slice(0, 1, 3))).backward();
  // x[i][j] x[0][j] and x[1][j] + x[2][j]: of row 0 its own factor and the sum of the column.
  CHECK(x.grad().values() == Values{0 + 0 + 2 + 4, 1 + 1 + 3 + 5, 0 + 1, 1 + 1, 0 + 1, 1 + 1});

  const Tensor before = x.grad();
  const Values kept = before.values();
  op::sum(x[1]).backward();
  CHECK(before.values() == kept);
  CHECK(x.grad().values() == Values{kept[0], kept[1], kept[2] + 1, kept[3] + 1, kept[4], kept[5]});

  Tensor y = counted({4}).set_requires_grad();
  const Tensor loss = op::add(op::sum(op::mul(y.slice(0, 0, 3), 2.0)), op::sum(op::mul(y.slice(0, 1, 4), 3.0)));
  loss.backward({.retain_graph = true});
  CHECK(y.grad().values() == Values{2, 5, 5, 3});
  loss.backward();
  CHECK(y.grad().values() == Values{4, 10, 10, 6});
  CHECK_THROWS_AS(loss.backward(), AutogradError);

  // Nothing of a tensor, and what a part of nothing leads to.
  Tensor z = counted({4}).set_requires_grad();
  op::sum(z.slice(0, 2, 2)).backward();
  CHECK(z.grad().values() == Values{0, 0, 0, 0});
  z.zero_grad();
  op::sum(op::mul(z, 1.0).slice(0, 4)).backward();
  CHECK(z.grad().values() == Values{0, 0, 0, 0});
}

TEST_CASE("slices: parts are added in the order in which backward meets them", "[autograd]") {
  // The later operator comes first; floats tell the order.
  Tensor x = zeros({2}).set_requires_grad();
  const Tensor first = op::mul(x.slice(0, 0, 1), 1e8), second = op::mul(x.slice(0, 0, 1), 1.0),
               third = op::mul(x.slice(0, 0, 2), -1e8);
  op::add(op::add(op::sum(third), op::sum(first)), op::sum(second)).backward();
  CHECK(x.grad().values() == Values{static_cast<double>((-1e8F + 1.0F) + 1e8F), -1e8});
  // Sixteen bits are summed in float32 behind an operator, and rounded once.
  Tensor half = zeros({1}, DType::bfloat16).set_requires_grad();
  const Tensor inner = op::mul(half, 1.0);
  Tensor sum = zeros({}, DType::bfloat16);
  for (int i = 0; i < 3; ++i) sum = op::add(sum, op::sum(op::mul(inner.slice(0, 0, 1), i == 0 ? 256.0 : 1.0)));
  sum.backward();
  CHECK(half.grad().values() == Values{258});
}

TEST_CASE("slices: a chain of 100,000 views and operators needs no deep stack", "[autograd]") {
  Tensor x = counted({2, 2}).set_requires_grad();
  Tensor y = x;
  for (int i = 0; i < 50000; ++i) y = i % 2 == 0 ? y.transpose(0, 1) : op::mul(y, 1.0);
  op::sum(y[0]).backward();
  CHECK(x.grad().values() == Values{1, 1, 0, 0});
  y = x;
  for (int i = 0; i < 50000; ++i) y = y.slice(0, 0, 2).transpose(0, 1);
  op::sum(y).backward();
  CHECK(x.grad().values() == Values{2, 2, 1, 1});
}

TEST_CASE("slices: all parts of a tensor give it their gradients at once", "[autograd]") {
  Tensor x = counted({2, 6}).set_requires_grad();
  const auto weighted = [](const std::vector<Tensor>& parts) {
    Tensor sum;
    double weight = 1;
    for (const Tensor& part : parts) {
      const Tensor one = op::sum(op::mul(part, weight++));
      sum = sum.defined() ? op::add(sum, one) : one;
    }
    return sum;
  };
  const auto gradient = [&](const std::vector<Tensor>& parts) {
    x.zero_grad();
    const Profile profile;
    weighted(parts).backward();
    CHECK(calls(profile, "fill") <= 1);  // of the gradient that every backward begins with
    return x.grad().values();
  };
  CHECK(gradient(op::split(x, {1, 2, 3}, 1)) == Values{1, 2, 2, 3, 3, 3, 1, 2, 2, 3, 3, 3});
  CHECK(gradient(op::chunk(x, 4, 1)) == Values{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
  CHECK(gradient(op::unbind(x)) == Values{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});
  CHECK(gradient(op::unbind(x, -1)) == Values{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(gradient(op::unbind(x.transpose(0, 1), 1)) == Values{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});

  // Parts that lead nowhere, a part of a part, one part used twice.
  x.zero_grad();
  const std::vector<Tensor> halves = op::chunk(op::mul(x, 1.0), 2, 1);
  op::add(op::sum(halves[1][0]), op::sum(op::mul(halves[1], 2.0))).backward();
  CHECK(x.grad().values() == Values{0, 0, 0, 3, 3, 3, 0, 0, 0, 2, 2, 2});

  // One backward for each part.
  x.zero_grad();
  for (const Tensor& row : op::unbind(x)) op::sum(op::mul(row, row)).backward();
  CHECK(x.grad().values() == Values{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22});
}

TEST_CASE("slices: chunk and unbind cut as their pages say", "[autograd]") {
  const Tensor x = counted({7, 2});
  const auto sizes = [&](std::int64_t count) {
    std::vector<std::int64_t> all;
    for (const Tensor& part : op::chunk(x, count)) all.push_back(part.size(0));
    return all;
  };
  CHECK(sizes(1) == std::vector<std::int64_t>{7});
  CHECK(sizes(3) == std::vector<std::int64_t>{3, 3, 1});
  CHECK(sizes(4) == std::vector<std::int64_t>{2, 2, 2, 1});
  CHECK(sizes(5) == std::vector<std::int64_t>{2, 2, 2, 1});
  CHECK(sizes(100) == std::vector<std::int64_t>(7, 1));
  CHECK(op::chunk(zeros({0, 3}), 4).size() == 1);
  CHECK(op::unbind(zeros({0, 3})).empty());
  CHECK(op::unbind(zeros({0, 3}), 1).size() == 3);
  CHECK(op::unbind(x, 1)[1].values() == Values{1, 3, 5, 7, 9, 11, 13});
  CHECK(&op::unbind(x)[3].storage() == &x.storage());
  CHECK_THROWS_AS(op::chunk(x, 0), ShapeError);
  CHECK_THROWS_AS(op::chunk(x, 2, 2), ShapeError);
  CHECK_THROWS_AS(op::chunk(Tensor(), 2), Error);
  CHECK_THROWS_AS(op::unbind(Tensor()), Error);
  CHECK_THROWS_AS(op::unbind(zeros({})), ShapeError);
}

TEST_CASE("slices: a recorded step of slices does what it does without a recording", "[autograd]") {
  const auto train = [](const char* name, bool stepped) {
    const Device device(name);
    Tensor x = full({6, 4}, 0.5).set_requires_grad(), w = full({4}, 0.25).set_requires_grad();
    const auto work = [&](const Tensor& batch) {
      x.zero_grad();
      const Tensor all = op::mul(x, batch);
      Tensor state = op::mul(w, 0.5);
      for (std::int64_t t = 0; t < 6; ++t) state = op::tanh(op::add(op::mul(state, all[t]), x[5 - t]));
      for (const Tensor& part : op::chunk(all, 3)) state = op::add(state, op::sum(part, {0}));
      const Tensor loss = op::sum(op::square(state));
      loss.backward();
      const NoGrad no_grad;
      x -= x.grad() * 0.01;
      w -= w.grad() * 0.01;
      return loss;
    };
    Step step{work};
    Values seen;
    for (int i = 0; i < 6; ++i) {
      const Tensor batch = full({6, 4}, 0.1 * (i + 1));
      seen.push_back((stepped ? step(batch) : work(batch)).item());
    }
    for (const Tensor& one : {x, w, x.grad(), w.grad()})
      for (const double value : one.values()) seen.push_back(value);
    return seen;
  };
  const Values expected = train("sequential", false);
  CHECK(train("sequential", true) == expected);
  CHECK(train("debug", false) == expected);
  CHECK(train("debug", true) == expected);
}

TEST_CASE("slices: a view without a name is changed in place", "[autograd]") {
  Tensor x = counted({3, 2});
  x.slice(0, 1, 3) += ones({2, 2}, DType::float64);
  x[0] -= 5;
  x.transpose(0, 1)[1] *= full({3}, 2, DType::float64);
  x.slice(1, 0, 1) /= 2;
  CHECK(x.values() == Values{-2.5, -8, 1.5, 8, 2.5, 12});
  CHECK_THROWS_AS(x[0] += zeros({3}, DType::float64), ShapeError);
  CHECK_THROWS_AS(x[0] += zeros({2, 2}, DType::float64), ShapeError);
  // Where it would be recorded the sum would be lost.
  Tensor w = ones({2}, DType::float64).set_requires_grad();
  CHECK_THROWS_AS(x[0] += w, AutogradError);
  CHECK_THROWS_AS(w.slice(0, 0, 1) += 1, AutogradError);
  const NoGrad no_grad;
  w.slice(0, 0, 1) += 1;
  CHECK(w.values() == Values{2, 1});
}

TEST_CASE("ownership: a leaf's gradient can be read and changed whatever led to it", "[autograd]") {
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    const auto usable = [](const Tensor& leaf) {
      REQUIRE(leaf.grad().defined());
      CHECK(leaf.grad().is_contiguous());
      CHECK_NOTHROW(leaf.grad().read<float>());
      CHECK_NOTHROW(Tensor(leaf.grad()).fill_(0));
    };
    Tensor x = ones({2}).set_requires_grad(), y = ones({1}).set_requires_grad();
    const Tensor w = tensor<float>({2, 3});
    op::sum(op::mul(op::cat({op::sum(x, {0}, true), y}, 0), w)).backward();
    CHECK(x.grad().values() == Values{2, 2});
    usable(x);
    usable(y);
    Tensor matrix = ones({2, 3}).set_requires_grad();
    op::sum(op::mul(matrix.t(), ones({3, 2}))).backward();
    usable(matrix);
    op::sum(op::mul(matrix.t(), ones({3, 2}))).backward();
    usable(matrix);
    Tensor image = ones({2, 8, 6, 6}).set_requires_grad(), weight = ones({8, 8, 3, 3}).set_requires_grad();
    op::sum(op::conv2d(image, weight)).backward();
    usable(image);
    usable(weight);
  }
}

TEST_CASE("backward: a leaf behind a gradient that is none is reported as soon as the others are complete",
          "[autograd]") {
  // `cut` has no gradient for its input; what is behind it must wait for nothing.
  Tensor x = tensor<double>({1}).set_requires_grad(), z = tensor<double>({1}).set_requires_grad();
  const Tensor inner = op::mul(op::mul(x, 2.0), 1.0);
  Tensor out = tensor<double>({3});
  autograd::record("cut", out, {inner}, [](const Tensor&) { return autograd::Gradients{Tensor()}; });
  std::vector<bool> reported;
  op::add(op::mul(z, 1.0), op::add(op::mul(x, 5.0), out)).backward({.complete = [&](const Tensor& leaf) {
    reported.push_back(leaf.is(x));
  }});
  CHECK(std::ranges::count(reported, true) == 1);
  CHECK(reported.size() == 2);
  CHECK(x.grad().values() == Values{5});
}
