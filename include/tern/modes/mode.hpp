#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tern/kernels/algorithms.hpp"
#include "tern/kernels/operators.hpp"
#include "tern/kernels/quantized.hpp"
#include "tern/kernels/recurrent.hpp"
#include "tern/kernels/resampling.hpp"

namespace tern {

/// Records the work of a stream once and replays it as one launch (CUDA graphs). A mode without it leaves Mode::capture
/// null, and a Step just runs.
struct Capture {
  /// A recording that runs `count` times in a row without the host. The device copies each step's inputs in before it
  /// and its results out after it. Pointers belong to the mode.
  struct Loop {
    static constexpr std::size_t most = 24;  ///< entries of each list
    struct Move {
      void* to;
      const void* from;
      std::size_t bytes;

      using Members = MemberList<&Move::to, &Move::from, &Move::bytes>;
    };
    struct Counter {
      void* value;  ///< std::uint64_t
      std::uint64_t increment;

      using Members = MemberList<&Counter::value, &Counter::increment>;
    };
    std::int64_t count = 0;
    std::vector<Move> in = {};           ///< before step k, from the second on: `from` + k * `bytes` to `to`
    std::vector<Move> out = {};          ///< after step k: `from` to `to` + k * `bytes`
    std::vector<Counter> counters = {};  ///< after each step

    using Members = MemberList<&Loop::count, &Loop::in, &Loop::out, &Loop::counters>;
  };

  /// Starts recording what the calling thread queues on `stream`; nothing runs meanwhile. Blocks allocated while
  /// recording belong to the recording and keep their addresses until `destroy`.
  void (*begin)(void* stream);
  /// Ends recording and returns a recording that is ready to launch. Throws Error with the reason if something cannot
  /// be recorded.
  void* (*end)(void* stream);
  /// Ends a recording that failed, without a result. Never throws.
  void (*abandon)(void* stream);
  void (*launch)(void* recording, void* stream);
  void (*destroy)(void* recording);
  /// While recording: work queued on `stream` from here on forms one more branch, beside those before it, until `join`.
  /// Branches must not depend on each other. Null in a mode whose recordings have no branches.
  void (*branch)(void* stream) = nullptr;
  /// Work queued from here on comes after all branches. Never throws.
  void (*join)(void* stream) = nullptr;
  /// What leaves the order of a recording. Work aside comes after all earlier work, and may run beside what follows.
  /// Work ahead may run from the recording's beginning, and comes before what follows; it uses nothing that the
  /// recording has written so far, except by work ahead. Both keep an order of their own.
  struct Aside {
    bool parameters = false;  ///< what kernels of a backward pass do for gradients of parameters alone goes aside
    bool weights = false;     ///< what kernels do with their weights alone goes ahead
    bool everything = false;  ///< goes aside
    bool ahead = false;       ///< everything goes ahead

    bool any() const { return parameters || weights || everything || ahead; }

    using Members = MemberList<&Aside::parameters, &Aside::weights, &Aside::everything, &Aside::ahead>;
  };
  /// Launches a recording many times as one launch. Null in a mode that cannot: then each repetition is a launch.
  void (*loop)(void* recording, const Loop& loop, void* stream) = nullptr;
  /// While recording, outside of branches: chooses what leaves the order of the work that is queued on `stream` from
  /// here on. Never throws. Null in a mode that cannot.
  void (*aside)(void* stream, Aside what) = nullptr;
  /// Work queued from here on comes after what is aside. Never throws.
  void (*await)(void* stream) = nullptr;
  /// While recording, outside of branches: sets a mark behind all work that has been queued, aside too, and returns its
  /// number; -1 if there are no more. Never throws. Null in a mode that has none.
  int (*mark)(void* stream) = nullptr;
  /// Work queued from here on may start as soon as the work before the mark has ended. It runs in the order in which it
  /// is queued, and must not allocate; marks must not decrease. -1 ends this: later work follows all of it. Never
  /// throws.
  void (*early)(void* stream, int mark) = nullptr;
  std::size_t bytes_per_mark = 0;  ///< a mark is set behind so many bytes of gradients aside

