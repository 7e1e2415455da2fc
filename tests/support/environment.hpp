#pragma once
// Numbers that the environment gives to tests, such as TERN_TEST_PROGRAMS.

#include <cstdint>
#include <cstdlib>

namespace tern::testing {

inline std::uint64_t number_from(const char* name, std::uint64_t usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : std::strtoull(value, nullptr, 10);
}

}  // namespace tern::testing
