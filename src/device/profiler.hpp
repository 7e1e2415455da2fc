#pragma once
// The hooks of a Profile: a ProfileSpan around each piece of work. Without a Profile a ProfileSpan costs the test of
// one number.

#include <atomic>
#include <chrono>
#include <set>

#include "tern/core/tensor.hpp"
#include "tern/device/profile.hpp"

namespace tern {

class ProfileRecorder {
 public:
  enum class Kind : std::uint8_t { work, transfer, wait };

  explicit ProfileRecorder(const ProfileOptions& options);
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;
  ~ProfileRecorder();

  /// Whether any thread has one: all that an operator pays for when there is none.
  static bool any() { return live.load(std::memory_order_relaxed) != 0; }
  /// That of the calling thread; null when there is none.
  static ProfileRecorder* active() { return any() ? of_thread() : nullptr; }

  /// Begins and ends a piece of work. `name` outlives the recorder. `on_host`: the host's clock times it, whatever the
  /// scope's mode can.
  void open(const char* name, Kind kind, bool on_host);
  void open_transfer(const Memory& from, const Memory& to);
  void close() noexcept;
  /// Adds to the innermost open piece of the calling thread.
  static void count_flops(double flops);
  static void count_way(const char* decision, const char* way) noexcept;
  /// The distinct elements of a tensor, read or written `times` times.
  static void count_bytes(const Tensor& tensor, std::size_t element, double times);

  void stop();
  ProfileTable table(const Roofline& roofline);
  std::string trace();

  int backward = 0;  ///< how many Tensor::backward are running

 private:
  using Mark = void*;
  struct Piece {
    const char* name;
    const Mode* mode;
    const Timer* timer;  // null: the host's clock counts
    Mark first = nullptr, last = nullptr;
    int parent;  // -1: none
    Kind kind;
    bool backward;
    double begin, end = -1;                   // on the host, seconds after the start
    double device_begin = 0, device_end = 0;  // seconds after the mark of its origin
    double flops = 0, bytes = 0;
    std::vector<std::pair<const char*, const char*>> ways = {};  // decisions and what they took
  };
  // What is open: a piece (-1: nothing is measured), and the mode whose profiler sees a range.
  struct Open {
    int piece;
    const Timer* ranges;
  };
  // The first mark in a mode: the zero of its device's time line, set at `begin` on the host's.
  struct Origin {
    const Mode* mode;
    Mark mark;
    double begin;
  };

  static ProfileRecorder* of_thread();
  static Piece* open_piece();
  static inline constinit std::atomic<int> live{0};

  double now() const;
  Mark set_mark(const Timer& timer, void* stream) noexcept;
  const char* intern(const std::string& name);
  void resolve();
  std::vector<double> own_seconds() const;

  ProfileOptions options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double stopped_ = -1;
  ProfileRecorder* outer_;
  std::vector<Transfer> transfers_before_, transfers_after_;
  std::vector<Piece> pieces_;
  std::size_t resolved_ = 0;  // the pieces whose marks have been read
  std::vector<Open> open_;
  std::vector<Origin> origins_;
  std::vector<std::pair<const Timer*, Mark>> spare_;  // marks to be used again
  std::set<std::string> names_;
  std::int64_t recorded_ = 0;
};

/// A piece of work of the calling thread, to the end of the block.
class [[nodiscard]] ProfileSpan {
 public:
  using Kind = ProfileRecorder::Kind;
  explicit ProfileSpan(const char* name, Kind kind = Kind::work) : recorder_(ProfileRecorder::active()) {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->open(name, kind, kind == Kind::wait);
  }
  /// Reads or writes each of the tensors once.
  ProfileSpan(const char* name, std::initializer_list<const Tensor*> tensors) : ProfileSpan(name) {
    if (recorder_ != nullptr) [[unlikely]]
      for (const Tensor* tensor : tensors) ProfileRecorder::count_bytes(*tensor, size_of(tensor->dtype()), 1);
  }
  /// A move between two memories.
  ProfileSpan(const Memory& from, const Memory& to) : recorder_(ProfileRecorder::active()) {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->open_transfer(from, to);
  }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;
  ~ProfileSpan() {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->close();
  }

 private:
  ProfileRecorder* recorder_;
};

/// What runs to the end of the block belongs to backward.
class [[nodiscard]] ProfileBackward {
 public:
  ProfileBackward() : recorder_(ProfileRecorder::active()) {
    if (recorder_ != nullptr) ++recorder_->backward;
  }
  ProfileBackward(const ProfileBackward&) = delete;
  ProfileBackward& operator=(const ProfileBackward&) = delete;
  ~ProfileBackward() {
    if (recorder_ != nullptr) --recorder_->backward;
  }

 private:
  ProfileRecorder* recorder_;
};

}  // namespace tern
