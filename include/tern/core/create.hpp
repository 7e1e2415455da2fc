#pragma once
// New tensors. Values are made on the host and move when they are first used; random ones come from Philox streams, so
// the same seed gives the same bits whatever the mode.

#include <memory>

#include "tern/core/random.hpp"
#include "tern/core/tensor.hpp"

namespace tern {

Tensor empty(const Shape& shape, DType dtype = DType::float32);
Tensor zeros(const Shape& shape, DType dtype = DType::float32);
Tensor ones(const Shape& shape, DType dtype = DType::float32);
Tensor full(const Shape& shape, double value, DType dtype = DType::float32);
/// begin, begin + step, ... below end.
Tensor arange(double begin, double end, double step = 1, DType dtype = DType::int64);
Tensor eye(std::int64_t n, DType dtype = DType::float32);

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
/// A rank-0 tensor.
template <class T>
Tensor scalar(T value) {
  return tensor({value}, Shape{});
}

/// A seeded source of Philox streams: every use takes the next stream. Copy it to repeat its numbers; its whole state
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
    if (detail::listener != nullptr) [[unlikely]]
      detail::listener->draws(*this);
    return {seed_, position_++, nullptr};
  }
  void skip(std::uint64_t streams) { position_ += streams; }
  /// Expires with this generator; a copy has a life of its own.
  std::weak_ptr<const void> life() {
    if (life_ == nullptr) life_ = std::make_shared<char>();
    return life_;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
  std::shared_ptr<const void> life_;
};

/// Uniform in [low, high).
Tensor rand(const Shape& shape, Generator& generator, double low = 0, double high = 1, DType dtype = DType::float32);
/// Normal, by Box and Muller's transform in double precision.
Tensor randn(const Shape& shape, Generator& generator, double mean = 0, double deviation = 1,
             DType dtype = DType::float32);
/// Integers in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator,
               DType dtype = DType::int64);
/// A permutation of 0 ... n - 1, by Fisher and Yates' shuffle.
Tensor randperm(std::int64_t n, Generator& generator);

/// The generator of the calling thread that dropout draws from; `manual_seed` restarts it.
Generator& default_generator();
void manual_seed(std::uint64_t seed);

}  // namespace tern
