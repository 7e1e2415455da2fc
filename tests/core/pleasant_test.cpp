// A tensor that is pleasant to hold: indexing, walking, methods, signs that compare and change in place.

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("tensor: parts along the first dimension", "[core]") {
  const Tensor x = arange(0, 12, 1, DType::float32).reshape({3, 4});
  CHECK(x[1].values() == Values{4, 5, 6, 7});
  CHECK(x[-1][-2].item() == 10);
  CHECK(&x[1].storage() == &x.storage());
  CHECK_THROWS_WITH(x[3], "tensor: [3] is outside the 3 parts of [3,4]");
  CHECK_THROWS_AS(x[-4], ShapeError);
  CHECK_THROWS_AS(scalar(1.0)[0], ShapeError);
  Values firsts;
  for (const Tensor& row : x) firsts.push_back(row[0].item());
  CHECK(firsts == Values{0, 4, 8});
  for (const Tensor& row : zeros({0, 4})) FAIL("no rows, and one of " << row.shape());
  CHECK_THROWS_AS(scalar(1.0).begin(), ShapeError);
  Tensor y = zeros({3, 2});
  for (Tensor row : y) row.fill_(7);
  CHECK(y.values() == Values(6, 7));
}

TEST_CASE("tensor: rows in braces", "[core]") {
  const Tensor x = tensor<float>({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.dtype() == DType::float32);
  CHECK(x.values() == Values{1, 2, 3, 4, 5, 6});
  CHECK(tensor<std::int64_t>({{7, 8}}).shape() == Shape{1, 2});
  CHECK(tensor<bool>({{true, false}, {false, true}}).values() == Values{1, 0, 0, 1});
  CHECK(tensor({{1.5, 2.5}, {3.5, 4.5}}).dtype() == DType::float64);
  CHECK_THROWS_WITH(tensor<float>({{1, 2}, {3, 4, 5}}), "tensor: row 1 has 3 elements, and row 0 has 2");
}

TEST_CASE("tensor: what is given no generator draws from the thread's", "[core]") {
  manual_seed(5);
  const Values drawn = randn({3}).values(), further = rand({3}).values(), places = randperm(9).values();
  Generator same{5};
  CHECK(drawn == randn({3}, same).values());
  CHECK(further == rand({3}, same).values());
  CHECK(places == randperm(9, same).values());
  CHECK(randint(0, 9, {4}).values() == randint(0, 9, {4}, same).values());
  CHECK(default_generator().position() == same.position());
}

TEST_CASE("tensor: a number may stand on either side, and parts are joined along the first dimension", "[core]") {
  const Tensor x = tensor<float>({1, -2});
  CHECK(operators::add(3, x).values() == Values{4, 1});
  CHECK(operators::mul(3, x).values() == Values{3, -6});
  CHECK(operators::maximum(0, x).values() == Values{1, 0});
  CHECK(operators::minimum(0, x).values() == Values{0, -2});
  CHECK(operators::cat({x, x}).values() == Values{1, -2, 1, -2});
  CHECK(operators::stack({x, x}).shape() == Shape{2, 2});
}

TEST_CASE("tensor: slices end where the tensor does, and walk backwards", "[core]") {
  const Tensor x = arange(0, 6);
  CHECK(x.slice(0, 4).values() == Values{4, 5});
  CHECK(x.slice(0, -2).values() == Values{4, 5});
  CHECK(x.slice(0, 3, 100).values() == Values{3, 4, 5});
  CHECK(x.slice(0, 5, 2).numel() == 0);
  CHECK(x.slice(0, -1, -100, -2).values() == Values{5, 3, 1});
  CHECK(x.slice(0, 4, 1, -1).values() == Values{4, 3, 2});
  CHECK(x.flip(0).values() == Values{5, 4, 3, 2, 1, 0});
  CHECK_THROWS_AS(x.slice(0, 0, 3, 0), ShapeError);
}

TEST_CASE("tensor: sizes of 1 and -1", "[core]") {
  CHECK(ones({1, 3, 1, 2}).squeeze().shape() == Shape{3, 2});
  CHECK(ones({1, 1}).squeeze().shape() == Shape{});
  CHECK(ones({3, 1}).expand({-1, 4}).shape() == Shape{3, 4});
  CHECK(ones({3, 1}).expand({2, -1, 5}).shape() == Shape{2, 3, 5});
  CHECK_THROWS_AS(ones({3}).expand({-1, 3}), ShapeError);
  const Tensor matrix = arange(0, 6).reshape({2, 3});
  CHECK(matrix.t().values() == Values{0, 3, 1, 4, 2, 5});
  CHECK(ones({3}).t().shape() == Shape{3});
  CHECK_THROWS_AS(ones({1, 2, 3}).t(), ShapeError);
}

TEST_CASE("tensor: operators as methods", "[core]") {
  const Tensor x = tensor<float>({1, -2, 3, -4, 5, -6}, {2, 3});
  CHECK(x.sum().item() == -3);
  CHECK(x.sum(1).values() == Values{2, -5});
  CHECK(x.sum({0, 1}, true).shape() == Shape{1, 1});
  CHECK(x.mean(0).values() == Values{-1.5, 1.5, -1.5});
  CHECK(x.max(-1).values() == Values{3, 5});
  CHECK(x.argmax().values() == Values{2, 1});
  CHECK(x.relu().values() == Values{1, 0, 3, 0, 5, 0});
  CHECK(x.matmul(x.t()).values() == Values{14, -32, -32, 77});
  CHECK(x.abs().cumsum(1).values() == Values{1, 3, 6, 4, 9, 15});
  CHECK(x.prod(1).values() == Values{-6, 120});
  CHECK(x.argsort(1, true).values() == Values{2, 0, 1, 1, 0, 2});
  CHECK(x.clamp(-1, 2).pow(2).values() == Values{1, 1, 4, 1, 4, 1});
  CHECK(x.masked_fill(x < 0, 9).values() == Values{1, 9, 3, 9, 5, 9});
  CHECK(x.index_select(1, tensor<std::int64_t>({2})).values() == Values{3, -6});
  CHECK((x > 0).any(1).values() == Values{1, 1});
}

TEST_CASE("tensor: signs that compare", "[core]") {
  const Tensor x = tensor<float>({1, 2, 3}), y = tensor<float>({3, 2, 1});
  CHECK((x == y).values() == Values{0, 1, 0});
  CHECK((x != y).values() == Values{1, 0, 1});
  CHECK((x < y).values() == Values{1, 0, 0});
  CHECK((x <= y).values() == Values{1, 1, 0});
  CHECK((x > 2).values() == Values{0, 0, 1});
  CHECK((2 >= x).values() == Values{1, 1, 0});
  CHECK((x == 2).all().item<bool>() == false);
  CHECK((x != 2).dtype() == DType::boolean);
}

TEST_CASE("tensor: changes by +=, -=, *= and /=", "[core]") {
  Tensor x = tensor<float>({1, 2, 3, 4}, {2, 2});
  const Tensor other = x;
  Tensor row = x[1];
  x += 1;
  x *= tensor<float>({10, 100}, {2});
  CHECK(other.values() == Values{20, 300, 40, 500});
  row -= 40;
  row /= 2;
  CHECK(x.values() == Values{20, 300, 0, 230});
  CHECK_THROWS_WITH(row += ones({3, 2}), "+=: [2] cannot hold a result of [3,2]");
  // What is recorded is not overwritten.
  const Tensor weight = tensor<float>({2}).set_requires_grad();
  Tensor loss = zeros({1});
  const Tensor before = loss;
  loss += weight * 3;
  loss += weight * weight;
  CHECK(loss.item() == 10);
  CHECK(before.item() == 0);
  loss.backward();
  CHECK(weight.grad().item() == 7);
  Tensor leaf = weight;
  CHECK_THROWS_AS(leaf += 1, AutogradError);
  const NoGrad no_grad;
  leaf += 1;
  CHECK(weight.item() == 3);
}

TEST_CASE("tensor: new ones like others, and between two numbers", "[core]") {
  const Tensor x = ones({2, 3}, DType::float64);
  CHECK(zeros_like(x).values() == Values(6, 0));
  CHECK(ones_like(x, DType::int32).dtype() == DType::int32);
  CHECK(full_like(x, 2.5).dtype() == DType::float64);
  CHECK(empty_like(x).shape() == x.shape());
  CHECK(linspace(0, 1, 5).values() == Values{0, 0.25, 0.5, 0.75, 1});
  CHECK(linspace(3, -3, 4, DType::float64).values() == Values{3, 1, -1, -3});
  CHECK(linspace(2, 9, 1).values() == Values{2});
  CHECK(linspace(2, 9, 0).numel() == 0);
  CHECK_THROWS_AS(linspace(0, 1, -1), ShapeError);
  CHECK_THROWS_AS(linspace(0, 1, 3, DType::int64), DTypeError);
  CHECK(eye(2, 3).values() == Values{1, 0, 0, 0, 1, 0});
  Generator generator(5);
  const Tensor drawn = bernoulli(full({10000}, 0.25), generator);
  CHECK(std::abs(drawn.mean().item() - 0.25) < 0.02);
  CHECK((drawn * (1 - drawn)).sum().item() == 0);
  CHECK(bernoulli(tensor<float>({0, 1}), generator).values() == Values{0, 1});
  CHECK_THROWS_AS(bernoulli(full({2}, 1.5), generator), NumericError);
  CHECK(randn_like(x, generator).dtype() == DType::float64);
}
