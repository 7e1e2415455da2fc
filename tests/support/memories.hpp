#pragma once
// Memories for tests: one that checks its edges, and one that simulates a device's memory.

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tern/modes/device.hpp"

namespace tern::testing {

/// Wraps another memory. Each block gets a guard before and after it that is compared on release, and fresh blocks hold
/// only NaN, so that missing writes and overruns show.
class GuardedMemory final : public Memory {
 public:
  explicit GuardedMemory(Memory& inner) : inner_(inner), name_("guarded " + std::string(inner.name())) {}

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return inner_.host_accessible(); }
  void* allocate(std::size_t bytes, void* stream) override;
  void release(void* pointer, std::size_t bytes, void* stream) noexcept override;
  void copy_in(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy_in(to, from, bytes, stream);
  }
  void copy_out(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy_out(to, from, bytes, stream);
  }
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy(to, from, bytes, stream);
  }
  void* stream() override { return inner_.stream(); }
  void order(void* producer, void* consumer) override { inner_.order(producer, consumer); }
  void finish(void* stream) noexcept override { inner_.finish(stream); }
  void synchronize(void* stream) override { inner_.synchronize(stream); }
  MemoryStatistics statistics() const override { return inner_.statistics(); }
  void reset_peak() override { inner_.reset_peak(); }
  void trim() override { inner_.trim(); }
  void set_limit(std::size_t bytes) override { inner_.set_limit(bytes); }

  /// The errors found since the last call: one line per damaged guard or wrong size.
  std::vector<std::string> take_findings();
  /// Blocks allocated and not yet released.
  std::int64_t live() const { return live_.load(); }

 private:
  void note(std::string finding) noexcept;

  Memory& inner_;
  std::string name_;
  std::atomic<std::int64_t> live_{0};
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  std::vector<std::string> findings_;
};

/// The mode "guarded-<name>" ("guarded-cuda-1" for "cuda:1"): the kernels of a mode on guarded memory.
const Mode& guarded_mode(const std::string& name);
GuardedMemory& guarded_memory(const std::string& name);

/// Memory that the library must treat like a device's: the host may not access it, every move is counted, fresh blocks
/// hold only NaN, and an allocation can be made to fail.
class FakeMemory final : public Memory {
 public:
  explicit FakeMemory(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t bytes, void* stream) override;
  void release(void* pointer, std::size_t bytes, void* stream) noexcept override;
  void copy_in(void* to, const void* from, std::size_t bytes, void* stream) override;
  void copy_out(void* to, const void* from, std::size_t bytes, void* stream) override;
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override;
  /// From another fake memory, if both are `straight`.
  bool copy_from(Memory& source, void* to, const void* from, std::size_t bytes, void* producer,
                 void* consumer) override;
  MemoryStatistics statistics() const override { return {in_use, in_use, peak, limit}; }
  void reset_peak() override { peak = in_use.load(); }
  void trim() override {}
  void set_limit(std::size_t bytes) override { limit = bytes; }
  /// With `streams`, every thread has its own, and `synchronizations` records how the library ordered them: "order 1
  /// 2", "finish 1", "finish all", or, in a memory with direct copies, "across 1 1".
  void* stream() override;
  void order(void* producer, void* consumer) override;
  void finish(void* stream) noexcept override;

  std::atomic<std::size_t> in_use{0}, peak{0}, limit{0};
  std::atomic<std::int64_t> copies_in{0}, copies_out{0}, copies_across{0}, live{0};
  bool streams = false, straight = false;
  std::vector<std::string> synchronizations;

 private:
  void note(std::string synchronization);

  std::string name_;
  std::mutex mutex_;
};

/// The mode "fake": the kernels of the sequential mode on fake memory; "fake2" is another one.
const Mode& fake_mode();
FakeMemory& fake_memory();
const Mode& second_fake_mode();

/// The mode "cards": `fake_cards` devices of fake memory with direct copies between them, named "cards", "cards:1" and
/// so on. The last one cannot be used.
inline constexpr int fake_cards = 7;
const Mode& fake_cards_mode();
FakeMemory& fake_card(int index);

}  // namespace tern::testing
