// The contract of Memory, for every memory there is: the host's, the tests' own, and the card's where there is one.

#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "memory/system_memory.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/memories.hpp"
#include "support/memory_conformance.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"

using namespace tern;
using namespace tern::testing;

TEST_CASE("memory: the host's keeps what the contract promises", "[device][memory]") {
  check_memory(host_memory());
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} / 2 + 2})
    CHECK_THROWS_AS(host_memory().allocate(bytes, nullptr), OutOfMemory);
}
TEST_CASE("memory: what the host's gives back to the system is no longer reserved", "[device][memory]") {
  const std::size_t bytes = std::size_t{3} << 20;
  host_memory().trim();
  const std::size_t before = host_memory().statistics().reserved;
  void* const block = host_memory().allocate(bytes, nullptr);
  CHECK(host_memory().statistics().reserved >= before + bytes);
  host_memory().release(block, bytes, nullptr);
  CHECK(host_memory().statistics().reserved >= before + bytes);
  host_memory().trim();
  CHECK(host_memory().statistics().reserved == before);
}
TEST_CASE("memory: of small blocks a thread keeps some, and none behind its end", "[device][memory]") {
  Memory& memory = host_memory();
  constexpr std::size_t bytes = 8192, most = 64;
  const auto use = [&](int count) {
    std::vector<void*> all;
    for (int i = 0; i < count; ++i) all.push_back(memory.allocate(bytes, nullptr));
    for (void* block : all) memory.release(block, bytes, nullptr);
  };
  memory.trim();
  std::size_t before = memory.statistics().reserved;
  use(300);
  memory.trim();
  CHECK(memory.statistics().reserved <= before + most * bytes);
  before = memory.statistics().reserved;
  std::thread([&] { use(40); }).join();
  memory.trim();
  CHECK(memory.statistics().reserved == before);
}
TEST_CASE("memory: as much as was ever used at once may lie free", "[device][memory]") {
  Memory& memory = host_memory();
  memory.trim();
  constexpr std::size_t large = std::size_t{48} << 20, other = std::size_t{5} << 20;
  const std::size_t before = memory.statistics().reserved;
  std::vector<void*> all;
  for (int i = 0; i < 4; ++i) all.push_back(memory.allocate(large, nullptr));
  for (void* block : all) memory.release(block, large, nullptr);
  void* const small = memory.allocate(other, nullptr);
  CHECK(memory.statistics().reserved >= before + 4 * large + other);
  memory.release(small, other, nullptr);
  memory.trim();
}
TEST_CASE("memory: the host's does not keep every size that a growing buffer had", "[device][memory]") {
  Memory& memory = host_memory();
  memory.trim();
  const std::size_t before = memory.statistics().reserved;
  void* last = nullptr;
  std::size_t last_bytes = 0;
  constexpr std::size_t largest = std::size_t{512} << 20;
  for (double bytes = 1 << 20; bytes <= largest; bytes *= 1.19) {  // nothing touches them: they cost no pages
    void* const next = memory.allocate(static_cast<std::size_t>(bytes), nullptr);
    if (last != nullptr) memory.release(last, last_bytes, nullptr);
    last = next;
    last_bytes = static_cast<std::size_t>(bytes);
  }
  memory.release(last, last_bytes, nullptr);
  CHECK(memory.statistics().reserved <= before + 4 * largest);
  // What comes again and again is kept.
  memory.trim();
  const auto blocks = [&] {
    std::vector<void*> all;
    for (int i = 0; i < 4; ++i) all.push_back(memory.allocate(std::size_t{3} << 20, nullptr));
    for (void* block : all) memory.release(block, std::size_t{3} << 20, nullptr);
    return memory.statistics().reserved;
  };
  const std::size_t kept = blocks();
  CHECK(kept >= std::size_t{12} << 20);
  CHECK(blocks() == kept);
  memory.trim();
}
TEST_CASE("memory: control groups limit what is available", "[device][memory]") {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  const auto available = [&](const std::string& groups) {
    write("cgroup", groups);
    return available_memory(folder / "meminfo", folder / "cgroup", folder.path());
  };
  constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  CHECK(available("0::/\n") == none);
  write("meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
  CHECK(available("0::/\n") == 8000 * 1024);
  // Version 2: the group that leaves least holds; files that it caches go when they must.
  write("memory.max", "max\n");
  write("outer/memory.max", "1000000\n");
  write("outer/memory.current", "900000\n");
  write("outer/inner/memory.max", "500000\n");
  write("outer/inner/memory.current", "600000\n");
  CHECK(available("0::/\n") == 8000 * 1024);
  CHECK(available("0::/outer\n") == 100000);
  CHECK(available("0::/outer/inner\n") == 0);
  write("outer/memory.stat", "anon 1\ninactive_file 300000\nactive_file 7\n");
  CHECK(available("0::/outer\n") == 400000);
  // Version 1.
  write("memory/memory.limit_in_bytes", "2000000\n");
  write("memory/memory.usage_in_bytes", "500000\n");
  CHECK(available("4:memory:/docker/1\n3:cpuset:/\n") == 1500000);
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available("4:memory:/docker/1\n") == 8000 * 1024);
}
TEST_CASE("memory: guarded memory keeps it", "[device][memory]") {
  check_memory(guarded_memory("vectorized"));
  CHECK(guarded_memory("vectorized").take_findings().empty());
}
TEST_CASE("memory: memory that stands for a device's keeps it", "[device][memory]") { check_memory(fake_memory()); }
TEST_CASE("memory: the debug device's keeps it", "[device][memory]") {
  check_memory(*mode("debug").memory);
  CHECK_THROWS_AS(mode("debug").memory->allocate(~std::size_t{0}, mode("debug").memory->stream()), OutOfMemory);
}
TEST_CASE("memory: the card's keeps it", "[device][memory][cuda]") {
  for (const std::string& name : available_modes())
    if (name == "cuda") {
      check_memory(*mode("cuda").memory);
      check_memory(guarded_memory("cuda"));
      CHECK(guarded_memory("cuda").take_findings().empty());
    }
}
