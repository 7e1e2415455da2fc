#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "options.hpp"

namespace tern::tool {

/// Writes the curves of a run as an event file that TensorBoard reads: TFRecords of Event messages.
class TensorBoard {
 public:
  /// Makes a new file in `folder`. What an earlier process wrote from `step` on is then passed over by TensorBoard.
  TensorBoard(const std::string& folder, std::int64_t step);
  /// An event of the metrics; those without figures are passed over.
  void write(const Json& event);

 private:
  void record(const std::string& message);
  void scalar(const char* tag, const Json& event, const char* key);

  std::string name_;
  std::ofstream file_;
};

/// CRC-32C (Castagnoli), as TFRecords have it.
std::uint32_t crc32c(const std::string& bytes);

}  // namespace tern::tool
