// One main for Catch2 2 and 3, with the summary at the end.

#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <clocale>
#include <cstdlib>
#include <locale>

#include "support/catch.hpp"
#include "support/summary.hpp"

namespace {

// A locale that writes 1234.5 as 1.234,5. TERN_TEST_LOCALE=1 makes it the program's, as a graphical program would; C's
// numbers follow if the system has such a locale.
struct Hostile : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
  std::string do_truename() const override { return "wahr"; }
  std::string do_falsename() const override { return "falsch"; }
};

void use_hostile_locale() {
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"})
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  std::locale::global(std::locale(std::locale::classic(), new Hostile));
}

}  // namespace

int main(int argc, char* argv[]) {
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
  if (std::getenv("TERN_TEST_LOCALE") != nullptr) use_hostile_locale();
  (void)tern::testing::available_modes();
  const int failed = session.run();
  tern::testing::print_summary();
  return failed;
}
