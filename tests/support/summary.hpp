#pragma once
// What a test program prints at its end: how many generated cases ran in each mode, and which modes did not run, and
// why.

#include <cstdint>
#include <string>
#include <vector>

namespace tern::testing {

void count_cases(const std::string& mode, std::int64_t cases);
/// Reports, now and at the end, that tests of a mode did not run.
void skip_mode(const std::string& mode, const std::string& reason);
void print_summary();

/// The modes that can be used here, without those that tests registered; calls skip_mode for the others. TERN_TEST_MODE
/// names the only one.
std::vector<std::string> available_modes();
/// Whether "cuda:1" can be used here; calls skip_mode if not.
bool has_second_card();

}  // namespace tern::testing
