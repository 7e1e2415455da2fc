// The contract of Memory, for every memory there is: the host's, the tests' own, and the card's where there is one.

#include "support/catch.hpp"
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
