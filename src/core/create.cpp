#include "tern/core/create.hpp"

#include <cmath>
#include <numbers>

namespace tern {

namespace {

// Calls f with a value of the element type; the elements are written on the host.
template <class F>
void visit_element_type(DType dtype, F f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::bfloat16:
      return f(BFloat16{});
    case DType::float16:
      return f(Float16{});
    case DType::int32:
      return f(std::int32_t{});
    case DType::int64:
      return f(std::int64_t{});
    case DType::uint8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
}

template <class T>
T to_element(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else
    return static_cast<T>(value);
}

// A tensor whose element i is value(i), a double; i rises from 0.
template <class Value>
Tensor generate(const Shape& shape, DType dtype, Value value) {
  Tensor result(shape, dtype);
  visit_element_type(dtype, [&]<class T>(T) {
    std::span<T> elements = result.write<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = to_element<T>(value(i));
  });
  return result;
}

std::uint32_t word(const random::Key& key, std::uint64_t index) { return random::word(key.seed, key.offset, index); }

// Uniform in [0, bound) without bias: Lemire's multiplication, drawing again in the rare rejected case.
std::uint64_t bounded(const random::Key& key, std::uint64_t& index, std::uint64_t bound) {
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t high = word(key, index++), low = word(key, index++);
    const unsigned __int128 product = static_cast<unsigned __int128>((high << 32) | low) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace

Tensor empty(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }
Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor full(const Shape& shape, double value, DType dtype) {
  return generate(shape, dtype, [&](std::size_t) { return value; });
}

Tensor arange(double begin, double end, double step, DType dtype) {
  expects<ShapeError>(step != 0 && std::isfinite(begin) && std::isfinite(end), "arange: from ", begin, " to ", end,
                      " by ", step, " never ends");
  const std::int64_t count = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil((end - begin) / step)));
  return generate({count}, dtype, [&](std::size_t i) { return begin + static_cast<double>(i) * step; });
}

Tensor eye(std::int64_t n, DType dtype) {
  return generate({n, n}, dtype, [&](std::size_t i) {
    return static_cast<std::int64_t>(i) / n == static_cast<std::int64_t>(i) % n ? 1.0 : 0.0;
  });
}

Tensor rand(const Shape& shape, Generator& generator, double low, double high, DType dtype) {
  const random::Key key = generator.next();
  random::Words words{};  // four elements share a block
  return generate(shape, dtype, [&](std::size_t i) {
    if (i % 4 == 0) words = random::philox(key.seed, i / 4, key.offset);
    return low + (high - low) * static_cast<double>(random::uniform(words.word[i % 4]));
  });
}

Tensor randn(const Shape& shape, Generator& generator, double mean, double deviation, DType dtype) {
  const random::Key key = generator.next();
  return generate(shape, dtype, [&](std::size_t i) {
    // 1 - uniform is in (0, 1], so its logarithm is finite.
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random::uniform(word(key, 2 * i)))));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random::uniform(word(key, 2 * i + 1)));
    return mean + deviation * radius * std::cos(angle);
  });
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator, DType dtype) {
  expects<ShapeError>(low < high, "randint: no integer is in [", low, ", ", high, ")");
  const random::Key key = generator.next();
  std::uint64_t index = 0;
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return generate(shape, dtype, [&](std::size_t) {
    return static_cast<double>(low + static_cast<std::int64_t>(bounded(key, index, range)));
  });
}

Tensor randperm(std::int64_t n, Generator& generator) {
  Tensor result = arange(0, static_cast<double>(n));
  const random::Key key = generator.next();
  std::uint64_t index = 0;
  std::span<std::int64_t> order = result.write<std::int64_t>();
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(order[i], order[bounded(key, index, static_cast<std::uint64_t>(i) + 1)]);
  return result;
}

namespace {
thread_local Generator thread_generator{0};
}
Generator& default_generator() { return thread_generator; }
void manual_seed(std::uint64_t seed) { thread_generator = Generator(seed); }

}  // namespace tern
