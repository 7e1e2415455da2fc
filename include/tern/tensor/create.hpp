#pragma once
// New tensors. Values are made on the host and move when they are first used. Random values come from Philox streams,
// so one seed gives the same bits in every mode.

#include <memory>
#include <optional>

#include "tern/core/random.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

Tensor empty(const Shape& shape, DType dtype = DType::float32);
Tensor zeros(const Shape& shape, DType dtype = DType::float32);
Tensor ones(const Shape& shape, DType dtype = DType::float32);
/// `value` is converted by the rules of core/convert.hpp: full({2}, 300, DType::uint8) holds 255 twice.
Tensor full(const Shape& shape, Number value, DType dtype = DType::float32);
/// begin, begin + step, ... below end (above it when step is negative). Integers are exact, without a detour through
/// double. Throws ShapeError if a bound is not finite, or the step is 0 or not finite.
Tensor arange(Number begin, Number end, Number step = 1, DType dtype = DType::int64);
/// `count` equally spaced numbers from `begin` to `end`, both included. Throws DTypeError unless the dtype is floating,
/// and ShapeError for a negative count or a bound that is not finite.
Tensor linspace(double begin, double end, std::int64_t count, DType dtype = DType::float32);
/// 1 on the diagonal, else 0: [n, n] or [rows, columns].
Tensor eye(std::int64_t n, DType dtype = DType::float32);
Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype = DType::float32);

// A tensor with the shape of another one, and its dtype unless one is named.
Tensor empty_like(const Tensor& like, std::optional<DType> dtype = {});
Tensor zeros_like(const Tensor& like, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& like, std::optional<DType> dtype = {});
Tensor full_like(const Tensor& like, Number value, std::optional<DType> dtype = {});

/// A tensor of `values` in row-major order. Throws ShapeError when the count differs.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape) {
  expects<ShapeError>(element_count(shape) == static_cast<std::int64_t>(values.size()), "tensor: ", values.size(),
                      " values cannot fill ", shape);
  Tensor result(shape, dtype_of<T>);
  std::span<T> elements = result.write<T>();
  for (std::size_t i = 0; i < values.size(); ++i) elements[i] = values[i];
  return result;
}
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  return tensor(std::span<const T>(values), shape);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape) {
  return tensor(std::span<const T>(values.begin(), values.size()), shape);
}
template <class T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())});
}

namespace detail {
/// Throws ShapeError unless row `row` has as many elements as the first one.
void expect_even_row(std::size_t row, std::size_t elements, std::size_t first);
}  // namespace detail

/// A matrix, row by row: tensor<float>({{1, 2, 3}, {4, 5, 6}}) is [2, 3]. Throws ShapeError unless all rows have equal
/// length.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  Tensor result({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, dtype_of<T>);
  std::span<T> elements = result.write<T>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::initializer_list<T>& row = rows.begin()[i];
    detail::expect_even_row(i, row.size(), columns);
    for (std::size_t j = 0; j < columns; ++j) elements[i * columns + j] = row.begin()[j];
  }
  return result;
}
/// A rank-0 tensor.
template <class T>
Tensor scalar(T value) {
  return tensor({value}, Shape{});
}

/// A seeded source of Philox streams: every use takes the next stream. A copy repeats the same numbers. Its whole state
/// is two integers, so that a checkpoint can hold it.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  Generator(const Generator& other) : seed_(other.seed_), position_(other.position_) {}
  Generator& operator=(const Generator& other) {
    seed_ = other.seed_;
    position_ = other.position_;
    return *this;
  }
  ~Generator() = default;
  std::uint64_t seed() const { return seed_; }
  std::uint64_t position() const { return position_; }
  void set_position(std::uint64_t position) { position_ = position; }
  /// The key of the next stream.
  random::Key next() {
    if (detail::observer != nullptr) [[unlikely]]
      tell([&](Observer& observer) { observer.draws(*this); });
    return {seed_, position_++, nullptr};
  }
  void skip(std::uint64_t streams) { position_ += streams; }
  /// Expires with this generator; a copy has its own.
  std::weak_ptr<const void> life() {
    if (life_ == nullptr) life_ = std::make_shared<char>();
    return life_;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
  std::shared_ptr<const void> life_;
};

/// The generator of the calling thread. dropout, and every function without a generator argument, draws from it.
/// `manual_seed` restarts it.
Generator& default_generator();
void manual_seed(std::uint64_t seed);

// rand and randn need floating dtypes, randint integers; else DTypeError.
/// Uniform in [low, high); bounds and numbers are rounded to the dtype. `high` itself never occurs unless it equals
/// low. Throws NumericError unless low <= high and high - low is finite.
Tensor rand(const Shape& shape, Generator& generator = default_generator(), double low = 0, double high = 1,
            DType dtype = DType::float32);
/// Normal, by Box and Muller's transform in double precision.
Tensor randn(const Shape& shape, Generator& generator = default_generator(), double mean = 0, double deviation = 1,
             DType dtype = DType::float32);
/// Integers in [low, high), all equally likely. Throws NumericError if the dtype cannot represent all of them (uint8
/// beyond 255, float16 beyond 2048, ...), ShapeError if the range is empty.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator = default_generator(),
               DType dtype = DType::int64);
Tensor rand_like(const Tensor& like, Generator& generator = default_generator());
Tensor randn_like(const Tensor& like, Generator& generator = default_generator());
/// 1 with the probability of each element, else 0, in the dtype of `probabilities`. Throws NumericError for a
/// probability outside [0, 1].
Tensor bernoulli(const Tensor& probabilities, Generator& generator = default_generator());
/// A permutation of 0 ... n - 1, by Fisher and Yates' shuffle. Throws ShapeError for a negative n.
Tensor randperm(std::int64_t n, Generator& generator = default_generator());

}  // namespace tern
