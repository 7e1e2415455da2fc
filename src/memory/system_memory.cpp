#include "memory/system_memory.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "core/control_groups.hpp"
#include "core/small_file.hpp"

namespace tern {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The number in a file; `otherwise` if there is none ("max").
std::uint64_t number_in(const std::filesystem::path& file, std::uint64_t otherwise) {
  const std::string text = content_of(file);
  std::string_view left = text;
  return number_of(next_word(left)).value_or(otherwise);
}

/// The number after the first word of a line of a table; 0 if missing.
std::uint64_t entry_of(const std::filesystem::path& file, std::string_view wanted) {
  const std::string text = content_of(file);
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = next_line(left);
    if (next_word(line) == wanted) return number_of(next_word(line)).value_or(0);
  }
  return 0;
}

/// What is left of a control group's limit. Cached files count as used but are dropped when memory is needed.
std::uint64_t left_in(const std::filesystem::path& group) {
  const std::uint64_t limit =
      std::min(number_in(group / "memory.max", unlimited), number_in(group / "memory.limit_in_bytes", unlimited));
  if (limit == unlimited) return unlimited;
  const std::uint64_t used = number_in(group / "memory.current", number_in(group / "memory.usage_in_bytes", 0));
  const std::uint64_t cached = std::max(entry_of(group / "memory.stat", "inactive_file"),
                                        entry_of(group / "memory.stat", "total_inactive_file"));
  const std::uint64_t kept = used - std::min(used, cached);
  return limit - std::min(limit, kept);
}

}  // namespace

std::uint64_t available_memory(const std::filesystem::path& system, const std::filesystem::path& process,
                               const std::filesystem::path& groups) {
  const std::uint64_t kilobytes = entry_of(system, "MemAvailable:");
  std::uint64_t bytes = kilobytes == 0 ? unlimited : kilobytes * 1024;
  for_each_control_group(process, groups, "memory",
                         [&](const std::filesystem::path& group) { bytes = std::min(bytes, left_in(group)); });
  return bytes;
}

}  // namespace tern
