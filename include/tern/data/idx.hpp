#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct IdxOptions {
  int rank = 0;                                ///< required rank; 0: any
  std::int64_t limit = std::int64_t{4} << 30;  ///< the largest number of element bytes that is accepted
};

/// Reads an IDX file, raw or gzipped: bytes, int32, float32 or float64. The declared size is checked before anything is
/// allocated: a gzipped file is counted first and inflated at most one byte too far. Throws FileError that names the
/// file, what was expected and what was found.
Tensor read_idx(const std::string& file, const IdxOptions& options = {});
/// The same for bytes in memory; `name` is the file name in messages.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name, const IdxOptions& options = {});
/// Writes `tensor` (uint8, int32, float32 or float64) as a raw IDX file, atomically.
void write_idx(const std::string& file, const Tensor& tensor);

}  // namespace tern::data
