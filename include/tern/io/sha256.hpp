#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tern::io {

/// SHA-256 (FIPS 180-4) of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits. Ends the sum; call it once.
  std::string hexadecimal();

 private:
  void block(const std::byte* bytes);

  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> pending_{};
  std::size_t pending_count_ = 0;
  std::uint64_t total_ = 0;
};

std::string sha256(std::span<const std::byte> bytes);
/// Throws FileError when the file cannot be read.
std::string sha256_of_file(const std::string& file);

}  // namespace tern::io
