#include "support/memory_conformance.hpp"

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "tern/core/error.hpp"

namespace tern::testing {
namespace {

/// A block that is released automatically.
class Block {
 public:
  Block(Memory& memory, std::size_t bytes, void* stream)
      : memory_(memory), bytes_(bytes), stream_(stream), pointer_(memory.allocate(bytes, stream)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { memory_.release(pointer_, bytes_, stream_); }
  std::byte* get() const { return static_cast<std::byte*>(pointer_); }

 private:
  Memory& memory_;
  std::size_t bytes_;
  void *stream_, *pointer_;
};

std::vector<unsigned char> counting(std::size_t bytes, unsigned char first) {
  std::vector<unsigned char> values(bytes);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<unsigned char> content(Memory& memory, const void* pointer, std::size_t bytes, void* stream) {
  std::vector<unsigned char> values(bytes);
  memory.copy_out(values.data(), pointer, bytes, stream);
  return values;
}

void check_copies(Memory& memory) {
  void* const stream = memory.stream();
  // Around the sizes at which memories change strategy: small blocks, pinned buffers, rings.
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{63}, std::size_t{4097},
                                  std::size_t{262144}, std::size_t{262145}, std::size_t{9 << 20}}) {
    INFO(bytes << " bytes");
    const Block first(memory, bytes, stream), second(memory, bytes, stream);
    CHECK(reinterpret_cast<std::uintptr_t>(first.get()) % 64 == 0);
    CHECK(first.get() != second.get());
    std::vector<unsigned char> values = counting(bytes, 7);
    const std::vector<unsigned char> expected = values;
    memory.copy_in(first.get(), values.data(), bytes, stream);
    values.assign(bytes, 0);  // may be reused at once
    memory.copy(second.get(), first.get(), bytes, stream);
    CHECK(content(memory, second.get(), bytes, stream) == expected);
    if (memory.host_accessible()) CHECK(std::memcmp(first.get(), expected.data(), bytes) == 0);
    // Parts with any alignment.
    if (bytes > 100) {
      memory.copy_in(second.get() + 5, counting(17, 100).data(), 17, stream);
      CHECK(content(memory, second.get() + 5, 17, stream) == counting(17, 100));
      CHECK(content(memory, second.get() + 22, 10, stream) ==
            std::vector<unsigned char>(expected.begin() + 22, expected.begin() + 32));
    }
    memory.copy_in(first.get(), values.data(), 0, stream);
    memory.copy_out(values.data(), first.get(), 0, stream);
    memory.copy(first.get(), second.get(), 0, stream);
  }
}

void check_statistics(Memory& memory) {
  void* const stream = memory.stream();
  memory.synchronize(stream);
  const std::size_t before = memory.statistics().in_use;
  memory.reset_peak();
  {
    const Block block(memory, 100000, stream);
    const MemoryStatistics during = memory.statistics();
    CHECK(during.in_use >= before + 100000);
    CHECK(during.peak >= during.in_use);
    CHECK(during.reserved >= during.in_use);
  }
  CHECK(memory.statistics().in_use == before);
  CHECK(memory.statistics().peak >= before + 100000);
  memory.reset_peak();
  CHECK(memory.statistics().peak == before);
  memory.trim();
  CHECK(memory.statistics().in_use == before);
  CHECK(memory.statistics().reserved >= before);
}

void check_limit(Memory& memory) {
  void* const stream = memory.stream();
  memory.trim();
  const std::size_t limit = memory.statistics().reserved + (std::size_t{8} << 20);
  memory.set_limit(limit);
  CHECK(memory.statistics().limit == limit);
  CHECK_THROWS_AS(memory.allocate(std::size_t{64} << 20, stream), OutOfMemory);
  // Work continues below the limit.
  { const Block small(memory, 1000, stream); }
  memory.set_limit(0);
  CHECK(memory.statistics().limit == 0);
  const Block large(memory, std::size_t{64} << 20, stream);
  CHECK(large.get() != nullptr);
}

// Blocks of several threads never overlap, and one thread reads what another wrote.
void check_threads(Memory& memory) {
  constexpr std::size_t bytes = 5000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned char k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      void* const own = memory.stream();
      for (int turn = 0; turn < 25; ++turn) {
        const auto values = counting(bytes, static_cast<unsigned char>(16 * k + turn));
        Block made(memory, bytes, own);
        memory.copy_in(made.get(), values.data(), bytes, own);
        std::thread([&] {
          void* const reader = memory.stream();
          if (content(memory, made.get(), bytes, own) != values) ++wrong;
          Block copied(memory, bytes, reader);
          memory.order(own, reader);
          memory.copy(copied.get(), made.get(), bytes, reader);
          if (content(memory, copied.get(), bytes, reader) != values) ++wrong;
          memory.finish(reader);
        }).join();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  memory.finish(nullptr);
}

}  // namespace

void check_memory(Memory& memory) {
  INFO("memory " << memory.name());
  CHECK(!memory.name().empty());
  check_copies(memory);
  check_statistics(memory);
  check_limit(memory);
  check_threads(memory);
}

}  // namespace tern::testing
