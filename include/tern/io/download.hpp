#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::io {

/// Fetches `file` from the first URL that delivers bytes with the SHA-256 `sum` (64 hexadecimal digits), by curl or
/// wget, started without a shell. The file appears complete and checked, or not at all; at most `limit` bytes are
/// accepted from a URL. Throws FileError that says what each URL returned.
void download(const std::vector<std::string>& addresses, const std::string& file, const std::string& sum,
              std::uint64_t limit = std::uint64_t{1} << 30);

}  // namespace tern::io
