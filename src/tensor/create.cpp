#include "tern/tensor/create.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/shard_streams.hpp"

namespace tern {

namespace {

// A tensor whose element i is value(i), a number of any type; i increases from 0. The elements are written on the host.
template <class Value>
Tensor generate(const Shape& shape, DType dtype, Value value) {
  Tensor result(shape, dtype);
  with_type_of(dtype, [&]<class T>(T) {
    std::span<T> elements = result.write<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = convert<T>(value(i));
  });
  return result;
}

void check_floating(const char* function, DType dtype) {
  expects<DTypeError>(is_floating(dtype), function, ": ", dtype, " holds integers; use randint");
}

// The largest and smallest integers up to which a dtype represents every integer.
std::pair<std::int64_t, std::int64_t> exact_integers(DType dtype) {
  return with_type_of(dtype, []<class T>(T) -> std::pair<std::int64_t, std::int64_t> {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>)
      return {Limits::min(), Limits::max()};
    else {
      const int bits = std::is_same_v<T, BFloat16> ? 8 : std::is_same_v<T, Float16> ? 11 : Limits::digits;
      return {-(std::int64_t{1} << bits), std::int64_t{1} << bits};
    }
  });
}

std::uint32_t word(const random::Key& key, std::uint64_t index) { return random::word(key.seed, key.offset, index); }

struct Product {
  std::uint64_t high, low;
};
// In 32-bit halves: not every machine has 128-bit numbers.
Product multiply(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t half = 0xffffffff;
  const std::uint64_t first = (a >> 32) * (b & half) + ((a & half) * (b & half) >> 32);
  const std::uint64_t second = (a & half) * (b >> 32) + (first & half);
  return {(a >> 32) * (b >> 32) + (first >> 32) + (second >> 32), a * b};
}

/// Whole numbers of one key, each made from its next two words.
class WholeNumbers {
 public:
  explicit WholeNumbers(const random::Key& key) : key_(key) {}

  // Uniform in [0, bound) without bias: Lemire's multiplication, drawing again in the rare rejected case.
  std::uint64_t below(std::uint64_t bound) {
    for (;;) {
      const std::uint64_t high = next(), low = next();
      const Product product = multiply((high << 32) | low, bound);
      // The division is unnecessary if the first comparison holds, which is nearly always.
      if (product.low >= bound || product.low >= (0 - bound) % bound) return product.high;
    }
  }

 private:
  std::uint32_t next() {
    if (index_ % 4 == 0) words_ = random::philox(key_.seed, index_ / 4, key_.offset);
    return words_.word[index_++ % 4];
  }

  random::Key key_;
  std::uint64_t index_ = 0;
  random::Words words_{};
};

}  // namespace

constinit thread_local std::uint64_t ShardStreams::further_ = 0, ShardStreams::set_back_ = 0;

void detail::expect_even_row(std::size_t row, std::size_t elements, std::size_t first) {
  expects<ShapeError>(elements == first, "tensor: row ", row, " has ", elements, " elements, and row 0 has ", first);
}

Tensor empty(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }
Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor full(const Shape& shape, Number value, DType dtype) {
  const auto filled = [&](auto number) { return generate(shape, dtype, [=](std::size_t) { return number; }); };
  return value.is_integer() ? filled(value.to<std::int64_t>()) : filled(value.to<double>());
}

namespace {

Tensor arange_of_integers(std::int64_t begin, std::int64_t end, std::int64_t step, DType dtype) {
  // Modulo 2^64, where the distance between two integers always fits.
  const auto first = static_cast<std::uint64_t>(begin), last = static_cast<std::uint64_t>(end),
             by = static_cast<std::uint64_t>(step);
  const std::uint64_t distance = step > 0 ? last - first : first - last, stride = step > 0 ? by : 0 - by;
  const bool none = step > 0 ? begin >= end : begin <= end;
  const std::uint64_t count = none ? 0 : (distance - 1) / stride + 1;
  return generate({saturate<std::int64_t>(count)}, dtype,
                  [&](std::size_t i) { return static_cast<std::int64_t>(first + i * by); });
}

}  // namespace

Tensor arange(Number begin, Number end, Number step, DType dtype) {
  const auto first = begin.to<double>(), last = end.to<double>(), by = step.to<double>();
  expects<ShapeError>(by != 0 && std::isfinite(first) && std::isfinite(last) && std::isfinite(by), "arange: from ",
                      first, " to ", last, " by ", by, " never ends");
  if (begin.is_integer() && end.is_integer() && step.is_integer())
    return arange_of_integers(begin.to<std::int64_t>(), end.to<std::int64_t>(), step.to<std::int64_t>(), dtype);
  const auto count = saturate<std::int64_t>(std::max(0.0, std::ceil((last - first) / by)));
  return generate({count}, dtype, [&](std::size_t i) { return first + static_cast<double>(i) * by; });
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype) {
  expects<DTypeError>(is_floating(dtype), "linspace: ", dtype, " holds no numbers between integers; use arange");
  expects<ShapeError>(count >= 0 && std::isfinite(begin) && std::isfinite(end), "linspace: ", count, " numbers from ",
                      begin, " to ", end);
  // From both ends towards the middle, so that both ends are exact and the halves are mirror images.
  const double step = count > 1 ? (end - begin) / static_cast<double>(count - 1) : 0;
  return generate({count}, dtype, [&](std::size_t i) {
    const auto place = static_cast<std::int64_t>(i);
    return place < (count + 1) / 2 ? begin + step * static_cast<double>(place)
                                   : end - step * static_cast<double>(count - 1 - place);
  });
}

