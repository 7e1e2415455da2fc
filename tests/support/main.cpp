// One main for Catch2 2 and 3, with the summary at the end.

#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include "support/catch.hpp"
#include "support/summary.hpp"

int main(int argc, char* argv[]) {
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
  (void)tern::testing::available_modes();
  const int failed = session.run();
  tern::testing::print_summary();
  return failed;
}
