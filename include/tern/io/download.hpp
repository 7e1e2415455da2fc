#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::io {

/// Fetches `file` from the first address that delivers bytes of the SHA-256 `sum` (64 hexadecimal digits), by curl or
/// wget, started without a shell. The file appears complete and checked, or not at all; no more than `limit` bytes are
/// taken from an address. Throws FileError that tells what each address said.
void download(const std::vector<std::string>& addresses, const std::string& file, const std::string& sum,
              std::uint64_t limit = std::uint64_t{1} << 30);

}  // namespace tern::io
