// Random programs over views that may be empty, and views with gaps: the debug device accepts what the sequential mode
// computes, with the same bits. TERN_TEST_PROGRAMS is their number.

#include <cmath>
#include <cstdlib>
#include <random>

#include "support/catch.hpp"
#include "support/environment.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

/// One program: tensors of up to three dimensions of 0 to 3, views of them, operators on those, and their gradients.
class ViewProgram {
 public:
  explicit ViewProgram(unsigned seed) : dice_(seed) {}

  /// What it computes; an error is a number of its own.
  std::vector<Values> run() {
    std::vector<Values> seen;
    for (int i = 0; i < 2; ++i) leaves_.push_back(numbers(shape(1)).set_requires_grad());
    tensors_ = leaves_;
    for (int steps = 2 + roll(5); steps > 0; --steps) {
      try {
        Tensor next = roll(2) == 0 ? view(any()) : result(any());
        seen.push_back(next.values());
        if (is_floating(next.dtype())) tensors_.push_back(next);
      } catch (const ShapeError&) {
        seen.push_back({-1e9});
      } catch (const NumericError&) {
        seen.push_back({-2e9});
      }
    }
    const Tensor& last = tensors_.back();
    if (last.requires_grad()) {
      op::sum(op::mul(last, 2.0)).backward();
      for (const Tensor& leaf : leaves_) seen.push_back(leaf.grad().defined() ? leaf.grad().values() : Values{});
    }
    return seen;
  }

 private:
  int roll(int sides) { return static_cast<int>(dice_() % static_cast<unsigned>(sides)); }
  Tensor any() { return tensors_[static_cast<std::size_t>(roll(static_cast<int>(tensors_.size())))]; }
  Shape shape(int least_rank = 0) {
    Shape made;
    for (int rank = least_rank + roll(4 - least_rank); rank > 0; --rank) made.push_back(roll(4));
    return made;
  }
  Tensor numbers(const Shape& of) {
    Tensor made(of);
    for (float& value : made.write<float>()) value = static_cast<float>(roll(33) - 16) / 8;
    return made;
  }
  std::int64_t dim_of(const Tensor& x) { return x.rank() == 0 ? 0 : roll(x.rank()); }

  Tensor view(const Tensor& x) {
    const std::int64_t dim = dim_of(x), begin = roll(4), end = begin + roll(3);
    switch (roll(6)) {
      case 0:
      case 1:
        return x.slice(dim, begin, end, 1 + roll(3));
      case 2:
        return x.rank() < 2 ? x.unsqueeze(0) : x.transpose(0, x.rank() - 1);
      case 3:
        return x.rank() == 0 ? x : x[roll(3)];
      case 4:
        return x.rank() > 5 ? x : x.unsqueeze(0).expand([&] {
          Shape larger{roll(3)};
          for (const std::int64_t size : x.shape()) larger.push_back(size);
          return larger;
        }());
      default:
        return x.slice(dim, -1, -5, -1);
    }
  }

  Tensor result(const Tensor& x) {
    const std::int64_t dim = dim_of(x);
    switch (roll(26)) {
      case 0:
        return op::neg(x);
      case 1:
        return op::tanh(x);
      case 2:
        return op::relu(x);
      case 3:
        return op::add(x, any());
      case 4:
        return op::mul(x, any());
      case 5:
        return op::maximum(x, any());
      case 6:
        return op::sum(x, dim);
      case 7:
        return op::prod(x, dim);
      case 8:
        return op::max(x, dim);
      case 9:
        return op::softmax(x, dim);
      case 10:
        return op::log_softmax(x, dim);
      case 11:
        return op::cumsum(x, dim);
      case 12:
        return op::cat({x, x}, dim);
      case 13:
        return op::stack({x, x}, dim);
      case 14:
        return op::flip(x, dim);
      case 15:
        return op::pad(x, {{dim, roll(3), roll(2)}}, 1.5);
      case 16:
        return op::pad(x, {{dim, roll(2), roll(2)}}, op::PadMode::replicate);
      case 17:
        return x.clone();
      case 18:
        return x.to(DType::float64).to(DType::float32);
      case 19:
        return op::tril(x, roll(3) - 1);
      case 20:
        return op::masked_fill(x, op::greater(x, 0.0), -1);
      case 21:
        return op::matmul(x, x.t());
      case 22:
        return op::index_select(x, dim, zeros({roll(3)}, DType::int64));
      case 23:
        return op::sort(x, dim).values;
      case 24:
        return op::var(x, dim, 0);
      default:
        return op::layer_norm(x, {x.size(-1)});
    }
  }

  std::mt19937 dice_;
  std::vector<Tensor> leaves_, tensors_;
};

bool same(const std::vector<Values>& a, const std::vector<Values>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (std::size_t k = 0; k < a[i].size(); ++k)
      if (a[i][k] != b[i][k] && !(std::isnan(a[i][k]) && std::isnan(b[i][k]))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("views: random programs over empty ones do on the debug device what they do in sequence", "[device][views]") {
  const auto count = static_cast<unsigned>(testing::number_from("TERN_TEST_PROGRAMS", 2000));
  for (unsigned seed = 0; seed < count; ++seed) {
    INFO("program " << seed);
    std::vector<std::vector<Values>> seen;
    for (const char* name : {"sequential", "debug"}) {
      Device device(name);
      seen.push_back(ViewProgram(seed).run());
      device.synchronize();
    }
    if (!same(seen[0], seen[1])) FAIL("the debug device computes something else");
  }
}

TEST_CASE("views: what is verified on the debug device may have gaps", "[device][views]") {
  const char* const wanted = std::getenv("TERN_TEST_PROGRAMS");
  const unsigned count = wanted == nullptr ? 300 : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10)) / 10;
  Device device("debug", {.verify = true});
  Tensor x({4, 6});
  x.slice(1, 0, 4, 2).fill_(1);  // nothing writes the columns between
  CHECK(op::sum(x.slice(1, 0, 4, 2)).item() == 8);
  CHECK(op::cumsum(x.slice(1, 0, 4, 2), 1).values() == Values{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(op::neg(x.slice(1, 0, 4, 2).t()).values() == Values(8, -1));
  for (unsigned seed = 0; seed < count; ++seed) {
    INFO("program " << seed);
    CHECK_NOTHROW(ViewProgram(seed).run());
    device.synchronize();
  }
}

TEST_CASE("views: an empty one has no address outside its storage", "[device][views]") {
  const Tensor none = zeros({0, 3, 4}).slice(1, 1, 3), all = zeros({3, 4});
  CHECK(none.offset() == 0);
  CHECK(all.slice(0, 2, 3).slice(1, 4).offset() == 0);
  for (const char* name : {"sequential", "vectorized", "debug"}) {
    Device device(name);
    CHECK(op::exp(none).numel() == 0);
    CHECK(op::neg(zeros({3, 0}).slice(0, 1, 3)).shape() == Shape{2, 0});
    CHECK(op::prod(zeros({2, 1, 0}), 0).shape() == Shape{1, 0});
    CHECK_NOTHROW(device.synchronize());
  }
}
