#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "options.hpp"

namespace tern::tool {

/// Writes the curves of a run as an event file for TensorBoard: TFRecords of Event messages.
class TensorBoard {
 public:
  /// Makes a new file in `folder`. TensorBoard then ignores what an earlier process wrote from `step` on.
  TensorBoard(const std::string& folder, std::int64_t step);
  /// Writes an event of the metrics; events without figures are skipped.
  void write(const Json& event);

 private:
  void record(const std::string& message);
  void scalar(const char* tag, const Json& event, const char* key);

  std::string name_;
  std::ofstream file_;
};

/// CRC-32C (Castagnoli), as in TFRecords.
std::uint32_t crc32c(const std::string& bytes);

}  // namespace tern::tool
