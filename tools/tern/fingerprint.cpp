#include "fingerprint.hpp"

#include <cstdio>
#include <cstring>

namespace tern::tool {

namespace {

std::string_view bytes_of(const Tensor& tensor) {
  const auto view = [](auto values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  };
  if (tensor.dtype() == DType::uint8) return view(tensor.read<std::uint8_t>());
  if (tensor.dtype() == DType::int64) return view(tensor.read<std::int64_t>());
  return view(tensor.read<float>());
}

}  // namespace

// Each step can be undone, so one changed word always changes the sum.
Fingerprint& Fingerprint::add(std::uint64_t word) {
  sum_ = (sum_ ^ word) * 0xd6e8feb86659fd93ull;
  sum_ ^= sum_ >> 32;
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view bytes) {
  add(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    add(word);
  }
  return *this;
}

Fingerprint& Fingerprint::add(const data::Dataset& examples) {
  for (const Tensor& part : {examples.images, examples.labels}) {
    for (const std::int64_t extent : part.shape()) add(static_cast<std::uint64_t>(extent));
    const Tensor whole = part.contiguous();
    add(bytes_of(whole));
  }
  return *this;
}

std::string Fingerprint::text() const {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum_));
  return digits;
}

}  // namespace tern::tool
