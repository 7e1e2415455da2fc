#include "tern/io/sha256.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "tern/io/file.hpp"

namespace tern::io {

namespace {

constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

}  // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::block(const std::byte* bytes) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += sum[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  total_ += bytes.size();
  if (pending_count_ > 0) {
    const std::size_t count = std::min(bytes.size(), pending_.size() - pending_count_);
    std::copy_n(bytes.data(), count, pending_.data() + pending_count_);
    pending_count_ += count;
    bytes = bytes.subspan(count);
    if (pending_count_ < pending_.size()) return;
    block(pending_.data());
    pending_count_ = 0;
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
  pending_count_ = bytes.size();
}

std::string Sha256::hexadecimal() {
  const std::uint64_t bits = total_ * 8;
  std::array<std::byte, 72> tail{};
  tail[0] = std::byte{0x80};
  const std::size_t length = (pending_count_ < 56 ? 64 : 128) - pending_count_;
  for (std::size_t i = 0; i < 8; ++i) tail[length - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  update(std::span(tail).first(length));
  std::string digits;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(word >> shift) & 15u];
  return digits;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hexadecimal();
}

std::string sha256_of_file(const std::string& file) {
  const InputFile input(file);
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  Sha256 sum;
  for (std::uint64_t position = 0; position < input.size();) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), input.size() - position));
    input.read(position, std::span(buffer).first(count));
    sum.update(std::span(buffer).first(count));
    position += count;
  }
  return sum.hexadecimal();
}

}  // namespace tern::io