  using Members = MemberList<&Capture::begin, &Capture::end, &Capture::abandon, &Capture::launch, &Capture::destroy,
                             &Capture::branch, &Capture::join, &Capture::loop, &Capture::aside, &Capture::await,
                             &Capture::mark, &Capture::early, &Capture::bytes_per_mark>;
};

/// Times the work of a stream without waiting for it (CUDA events), and names it for the vendor's profiler (NVTX). A
/// mode without it leaves Mode::timer null: its work is done when the call returns, and the host's clock times it.
struct Timer {
  void* (*make)();                               ///< makes a mark that can be put into a stream. Throws Error.
  void (*record)(void* mark, void* stream);      ///< puts the mark after the work queued so far. Throws Error.
  double (*elapsed)(void* first, void* second);  ///< seconds between two marks; waits for the second. Throws Error.
  void (*destroy)(void* mark);                   ///< never throws
  void (*begin_range)(const char* name);         ///< names the thread's work until `end_range`; ranges nest. Never
                                                 ///< throws.
  void (*end_range)();

  using Members = MemberList<&Timer::make, &Timer::record, &Timer::elapsed, &Timer::destroy, &Timer::begin_range,
                             &Timer::end_range>;
};

/// The devices of a mode that can use several, each with its own memory. All run the same kernels, which find the
/// device through the memory and the stream of their Context. A mode without it leaves Mode::places null and runs on
/// one device.
struct Places {
  int count;
  Memory& (*memory)(int index);  ///< the same object each time; index 0 is Mode::memory. Throws DeviceUnavailable with
                                 ///< the reason.
  std::string (*description)(int index);  ///< Mode::description for that device; throws as `memory`, starts no device

  using Members = MemberList<&Places::count, &Places::memory, &Places::description>;
};

/// A device mode: a name, a memory, and one dispatch table per dtype. Every mode has float32 and float64. Without a
/// table for bfloat16 or float16, the public operators convert to float32, use its table, and convert back. Tables of
/// integer dtypes are smaller; if one is missing, the inner mode or the reference computes. Copyable: a new mode may
/// start as a copy and replace slots:
///
///     Mode mine = mode("vectorized");
///     mine.operators.dot.matmul = my_matmul;
///     register_mode("mine", mine);
struct Mode {
  std::string name;
  std::string description;  ///< what it runs on: "2 threads, AVX-512", "NVIDIA H200, 132 multiprocessors"
  Memory* memory;
  kernels::Operators<float> operators;  ///< for float32; `table` finds any of them by its type
  kernels::Operators<double> float64;
  std::optional<kernels::Operators<BFloat16>> bfloat16 = {};
  std::optional<kernels::Operators<Float16>> float16 = {};
  std::optional<kernels::Operators<std::int32_t>> int32 = {};
  std::optional<kernels::Operators<std::int64_t>> int64 = {};
  std::optional<kernels::Operators<std::uint8_t>> uint8 = {};
  std::optional<kernels::Operators<bool>> boolean = {};
  kernels::Movement movement;
  const Capture* capture = nullptr;
  const Timer* timer = nullptr;
  const Places* places = nullptr;
  int index = 0;                             ///< which device this is; see mode()
  std::span<const Decision> decisions = {};  ///< the choices for which its kernels have more than one algorithm; lives
                                             ///< with the mode
  /// The name of another mode that runs every operator except those of `own`, in its own memory; tensors move there and
  /// back automatically. Null: this mode has all operators. modes/borrow.hpp makes a mode that has none yet.
  const char* inner = nullptr;
  /// With `inner`: the operators that run here, by their names in a Profile: "conv2d", "conv2d backward". Lives with
  /// the mode.
  std::span<const char* const> own = {};
  std::optional<kernels::Quantized> quantized = {};  ///< inference in 8 bits; if missing, as for integer dtypes
  // Operators are composed of others where these are missing. A copy that replaces one of those resets them.
  std::optional<kernels::Recurrent> recurrent = {};    ///< LSTM and GRU over whole sequences
  std::optional<kernels::Resampling> resampling = {};  ///< resizing, look-ups along a dimension