Tensor eye(std::int64_t n, DType dtype) { return eye(n, n, dtype); }
Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  return generate({rows, columns}, dtype, [&](std::size_t i) {
    return static_cast<std::int64_t>(i) / columns == static_cast<std::int64_t>(i) % columns ? 1.0 : 0.0;
  });
}

Tensor empty_like(const Tensor& like, std::optional<DType> dtype) {
  return empty(like.shape(), dtype.value_or(like.dtype()));
}
Tensor zeros_like(const Tensor& like, std::optional<DType> dtype) { return full_like(like, 0, dtype); }
Tensor ones_like(const Tensor& like, std::optional<DType> dtype) { return full_like(like, 1, dtype); }
Tensor full_like(const Tensor& like, Number value, std::optional<DType> dtype) {
  return full(like.shape(), value, dtype.value_or(like.dtype()));
}

namespace {

// The largest T below `value`, which is finite.
template <class T>
T below(T value) {
  if constexpr (detail::is_half<T>) {
    // The bits grow with the magnitude.
    constexpr std::uint16_t sign = 0x8000;
    T next = value;
    next.bits =
        (value.bits & ~sign) == 0 ? sign | 1 : static_cast<std::uint16_t>(value.bits + (value.bits & sign ? 1 : -1));
    return next;
  } else {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

}  // namespace

Tensor rand(const Shape& shape, Generator& generator, double low, double high, DType dtype) {
  check_floating("rand", dtype);
  expects<NumericError>(low <= high && std::isfinite(high - low), "rand: [", low, ", ", high, ") is not an interval");
  Tensor result(shape, dtype);
  const random::Key key = ShardStreams::shifted(generator.next());
  random::Words words{};  // four elements share a block
  with_type_of(dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || detail::is_half<T>) {
      // Rounding may reach the excluded end.
      const auto first = convert<double>(convert<T>(low)), end = convert<double>(convert<T>(high));
      const T last = first < end ? below(convert<T>(high)) : convert<T>(low);
      std::span<T> elements = result.write<T>();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (i % 4 == 0) words = random::philox(key.seed, i / 4, key.offset);
        const double value = low + (high - low) * static_cast<double>(random::uniform(words.word[i % 4]));
        const T rounded = convert<T>(value);
        elements[i] = convert<double>(rounded) < end ? rounded : last;
      }
    }
  });
  return result;
}

Tensor randn(const Shape& shape, Generator& generator, double mean, double deviation, DType dtype) {
  check_floating("randn", dtype);
  const random::Key key = ShardStreams::shifted(generator.next());
  random::Words words{};  // two elements share a block
  return generate(shape, dtype, [&](std::size_t i) {
    if (i % 2 == 0) words = random::philox(key.seed, i / 2, key.offset);
    const std::uint32_t* const pair = words.word + 2 * (i % 2);
    // 1 - uniform is in (0, 1], so its logarithm is finite.
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random::uniform(pair[0]))));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random::uniform(pair[1]));
    return mean + deviation * radius * std::cos(angle);
  });
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator, DType dtype) {
  expects<ShapeError>(low < high, "randint: no integer is in [", low, ", ", high, ")");
  const auto [smallest, largest] = exact_integers(dtype);
  expects<NumericError>(smallest <= low && high - 1 <= largest, "randint: ", dtype, " holds the integers from ",
                        smallest, " to ", largest, ", not all of [", low, ", ", high, ")");
  const random::Key key = ShardStreams::shifted(generator.next());
  WholeNumbers numbers(key);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return generate(shape, dtype, [&](std::size_t) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + numbers.below(range));
  });
}

Tensor rand_like(const Tensor& like, Generator& generator) { return rand(like.shape(), generator, 0, 1, like.dtype()); }
Tensor randn_like(const Tensor& like, Generator& generator) {
  return randn(like.shape(), generator, 0, 1, like.dtype());
}

Tensor bernoulli(const Tensor& probabilities, Generator& generator) {
  check_floating("bernoulli", probabilities.dtype());
  const std::vector<double> chances = probabilities.values();
  for (std::size_t i = 0; i < chances.size(); ++i)
    expects<NumericError>(chances[i] >= 0 && chances[i] <= 1, "bernoulli: probability ", chances[i], " at position ", i,
                          " is outside [0, 1]");
  const random::Key key = ShardStreams::shifted(generator.next());
  return generate(probabilities.shape(), probabilities.dtype(), [&](std::size_t i) {
    return static_cast<double>(random::uniform(word(key, i))) < chances[i] ? 1.0 : 0.0;
  });
}

Tensor randperm(std::int64_t n, Generator& generator) {
  expects<ShapeError>(n >= 0, "randperm: ", n, " elements");
  Tensor result = arange(0, n);
  WholeNumbers numbers(ShardStreams::shifted(generator.next()));
  std::int64_t* const order = result.write<std::int64_t>().data();
  for (std::int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[numbers.below(static_cast<std::uint64_t>(i) + 1)]);
  return result;
}

namespace {
thread_local Generator thread_generator{0};
}
Generator& default_generator() { return thread_generator; }
void manual_seed(std::uint64_t seed) { thread_generator = Generator(seed); }

}  // namespace tern
