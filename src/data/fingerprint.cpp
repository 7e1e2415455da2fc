#include "tern/data/fingerprint.hpp"

#include <bit>
#include <cstdio>

namespace tern::data {

namespace {

// Eight bytes per word, the first lowest on every machine.
template <class Bits, class Values>
void add_bits(Fingerprint& sum, const Values& values) {
  constexpr std::size_t whole = sizeof(std::uint64_t) / sizeof(Bits);
  const auto word = [&](std::size_t begin, std::size_t count) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < count; ++i)
      bits |= std::uint64_t{std::bit_cast<Bits>(values[begin + i])} << (8 * sizeof(Bits) * i);
    return bits;
  };
  sum.add(values.size() * sizeof(Bits));
  std::size_t i = 0;
  for (; i + whole <= values.size(); i += whole) sum.add(word(i, whole));
  if (i < values.size()) sum.add(word(i, values.size() - i));
}

void add_elements(Fingerprint& sum, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::uint8:
      return add_bits<std::uint8_t>(sum, tensor.read<std::uint8_t>());
    case DType::boolean:
      return add_bits<std::uint8_t>(sum, tensor.to(DType::uint8).read<std::uint8_t>());
    case DType::int64:
      return add_bits<std::uint64_t>(sum, tensor.read<std::int64_t>());
    case DType::int32:
      return add_bits<std::uint32_t>(sum, tensor.read<std::int32_t>());
    case DType::float64:
      return add_bits<std::uint64_t>(sum, tensor.read<double>());
    default:  // each 16-bit element as a float32
      return add_bits<std::uint32_t>(sum, tensor.to(DType::float32).read<float>());
  }
}

}  // namespace

// Each step is invertible, so one changed word always changes the sum.
Fingerprint& Fingerprint::add(std::uint64_t word) {
  sum_ = (sum_ ^ word) * 0xd6e8feb86659fd93ull;
  sum_ ^= sum_ >> 32;
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view bytes) {
  add_bits<std::uint8_t>(*this, bytes);
  return *this;
}

Fingerprint& Fingerprint::add(const Tensor& tensor) {
  if (!tensor.defined()) return *this;
  for (const std::int64_t extent : tensor.shape()) add(static_cast<std::uint64_t>(extent));
  add_elements(*this, tensor.contiguous());
  return *this;
}

Fingerprint& Fingerprint::add(const Dataset& examples) { return add(examples.images).add(examples.labels); }

std::string Fingerprint::text() const {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum_));
  return digits;
}

}  // namespace tern::data
