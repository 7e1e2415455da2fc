// The generated checks against modes that are wrong on purpose: each fault must be found by the check that is for it.

#include "support/checks.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/summary.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;

namespace {

using Table = kernels::Activations<float>;

/// The failures of relu in a mode whose table was changed, one per line.
std::string failures(const std::string& name, void (*change)(Table&)) {
  (void)available_modes();  // the list of the built-in ones, before there are others
  Mode wrong = mode("sequential");
  change(wrong.operators.activation);
  register_mode(name, wrong);
  const auto& all = catalogue();
  const auto relu = std::find_if(all.begin(), all.end(), [](const Operator& op) { return op.name == "relu"; });
  Report report(name);
  check_operator(*relu, name, report);
  std::string text;
  for (const std::string& failure : report.failures()) text += failure + '\n';
  return text;
}

void right(float* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] > 0 || in[i] != in[i] ? in[i] : 0;
}

// The check is to find it, not AddressSanitizer.
__attribute__((no_sanitize("address"))) void write_behind(float* out, std::int64_t n) { out[n] = 0; }

}  // namespace

TEST_CASE("checks: a right operator has no failures", "[catalogue]") {
  CHECK(failures("checks, right", [](Table& table) {
          table.relu = +[](Context&, float* out, const float* in, std::int64_t n) { right(out, in, n); };
        }) == "");
}

TEST_CASE("checks: a dropped tail is found", "[catalogue]") {
  CHECK_THAT(failures("checks, tail",
                      [](Table& table) {
                        table.relu =
                            +[](Context&, float* out, const float* in, std::int64_t n) { right(out, in, n / 8 * 8); };
                      }),
             ContainsSubstring("relu | checks, tail | float32 | [9] | guards") && !ContainsSubstring("float64 |"));
}

TEST_CASE("checks: a wrong value is found, with the sample that shows it", "[catalogue]") {
  CHECK_THAT(failures("checks, value",
                      [](Table& table) {
                        table.relu = +[](Context&, float* out, const float* in, std::int64_t n) {
                          right(out, in, n);
                          if (n == 33) out[32] += 1e-3f;
                        };
                      }),
             ContainsSubstring("[33] | value | result 0: 1 of 33 elements are off, the worst at 32") &&
                 ContainsSubstring("[33] | sequential") && !ContainsSubstring("[17] |"));
}

TEST_CASE("checks: a write behind the buffer is found", "[catalogue]") {
  CHECK_THAT(failures("checks, behind",
                      [](Table& table) {
                        table.relu = +[](Context&, float* out, const float* in, std::int64_t n) {
                          right(out, in, n);
                          if (n == 9) write_behind(out, n);
                        };
                      }),
             ContainsSubstring("something was written behind a block of 36 bytes"));
}

TEST_CASE("checks: a changed input is found", "[catalogue]") {
  CHECK_THAT(failures("checks, input",
                      [](Table& table) {
                        table.relu = +[](Context&, float* out, const float* in, std::int64_t n) {
                          right(out, in, n);
                          if (n > 0) const_cast<float*>(in)[0] = 1;
                        };
                      }),
             ContainsSubstring("the operator changed its inputs"));
}

TEST_CASE("checks: results that do not repeat are found", "[catalogue]") {
  CHECK_THAT(failures("checks, repeat",
                      [](Table& table) {
                        table.relu = +[](Context&, float* out, const float* in, std::int64_t n) {
                          static int calls = 0;
                          right(out, in, n);
                          if (++calls % 3 == 0 && n > 0) out[n - 1] += 1e-7f;
                        };
                      }),
             ContainsSubstring("a second run gave other bits"));
}

TEST_CASE("checks: leaked memory is found", "[catalogue]") {
  // Handed back at the end, for sanitizers find what is leaked for good.
  struct Leak {
    Memory* memory;
    void *block, *stream;
  };
  static std::vector<Leak> leaks;
  CHECK_THAT(
      failures("checks, leak",
               [](Table& table) {
                 table.relu = +[](Context& context, float* out, const float* in, std::int64_t n) {
                   leaks.push_back({context.memory, context.memory->allocate(64, context.stream), context.stream});
                   right(out, in, n);
                 };
               }),
      ContainsSubstring("blocks were not released"));
  for (const Leak& leak : leaks) leak.memory->release(leak.block, 64, leak.stream);
  leaks.clear();
}

TEST_CASE("checks: a wrong gradient is found", "[catalogue]") {
  CHECK_THAT(
      failures("checks, gradient",
               [](Table& table) {
                 table.relu_backward =
                     +[](Context&, float* grad_in, const float* grad_out, const float*, std::int64_t n) {
                       for (std::int64_t i = 0; i < n; ++i) grad_in[i] = grad_out[i];
                     };
               }),
      ContainsSubstring("sequential gradient | gradient of argument 0") && ContainsSubstring("strided gradient"));
}
