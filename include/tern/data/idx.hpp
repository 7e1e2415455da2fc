#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct IdxOptions {
  int rank = 0;                                ///< the rank that the file must have; 0: any
  std::int64_t limit = std::int64_t{4} << 30;  ///< the most bytes of elements that are accepted
};

/// Reads an IDX file, raw or packed by gzip: bytes, int32, float32 or float64. Nothing is allocated before the declared
/// size is known to be the real one: a packed file is counted first, and inflated no further than one byte too
/// many. Throws FileError that names the file, what was expected and what was found.
Tensor read_idx(const std::string& file, const IdxOptions& options = {});
/// The same from bytes in memory; `name` is the file name in messages.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name, const IdxOptions& options = {});
/// Writes `tensor` (uint8, int32, float32 or float64) as a raw IDX file, atomically.
void write_idx(const std::string& file, const Tensor& tensor);

}  // namespace tern::data
