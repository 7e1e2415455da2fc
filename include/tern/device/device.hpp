#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/device/context.hpp"
#include "tern/device/mode.hpp"

namespace tern {

/// What happens when a tensor must move between memories. Every move is counted in `transfers()`.
enum class Transfers : std::uint8_t {
  allow,  ///< move and count
  log,    ///< move, count, and report to the handler of set_transfer_log
  forbid  ///< throw TransferError
};

struct DeviceOptions {
  Transfers transfers = Transfers::allow;
  int threads = 0;  ///< the most threads of a kernel; 0: inherited from the scope outside, at first all cores
  Precision precision = Precision::strict;
  bool deterministic = true;
};

/// Where operators run: a mode and the context that its kernels get. One per Device and thread.
struct Scope {
  const Mode* mode = nullptr;
  Context context;
  Transfers transfers = Transfers::allow;
};

namespace detail {
extern constinit thread_local Scope* innermost_scope;  // of the innermost Device; null outside
Scope& default_scope();
}  // namespace detail

/// The scope of the calling thread: its innermost Device, else the process's default.
inline Scope& current_scope() {
  return detail::innermost_scope != nullptr ? *detail::innermost_scope : detail::default_scope();
}

/// Runs every operator of the block in a mode: `Device gpu{"cuda"};`. Belongs to its thread, nests, restores on every
/// way out. Without a name, or with "auto", the fastest mode present. Costs a few nanoseconds when it gets a Mode.
class [[nodiscard]] Device {
 public:
  Device() : Device("auto") {}
  /// Throws DeviceUnavailable with the reason.
  explicit Device(std::string_view mode, const DeviceOptions& options = {});
  explicit Device(const Mode& mode, const DeviceOptions& options = {});
  /// Takes up a scope of another thread, with a stream of this thread: how worker threads inherit.
  explicit Device(const Scope& scope);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { detail::innermost_scope = outer_; }

  const std::string& name() const { return scope_.mode->name; }
  const std::string& description() const { return scope_.mode->description; }
  const Mode& mode() const { return *scope_.mode; }
  /// Waits until everything queued in this scope is done; throws what it reported.
  void synchronize();

 private:
  Scope scope_;
  Scope* outer_;
};

/// The process's default mode, for programs and threads that never scope; "vectorized" at first. Throws
/// DeviceUnavailable.
void set_mode(std::string_view name);

/// Tensors moved between memories since the start or the last reset.
struct Transfer {
  std::string from, to;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
std::vector<Transfer> transfers();
void reset_transfers();
/// Called with one sentence per move in a scope with Transfers::log; null switches off. The library itself never
/// prints.
void set_transfer_log(void (*handler)(const std::string& sentence));

/// Use of the memory of a mode: bytes in use, reserved, peak; its cache and limit.
MemoryStatistics memory_statistics(std::string_view mode);

}  // namespace tern
