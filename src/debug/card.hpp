#pragma once
// A debug device: its memory and its streams. Work is queued and runs when somebody waits for it, in any order that
// streams and events allow.

#include <deque>
#include <memory>
#include <random>
#include <string>

#include "debug/stream.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/mode.hpp"

namespace tern::debug {

inline constexpr const char* allocation = "its allocation";
inline constexpr const char* unordered = ", and nothing orders the two: a Memory::order, or a wait, is missing";

class Card final : public Memory {
 public:
  /// `kernels` run on host memory and must live as long as the process.
  Card(std::string name, const Mode& kernels);

  const Mode& kernels() const { return kernels_; }
  std::uint64_t seed() const { return seed_; }

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t bytes, void* stream) override;
  void release(void* pointer, std::size_t bytes, void* stream) noexcept override;
  void copy_in(void* to, const void* from, std::size_t bytes, void* stream) override;
  void copy_out(void* to, const void* from, std::size_t bytes, void* stream) override;
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override;
  void* stream() override;
  void order(void* producer, void* consumer) override;
  void finish(void* stream) noexcept override;
  void synchronize(void* stream) override;
  MemoryStatistics statistics() const override;
  void reset_peak() override;
  void trim() override;
  void set_limit(std::size_t bytes) override;

  // ---- for the table and recordings; hold device_mutex() ----

  /// The state behind a Context's stream. Throws DeviceFault for a stream of another device.
  static Stream& state(void* stream);
  /// What a pointer refers to. Throws DeviceFault unless it is live memory of this device.
  Use use(const char* name, int argument, const void* pointer, bool writes) const;
  /// Queues the work on the stream. Throws DeviceFault if nothing orders it after the work that must precede it.
  void submit(Stream& stream, std::shared_ptr<const Work> work);
  /// The same without checking the order.
  void push(Stream& stream, std::shared_ptr<const Work> work);
  /// Throws DeviceFault unless other uses of the block come before the next piece of the stream.
  void check_order(const Stream& stream, const char* name, const Use& use) const;
  static void note_access(const Stream& stream, const char* name, const Use& use);
  void wait(Stream& stream);
  /// Waits, and leaves errors to the next waiter.
  void settle(Stream& stream) noexcept;
  /// Throws DeviceFault for released memory, which only its recording's replays may use.
  void check_live(const char* name, const Use& use, const Recording* recording) const;
  /// A fault that cannot be reported now: the next wait throws it.
  void report(const std::string& fault) noexcept;
  /// The reason, in the form of this device's faults.
  std::string fault(const std::string& what) const;
  /// In [0, count).
  std::size_t choose(std::size_t count) { return static_cast<std::size_t>(dice_() % count); }
  static void disband(Recording* recording) noexcept;
  void give_back(Stream* stream);  ///< its thread has ended

 private:
  Use part(const char* name, const void* pointer, std::size_t bytes, bool writes) const;
  void release_block(const std::shared_ptr<Block>& block, Stream& stream);
  bool run_one();
  void throw_problem(Stream& stream);
  Stream* make_stream();
  static void refuse_recording(const Stream& stream, const char* what, const char* instead);

  std::string name_;
  const Mode& kernels_;
  std::uint64_t seed_;
  std::mt19937_64 dice_;
  std::deque<Stream> streams_;  // never shrinks: a storage may refer to the stream of a thread that has ended
  std::deque<Stream*> idle_;
  std::size_t pending_ = 0;
  Clock done_;  // what the host has waited for
  std::string fault_;
  MemoryStatistics statistics_;
};

/// Runs a kernel on its arguments, once in either view, and reports its faults. Then `inspect`, if any, checks the
/// arguments in the first view.
void run_kernel(const Work& work, Stream& stream, const std::function<void(std::ptrdiff_t distance)>& kernel,
                const std::function<void(std::ptrdiff_t distance)>& inspect);

}  // namespace tern::debug
