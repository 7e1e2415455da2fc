#include "tern/tensor/tensor.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;

TEST_CASE("tensor: creation", "[core]") {
  CHECK(zeros({2, 2}).values() == std::vector<double>(4, 0));
  CHECK(ones({3}, DType::uint8).values() == std::vector<double>(3, 1));
  CHECK(full({2}, -2.5, DType::float64).values() == std::vector<double>{-2.5, -2.5});
  CHECK(arange(0, 5).values() == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(arange(1, 2, 0.25, DType::float32).values() == std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(arange(3, 3).numel() == 0);
  CHECK(arange(3, 0, -1).values() == std::vector<double>{3, 2, 1});
  CHECK(eye(2).values() == std::vector<double>{1, 0, 0, 1});
  CHECK(eye(0).numel() == 0);
  CHECK(tensor<float>({1, 2, 3}).shape() == Shape{3});
  CHECK(tensor<double>({1, 2, 3, 4}, {2, 2}).dtype() == DType::float64);
  CHECK(tensor<bool>({true, false}).dtype() == DType::boolean);
  CHECK(scalar(2.5).rank() == 0);
  CHECK(scalar(2.5).item() == 2.5);
  CHECK(scalar<std::int64_t>(7).item<int>() == 7);
  CHECK_THROWS_WITH(tensor<float>({1, 2, 3}, {2, 2}), "tensor: 3 values cannot fill [2,2]");
  CHECK_THROWS_AS(arange(0, 5, 0), Error);
}

TEST_CASE("tensor: an undefined one", "[core]") {
  const Tensor none;
  CHECK(!none.defined());
  STATIC_REQUIRE(!std::is_constructible_v<bool, Tensor>);  // `if (x > 0)` is a mistake
  CHECK(message(none) == "undefined tensor");
  CHECK(!none.requires_grad());
  CHECK(!none.detach().defined());
}

TEST_CASE("tensor: values on the host", "[core]") {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(x.transpose(0, 1).to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(x.slice(1, 0, 3, 2).values() == std::vector<double>{1, 3, 4, 6});
  CHECK_THROWS_AS(x.to_vector<double>(), DTypeError);
  CHECK_THROWS_AS(x.read<std::int32_t>(), DTypeError);
  CHECK_THROWS_AS(x.transpose(0, 1).read<float>(), ShapeError);
  CHECK_THROWS_AS(x.item(), ShapeError);
  CHECK(x.size(-1) == 3);
  CHECK_THROWS_AS(x.size(2), ShapeError);
  CHECK(x.slice(0, 1, 2).read<float>()[0] == 4);
  CHECK(ones({1, 3, 1}).squeeze(0).shape() == Shape{3, 1});
  CHECK(ones({1, 3, 1}).squeeze(-1).shape() == Shape{1, 3});
  const std::shared_ptr<Storage> six = x.shared_storage();
  CHECK(Tensor(six, DType::float32, {2, 3}, {3, -1}, 2).values() == std::vector<double>{3, 2, 1, 6, 5, 4});
  CHECK_THROWS_AS(Tensor(six, DType::float32, {2, 3}, {3, -1}, 1), ShapeError);
  CHECK_THROWS_AS(Tensor(six, DType::float32, {2, 3}, {3, -1}, 3), ShapeError);
}

TEST_CASE("tensor: views share elements", "[core]") {
  Tensor x = arange(0, 12, 1, DType::float32).reshape({3, 4});
  const Tensor views[]{x.reshape({12}), x.slice(0, 1, 3), x.transpose(0, 1),   x.permute({1, 0}),
                       x.flatten(),     x.unsqueeze(0),   x.slice(1, 0, 4, 2), x.unsqueeze(2).expand({3, 4, 5})};
  for (const Tensor& view : views) CHECK(&view.storage() == &x.storage());
  x.fill_(7);
  for (const Tensor& view : views)
    CHECK(view.values() == std::vector<double>(static_cast<std::size_t>(view.numel()), 7));
  Tensor row = x.slice(0, 1, 2);
  row.fill_(1);
  CHECK(x.values() == std::vector<double>{7, 7, 7, 7, 1, 1, 1, 1, 7, 7, 7, 7});
  Tensor column = x.slice(1, 3, 4).squeeze(1);
  CHECK(column.shape() == Shape{3});
  column.copy_(tensor<float>({20, 21, 22}));
  CHECK(x.values() == std::vector<double>{7, 7, 7, 20, 1, 1, 1, 21, 7, 7, 7, 22});
}

TEST_CASE("tensor: what is a copy and what is not", "[core]") {
  const Tensor x = arange(0, 6, 1, DType::float32).reshape({2, 3});
  CHECK(x.contiguous().is(x));
  CHECK(!x.transpose(0, 1).contiguous().is(x));
  CHECK(&x.transpose(0, 1).contiguous().storage() != &x.storage());
  CHECK(&x.clone().storage() != &x.storage());
  CHECK(x.to(DType::float32).is(x));
  CHECK(&x.to(DType::float64).storage() != &x.storage());
  CHECK(&x.detach().storage() == &x.storage());
  // A shape that the strides cannot express is copied; one that they can is not.
  CHECK(&x.transpose(0, 1).reshape({6}).storage() != &x.storage());
  const Tensor y = arange(0, 24, 1, DType::float32).reshape({2, 3, 4});
  CHECK(&y.slice(0, 0, 1).reshape({3, 2, 2}).storage() == &y.storage());
  CHECK(&y.transpose(0, 1).reshape({3, 2, 2, 2}).storage() == &y.storage());
  CHECK(y.transpose(0, 1).reshape({3, 2, 2, 2}).values() ==
        y.transpose(0, 1).contiguous().reshape({3, 2, 2, 2}).values());
  const Tensor copy = x;
  CHECK(copy.is(x));
}

TEST_CASE("tensor: every reshape of a strided tensor has the right elements", "[core]") {
  const Tensor base = arange(0, 120, 1, DType::float32).reshape({2, 3, 4, 5});
  const std::vector<Tensor> views{base,
                                  base.permute({0, 2, 1, 3}),
                                  base.transpose(0, 3),
                                  base.slice(2, 0, 4, 2),
                                  base.slice(3, 1, 4),
                                  base.slice(1, 0, 1).expand({2, 3, 4, 5})};
  for (const Tensor& view : views) {
    const std::int64_t n = view.numel();
    const std::vector<double> expected = view.contiguous().values();
    for (const Shape& shape : {Shape{n}, Shape{1, n}, Shape{n, 1}, Shape{2, n / 2}, Shape{n / 2, 2}, Shape{6, n / 6},
                               Shape{2, 3, n / 6}, Shape{n / 4, 2, 1, 2}, Shape{2, -1, 2}}) {
      INFO(message(view.shape(), " ", view.strides(), " to ", shape));
      CHECK(view.reshape(shape).values() == expected);
    }
  }
}

TEST_CASE("tensor: in-place changes of views and dtypes", "[core]") {
  Tensor x = zeros({2, 3});
  x.copy_(tensor<std::int32_t>({1, 2, 3}));
  CHECK(x.values() == std::vector<double>{1, 2, 3, 1, 2, 3});
  Tensor bytes = zeros({3}, DType::uint8);
  bytes.copy_(tensor<float>({0.5f, 254.9f, 300}));
  CHECK(bytes.values() == std::vector<double>{0, 254, 255});
  CHECK(x.copy_(x).values() == std::vector<double>{1, 2, 3, 1, 2, 3});
  // A source that overlaps its target.
  Tensor line = arange(0, 6, 1, DType::float32);
  line.slice(0, 1, 6).copy_(line.slice(0, 0, 5));
  CHECK(line.values() == std::vector<double>{0, 0, 1, 2, 3, 4});
  Tensor square = arange(0, 4, 1, DType::float32).reshape({2, 2});
  square.copy_(square.transpose(0, 1));
  CHECK(square.values() == std::vector<double>{0, 2, 1, 3});
}

TEST_CASE("tensor: a version for every change", "[core]") {
  Tensor x = zeros({2, 3});
  const Storage& storage = x.storage();
  std::uint64_t version = storage.version();
  const auto grew = [&] {
    const bool result = storage.version() > version;
    version = storage.version();
    return result;
  };
  x.fill_(1);
  CHECK(grew());
  x.slice(0, 0, 1).fill_(2);
  CHECK(grew());
  x.copy_(ones({3}));
  CHECK(grew());
  x.write<float>()[0] = 3;
  CHECK(grew());
  (void)x.values();
  (void)operators::add(x, x);
  CHECK(!grew());
}

TEST_CASE("tensor: gradients are for floating dtypes", "[core]") {
  CHECK(ones({2}).set_requires_grad().requires_grad());
  CHECK(!ones({2}).set_requires_grad(false).requires_grad());
  CHECK_THROWS_AS(ones({2}, DType::int64).set_requires_grad(), DTypeError);
  Tensor x = ones({2});
  CHECK(!x.grad().defined());
  x.set_grad(ones({2}));
  CHECK(x.grad().defined());
  CHECK_THROWS_AS(x.set_grad(ones({3})), ShapeError);
  x.set_grad({});
  CHECK(!x.grad().defined());
}
