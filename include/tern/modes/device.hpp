#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/kernels/context.hpp"
#include "tern/modes/mode.hpp"

namespace tern {

class Observer;

/// What happens when a tensor must move between memories. `transfers()` counts every move.
enum class Transfers : std::uint8_t {
  allow,  ///< move and count
  log,    ///< move, count, and report to the handler of set_transfer_log
  forbid  ///< throw TransferError
};

/// Whether results are checked.
enum class Numerics : std::uint8_t {
  trust,  ///< do not check
  /// NumericError at the first operator whose result is infinite or NaN although its inputs were finite. The message
  /// names the operator, its place in the network and the element. Every operator waits for its result, and a Step runs
  /// eagerly.
  check
};

/// "strict", "tf32", "bf16" or "f16". Throws Error for another name.
Precision precision_of(std::string_view name);

/// The options of a Device. An absent option is inherited from the enclosing scope. Outside every Device moves are
/// allowed, kernels use all cores, and arithmetic is strict and deterministic.
struct DeviceOptions {
  std::optional<Transfers> transfers = {};
  int threads = 0;  ///< the largest number of threads of a kernel; 0: inherited
  std::optional<Precision> precision = {};
  std::optional<bool> deterministic = {};
  std::optional<Numerics> numerics = {};
  /// Runs every operator also in reference_mode(), on copies, in its dtype and in float64. The first result outside the
  /// tolerance is a VerifyError that names sizes, algorithm, place in the network, element and both values. Slow; a
  /// Step runs eagerly.
  std::optional<bool> verify = {};
  /// Which device of the mode: Device{"cuda", {.index = 1}} is Device{"cuda:1"}. Not inherited; the first if absent.
  std::optional<int> index = {};
};

/// Where operators run: a mode and the context that its kernels get. One per Device and thread.
struct Scope {
  const Mode* mode = nullptr;
  Context context;
  Transfers transfers = Transfers::allow;
  Numerics numerics = Numerics::trust;
  bool verify = false;
  /// Mixed precision: what Precision::bf16 and f16 make of activations where the mode has tables for it; else float32.
  /// Also float32 inside an operator, and so in its backward.
  DType activations = DType::float32;
  Observer* observer = nullptr;  ///< checks what `numerics` and `verify` request; null: neither
  /// Inside a Device{"auto"}: its number. A Step finds the fastest mode by trial; everything outside a Step runs in
  /// `mode`.
  std::uint64_t automatic = 0;

  /// `activations` where the mode has tables of that dtype, else float32.
  DType activation_dtype() const {
    const bool has =
        (activations == DType::bfloat16 && mode->bfloat16) || (activations == DType::float16 && mode->float16);
    return has ? activations : DType::float32;
  }
  /// Whether public operators do more in it than run: an observer hears them, or they convert their inputs.
  bool hears() const { return observer != nullptr || activation_dtype() != DType::float32; }

  /// Whether two scopes run work identically. Streams belong to threads and do not matter.
  bool same_settings(const Scope& other) const {
    return mode == other.mode && context.threads == other.context.threads &&
           context.precision == other.context.precision && context.deterministic == other.context.deterministic &&
           transfers == other.transfers && activations == other.activations && observer == other.observer;
  }
};

namespace detail {
extern constinit thread_local Scope* innermost_scope;  // of the innermost Device; null outside
Scope& default_scope();
struct OpenScope;
}  // namespace detail

/// The scope of the calling thread: its innermost Device, else the process's default.
inline Scope& current_scope() {
  return detail::innermost_scope != nullptr ? *detail::innermost_scope : detail::default_scope();
}

/// Runs every operator of the block in a mode: `Device gpu{"cuda"};`. It belongs to its thread, nests, and restores the
/// outer scope at the end of the block, also on a throw. Without a name, or with "fastest", it takes the fastest mode
/// present; "cuda:1" is the second device of "cuda"; "verify:cuda" is "cuda" with {.verify = true}. Constructing it
/// from a Mode costs a few nanoseconds.
///
/// With "auto" each Step (run/step.hpp) tries the modes of the library during its first calls and keeps the one that
/// takes the least time, moves included. Work outside a Step runs in the fastest mode. The choice depends on the clock,
/// so two runs of a program may differ by rounding. A named mode is reproducible bit for bit.
///
/// Devices may end in any order: operators run in the thread's most recent live Device. If another thread destroys a
/// Device, its own thread notices when it next makes or ends a Device.
class [[nodiscard]] Device {
 public:
  Device() : Device("fastest") {}
  /// Throws DeviceUnavailable with the reason.
  explicit Device(std::string_view mode, const DeviceOptions& options = {});
  /// A registered mode: recordings keep its address. Register a mode of your own with register_mode first.
  explicit Device(const Mode& mode);
  explicit Device(const Mode&& mode) = delete;
  Device(const Mode& mode, const DeviceOptions& options);
  Device(const Mode&& mode, const DeviceOptions& options) = delete;
  /// Enters a scope of another thread, with a stream of this thread: how worker threads inherit.
  explicit Device(const Scope& scope);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const std::string& name() const { return mode().name; }
  const std::string& description() const { return mode().description; }
  const Mode& mode() const;
  /// Lines that say what runs where, and why: one for each Step of a Device{"auto"} that has chosen, with the times of
  /// a call, and the operators that a mode runs itself (Mode::inner).
  std::string explain() const;
  /// Waits for everything queued in this scope; throws the errors that it reported.
  void synchronize();

 private:
  detail::OpenScope* open_;
};

/// Sets the process's default mode, for programs and threads without a Device. It starts as "vectorized"; "fastest"
/// takes the fastest present. Throws DeviceUnavailable, also for "auto": only a Device tries modes.
void set_mode(std::string_view name);

/// Tensors moved between memories since the start or the last reset.
struct Transfer {
  std::string from, to;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
std::vector<Transfer> transfers();
void reset_transfers();
/// Called with one sentence per move in a scope with Transfers::log; null switches it off. The library itself never
/// prints.
void set_transfer_log(void (*handler)(const std::string& sentence));

/// Use of the memory of a mode, such as "cuda" or "cuda:1": bytes in use, reserved and peak; its cache and limit.
MemoryStatistics memory_statistics(std::string_view mode);

}  // namespace tern
