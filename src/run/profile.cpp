#include "tern/run/profile.hpp"

#include <algorithm>
#include <iomanip>
#include <span>

#include "run/profiler.hpp"
#include "tern/core/error.hpp"
#include "tern/io/file.hpp"

namespace tern {

Profile::Profile(const ProfileOptions& options) : recorder_(std::make_unique<ProfileRecorder>(options)) {}
Profile::~Profile() = default;
void Profile::stop() { recorder_->stop(); }
ProfileTable Profile::table(const Roofline& roofline) const { return recorder_->table(roofline); }

void Profile::write_trace(const std::string& file) const {
  const std::string json = recorder_->trace();
  io::AtomicFile out(file);
  out.write(std::as_bytes(std::span(json)));
  out.commit();
}

namespace {

// Three significant digits; a dash if there is no value.
std::string number(double value) {
  if (value <= 0) return "-";
  PlainStream text;
  text << std::fixed << std::setprecision(value < 10 ? 2 : value < 100 ? 1 : 0) << value;
  return text.str();
}

std::string percent(double value) {
  PlainStream text;
  text << std::fixed << std::setprecision(1) << value * 100 << " %";
  return text.str();
}

std::string size(std::int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  const double value = static_cast<double>(bytes);
  return value < 1e6   ? number(value * 1e-3) + " kB"
         : value < 1e9 ? number(value * 1e-6) + " MB"
                       : number(value * 1e-9) + " GB";
}

}  // namespace

std::string ProfileTable::text() const {
  std::int64_t calls = 0;
  bool several_modes = false, compared = false, chosen = false;
  for (const ProfileRow& row : rows) {
    calls += row.calls;
    several_modes |= row.mode != rows[0].mode;
    compared |= row.roofline > 0;
    chosen |= !row.algorithm.empty();
  }
  std::vector<std::vector<std::string>> lines{{"operator", "calls", "ms", "share", "GFLOP", "GFLOP/s", "MB", "GB/s"}};
  if (compared) lines[0].emplace_back("of roofline");
  if (chosen) lines[0].emplace_back("algorithm");
  for (const ProfileRow& row : rows) {
    lines.push_back({row.name + (row.backward ? " backward" : "") + (several_modes ? " (" + row.mode + ")" : ""),
                     std::to_string(row.calls), number(row.seconds * 1e3), percent(row.share), number(row.flops * 1e-9),
                     number(row.flops_per_second() * 1e-9), number(row.bytes * 1e-6),
                     number(row.bytes_per_second() * 1e-9)});
    if (compared) lines.back().push_back(row.roofline > 0 ? percent(row.roofline) : "-");
    if (chosen) lines.back().push_back(row.algorithm.empty() ? "-" : row.algorithm);
  }
  const std::size_t columns = lines[0].size();
  std::vector<std::size_t> width(columns);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < columns; ++i) width[i] = std::max(width[i], line[i].size());
  PlainStream text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < columns; ++i)
      if (chosen && i + 1 == columns)  // words, the last column
        text << "  " << line[i];
      else
        text << (i == 0 ? "" : "  ") << (i == 0 ? std::left : std::right) << std::setw(static_cast<int>(width[i]))
             << line[i];
    text << '\n';
  }
  text << calls << " calls, " << number(seconds * 1e3) << " ms; " << number(wall_seconds * 1e3) << " ms of wall time";
  if (wait_seconds > 0) text << ", of which the host waited " << number(wait_seconds * 1e3) << " ms for the device";
  text << '\n';
  for (const Transfer& transfer : transfers)
    text << "moved from " << transfer.from << " to " << transfer.to << ": " << size(transfer.bytes) << " in "
         << transfer.count << (transfer.count == 1 ? " move\n" : " moves\n");
  if (recorded > 0)
    text << recorded
         << " operators were recorded into the graph of a Step and not measured: profile its function itself\n";
  return text.str();
}

}  // namespace tern
