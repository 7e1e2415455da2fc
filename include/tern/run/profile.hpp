#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/modes/device.hpp"

namespace tern {

class ProfileRecorder;

/// The peak performance of a machine: the ceiling for the rows of a profile. 0: unknown.
struct Roofline {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

struct ProfileOptions {
  bool times = true;   ///< measure times; false keeps only the ranges
  bool ranges = true;  ///< name every operator for the vendor's profiler, if the mode can (NVTX on cuda)
};

/// One operator in one mode and one direction, summed over its calls.
struct ProfileRow {
  std::string name;  ///< "conv2d", or "host to cuda" for a move between memories
  std::string mode;
  bool backward = false;  ///< ran inside Tensor::backward
  bool transfer = false;  ///< a move between memories, not an operator
  std::int64_t calls = 0;
  double seconds = 0;  ///< on the device if the mode can time it, else on the host; without what ran inside it
  double share = 0;    ///< fraction of the seconds of all rows, 0 to 1
  /// For products and convolutions, by their definition (a multiply-add is two); 0 for other operators.
  double flops = 0;
  /// Every tensor read or written once: the least that the operator must move.
  double bytes = 0;
  /// The least time that the machine needs, max(flops / peak, bytes / peak) per call, divided by the measured time; 0
  /// without a roofline. Above 1 if the data stays in a cache, or a convolution needs fewer operations than counted.
  double roofline = 0;
  /// The algorithms that its kernels took, in order: "winograd, rows"; in backward also for which gradient: "grad_x
  /// winograd". Empty if there is only one. docs/profile.md explains them.
  std::string algorithm = {};

  double flops_per_second() const { return seconds > 0 ? flops / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
};

struct ProfileTable {
  std::vector<ProfileRow> rows;     ///< slowest first
  double seconds = 0;               ///< of all rows
  double wall_seconds = 0;          ///< from the beginning of the profile to its end, by the host's clock
  double wait_seconds = 0;          ///< time in which the host waited for a device
  std::int64_t recorded = 0;        ///< operators that were recorded into a Step's graph and did not run here
  std::vector<Transfer> transfers;  ///< moves of the whole process meanwhile, from the transfer ledger

  /// A table for printing, with fixed columns.
  std::string text() const;
};

/// Measures every operator that the calling thread runs during its lifetime, forward and backward separately:
///
///     Profile profile;
///     step();
///     std::fputs(profile.text().c_str(), stdout);
///
/// On cuda, events time the device, and the host waits only when the result is read. The replay of a Step is one launch
/// ("step replay"): to see its operators, profile the function itself. A profile keeps about 150 bytes per operator. It
/// belongs to its thread and replaces an outer Profile while it lives. Without a profile an operator pays for one test.
class [[nodiscard]] Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile();

  /// Ends the measurement; the result stays.
  void stop();
  /// Waits for the device. Throws Error when an event cannot be read.
  ProfileTable table(const Roofline& roofline = {}) const;
  std::string text(const Roofline& roofline = {}) const { return table(roofline).text(); }
  /// The operators on the time lines of host and device, as JSON for chrome://tracing or ui.perfetto.dev. Throws
  /// FileError.
  void write_trace(const std::string& file) const;

 private:
  std::unique_ptr<ProfileRecorder> recorder_;
};

}  // namespace tern
