#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/modes/device.hpp"

namespace tern {

class ProfileRecorder;

/// What a machine does at best: the ceiling that a row of a profile is compared with. 0: unknown.
struct Roofline {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

struct ProfileOptions {
  bool times = true;   ///< measure; false leaves only the ranges
  bool ranges = true;  ///< name every operator for the vendor's profiler, where the mode can (NVTX on cuda)
};

/// One operator in one mode and one direction, summed over its calls.
struct ProfileRow {
  std::string name;  ///< "conv2d", or "host to cuda" for a move between memories
  std::string mode;
  bool backward = false;  ///< ran inside Tensor::backward
  bool transfer = false;  ///< a move between memories, not an operator
  std::int64_t calls = 0;
  double seconds = 0;  ///< on the device where the mode can tell, else on the host; without what ran inside it
  double share = 0;    ///< of the seconds of all rows, 0 to 1
  /// Of products and convolutions by their definition (a multiply-add is two); other operators count none.
  double flops = 0;
  /// Every tensor read or written once: what the operator must move at least.
  double bytes = 0;
  /// Time that the machine needs at best, max(flops / peak, bytes / peak) call by call, over the time taken; 0 when no
  /// roofline was given. Above 1 where the data stays in a cache, or a convolution needs fewer operations than counted.
  double roofline = 0;
  /// The algorithms that its kernels took, in the order in which they came: "winograd, rows"; in backward also of which
  /// gradient: "grad_x winograd". Empty where there is only one. docs/profile.md has the glossary.
  std::string algorithm = {};

  double flops_per_second() const { return seconds > 0 ? flops / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
};

struct ProfileTable {
  std::vector<ProfileRow> rows;     ///< the slowest first
  double seconds = 0;               ///< of all rows
  double wall_seconds = 0;          ///< from the beginning of the profile to its end, on the host's clock
  double wait_seconds = 0;          ///< in which the host waited for a device
  std::int64_t recorded = 0;        ///< operators that were recorded into a Step's graph and did not run here
  std::vector<Transfer> transfers;  ///< moves of the whole process meanwhile, from the ledger

  /// For people; fixed columns.
  std::string text() const;
};

/// Measures every operator that the calling thread runs while it lives, forward and backward apart:
///
///     Profile profile;
///     step();
///     std::fputs(profile.text().c_str(), stdout);
///
/// On cuda the times are the device's, taken by events, and the host waits only when the result is read. There is
/// nothing to measure inside the replay of a Step, which is one launch ("step replay"): profile the function itself.
/// Keeps about 150 bytes per operator. Belongs to its thread; inside another Profile it takes its place meanwhile.
/// Without one, an operator pays for one test.
class [[nodiscard]] Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile();

  /// Ends the measurement; what was measured stays.
  void stop();
  /// Waits for the device. Throws Error when an event cannot be read.
  ProfileTable table(const Roofline& roofline = {}) const;
  std::string text(const Roofline& roofline = {}) const { return table(roofline).text(); }
  /// The operators on the host's and the device's time line, as JSON for chrome://tracing or ui.perfetto.dev. Throws
  /// FileError.
  void write_trace(const std::string& file) const;

 private:
  std::unique_ptr<ProfileRecorder> recorder_;
};

}  // namespace tern