  /// The table for one dtype; null if the mode has none.
  template <class T>
  const kernels::Operators<T>* table() const {
    return find<T>(*this);
  }
  template <class T>
  kernels::Operators<T>* table() {
    return find<T>(*this);
  }
  /// Calls `visit` with each table that the mode has.
  template <class Visit>
  void for_each_table(const Visit& visit) {
    const auto visit_table = [&]<class T>() {
      if (auto* const found = table<T>()) visit(*found);
    };
    kernels::for_each_compute_type(visit_table);
    kernels::for_each_integer_type(visit_table);
  }
  /// Whether its pooling and normalisation for that dtype accept channels-last images.
  bool channels_last(DType compute) const {
    bool last = operators.channels_last;
    kernels::with_compute_type(compute, [&]<class T>() {
      if (const auto* const found = table<T>()) last = found->channels_last;
    });
    return last;
  }
  /// Whether its memory is the host's: work is done when a kernel returns, and the host may read the results.
  bool on_host() const { return memory->host_accessible(); }

  using Members =
      MemberList<&Mode::name, &Mode::description, &Mode::memory, &Mode::operators, &Mode::float64, &Mode::bfloat16,
                 &Mode::float16, &Mode::int32, &Mode::int64, &Mode::uint8, &Mode::boolean, &Mode::movement,
                 &Mode::capture, &Mode::timer, &Mode::places, &Mode::index, &Mode::decisions, &Mode::inner, &Mode::own,
                 &Mode::quantized, &Mode::recurrent, &Mode::resampling>;

 private:
  template <class T, class Self>
  static auto find(Self& mode) {
    if constexpr (std::is_same_v<T, float>)
      return &mode.operators;
    else if constexpr (std::is_same_v<T, double>)
      return &mode.float64;
    else if constexpr (std::is_same_v<T, BFloat16>)
      return mode.bfloat16 ? &*mode.bfloat16 : nullptr;
    else if constexpr (std::is_same_v<T, Float16>)
      return mode.float16 ? &*mode.float16 : nullptr;
    else if constexpr (std::is_same_v<T, std::int32_t>)
      return mode.int32 ? &*mode.int32 : nullptr;
    else if constexpr (std::is_same_v<T, std::int64_t>)
      return mode.int64 ? &*mode.int64 : nullptr;
    else if constexpr (std::is_same_v<T, std::uint8_t>)
      return mode.uint8 ? &*mode.uint8 : nullptr;
    else if constexpr (std::is_same_v<T, bool>)
      return mode.boolean ? &*mode.boolean : nullptr;
    else
      static_assert(std::is_same_v<T, void>, "a mode has no table of this type");
  }
};

/// The mode with that name; opens the cuda plug-in on first use. "cuda:1" is a separate mode, cuda on its second device
/// with that device's memory; "cuda:0" is "cuda". The reference stays valid for the life of the process. Throws
/// DeviceUnavailable with the available modes and devices, or with the reason why this one is missing.
const Mode& mode(std::string_view name);

/// The mode that all others are compared with: plain loops on the host's memory. Always present.
const Mode& reference_mode();

/// Adds a mode. Throws Error if the name is taken. Thread-safe; the mode stays until the process ends.
const Mode& register_mode(std::string name, Mode mode);

/// Opens a shared library that provides a mode through the entry point of modes/plugin.hpp, and registers it. Throws
/// DeviceUnavailable with the reason.
const Mode& load_mode(const std::string& file);

/// A mode and whether it can be used on this machine.
struct ModeStatus {
  std::string name;
  bool available = false;
  std::string reason;  ///< the description of an available mode, or why it is missing
};

/// Every mode by name, from the slowest to the fastest, then registered ones. The debug device (docs/debug.md) is not
/// listed: "debug", or "debug:mine" with the kernels of "mine", is made on request.
std::vector<ModeStatus> modes();

/// A device that operators can run on.
struct Place {
  std::string name;  ///< for Device: "vectorized", "cuda", "cuda:1"
  std::string mode;  ///< "cuda"
  int index = 0;
  std::string description;
};

/// Every device of every available mode, in the order of modes(). A device that exists but cannot be used is left out;
/// naming it says why.
std::vector<Place> devices();

/// The name of the fastest mode that is present: "cuda" if it is available, else "vectorized".
std::string fastest_mode();

}  // namespace tern
