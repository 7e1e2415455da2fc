#pragma once
// What a rank's sums take of its device's time, by the device's own clock, so that recorded steps count as well.

#include <cstdint>
#include <memory>

#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// Nanoseconds, in the memory of the device. Written in the order of the rank's calls.
struct Times {
  std::uint64_t began, ended;  ///< the last stretch of work of the transport
  std::uint64_t joined;        ///< when the rank's other work came to where it needs it; 0: counted already
  std::uint64_t busy, waited;  ///< see Collective::Spent
};

/// What a stretch of work has to be counted as; without `times` not at all.
struct Counting {
  Times* times = nullptr;
  bool first = false;  ///< since the last join
  bool alone = false;  ///< nothing else is queued beside it
};

/// One rank's times.
class Meter {
 public:
  /// On the present device, whose kernels are loaded. Throws ParallelError.
  Meter();
  Counting count(bool first, bool alone) const { return {times_.get(), first, alone}; }
  /// For the present device, in the order of a stream.
  static void begin(const Counting& counting, void* stream);
  static void end(const Counting& counting, void* stream) noexcept;
  void join(void* stream) const;
  /// So far; waits for the device.
  Collective::Spent spent() const;

 private:
  struct Free {
    void operator()(Times* times) const;
  };
  std::unique_ptr<Times, Free> times_;
};

}  // namespace tern::parallel
