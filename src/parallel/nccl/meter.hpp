#pragma once
// Device time that a rank's sums take, measured by the device's clock, so that recorded steps count as well.

#include <cstdint>
#include <memory>

#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// Nanoseconds, in device memory. Written in the order of the rank's calls.
struct Times {
  std::uint64_t began, ended;  ///< the transport's last interval of work
  std::uint64_t joined;        ///< when the rank's other work reached the point where it needs the result; 0: counted
                               ///< already
  std::uint64_t busy, waited;  ///< see Collective::Spent
};

/// How an interval of work is counted; without `times` not at all.
struct Counting {
  Times* times = nullptr;
  bool first = false;  ///< since the last join
  bool alone = false;  ///< nothing else is queued concurrently
};

/// One rank's times.
class Meter {
 public:
  /// On the current device; loads its kernels. Throws ParallelError.
  Meter();
  Counting count(bool first, bool alone) const { return {times_.get(), first, alone}; }
  /// On the current device, in stream order.
  static void begin(const Counting& counting, void* stream);
  static void end(const Counting& counting, void* stream) noexcept;
  void join(void* stream) const;
  /// The time so far; waits for the device.
  Collective::Spent spent() const;

 private:
  struct Free {
    void operator()(Times* times) const;
  };
  std::unique_ptr<Times, Free> times_;
};

}  // namespace tern::parallel
