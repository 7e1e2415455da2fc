#pragma once
// The tests that the catalogue generates. A case is one check of one sample of one operator with one dtype in one mode.

#include <map>

#include "support/catalogue.hpp"
#include "tern/modes/device.hpp"

namespace tern::testing {

/// How the generated cases run.
struct CheckOptions {
  bool deterministic = true;  ///< as in DeviceOptions; false skips the checks for equal bits
  /// As in DeviceOptions, which the Device around the checks sets: bf16 widens the bounds of float32 to those of
  /// rounded factors and skips numbers near the ends of the range.
  Precision precision = Precision::strict;
  bool whole = false;     ///< every kind of special numbers for every sample, every number of threads
  std::size_t every = 1;  ///< only every n-th sample of an operator,
  std::size_t first = 0;  ///< starting with this one; the mistakes belong to sample 0
  std::string only = {};  ///< only this check, for every sample; all if empty
};
CheckOptions& check_options();

/// The results of the generated cases of one mode.
class Report {
 public:
  explicit Report(std::string mode) : mode_(std::move(mode)) {}
  /// Counts a case; `body` returns the error, or an empty string. An exception is an error, too.
  void run(const Operator& op, const std::string& sample, std::string_view dtype, const char* check,
           const std::function<std::string()>& body);
  std::int64_t cases() const { return cases_; }
  /// Cases per check.
  const std::map<std::string, std::int64_t>& per_check() const { return per_check_; }
  /// One line per failed case.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  std::string mode_;
  std::int64_t cases_ = 0;
  std::map<std::string, std::int64_t> per_check_;
  std::vector<std::string> failures_;
};

/// Generates and runs every case of an operator in a mode:
/// - value: results against the float64 reference, shapes and dtypes, inputs unchanged;
/// - sequential: results against the sequential mode's;
/// - offset, transposed, sliced: the same results from inputs that lie otherwise in memory;
/// - repeat: the same bits again; threads: the same bits with 1, 2, 3, 8 and 16 threads (a NaN equals every NaN);
/// - special: the sequential mode's results and gradients, NaN and infinities at the same places, with NaN, infinities,
///   denormal numbers, and numbers near both ends of the range among the inputs;
/// - guards: nothing written outside the buffers, nothing left unwritten, nothing leaked, forward and backward;
/// - gradient: against central differences of the reference, in float64;
/// - sequential gradient: against the sequential mode's float64 gradient; strided gradient: of transposed leaves;
/// - 16 bits: results in bfloat16 and float16 against the float64 reference of the rounded inputs; 16 bits, gradient:
///   against the float32 gradient of the rounded inputs;
/// - mistake: the documented exception with the documented words.
void check_operator(const Operator& op, const std::string& mode, Report& report);

/// The error of `got`, or an empty string. NaN equals NaN; `expected` is rounded to the dtype first.
std::string compare(const Array& got, const Array& expected, DType dtype, double relative, double absolute);

}  // namespace tern::testing
