#include "support/checks.hpp"

#include <algorithm>
#include <bit>
#include <typeinfo>

#include "support/case.hpp"
#include "support/memories.hpp"

namespace tern::testing {
namespace {

/// Four of them are the error of a product of two factors rounded to 8 bits.
double epsilon_of(DType dtype) {
  if (dtype == DType::float32 && check_options().precision == Precision::bf16) return 0x1p-10;
  return dtype == DType::float64 ? 0x1p-52 : 0x1p-23;
}

/// What several modes and dtypes are compared with; computed once per sample.
struct Expected {
  std::vector<Array> results;               ///< the reference's
  std::vector<Array> sequential_results;    ///< of this dtype
  std::vector<Array> sequential_gradients;  ///< in float64
};

/// For one operator: all of them together would take gigabytes.
std::map<std::string, Expected>& expected_cache() {
  static std::map<std::string, Expected> cache;
  return cache;
}

const Expected& expected_of(const Case& c) {
  std::map<std::string, Expected>& cache = expected_cache();
  const std::string key = message(c.op.name, '/', c.sample.name, '/', c.dtype);
  const auto known = cache.find(key);
  if (known != cache.end()) return known->second;
  Expected expected;
  expected.results = c.sample.reference(reference_inputs(c));
  expected.sequential_results = to_arrays(results_of(c, mode("sequential")));
  if (differentiable(c))
    expected.sequential_gradients = gradients_of({c.op, c.sample, DType::float64}, mode("sequential"));
  return cache.emplace(key, std::move(expected)).first->second;
}

std::string compare_all(const std::vector<Array>& got, const std::vector<Array>& expected, const Case& c, double terms,
                        bool exact) {
  if (got.size() != expected.size()) return message(got.size(), " results, expected ", expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const DType dtype = expected[i].dtype.value_or(c.dtype);
    if (got[i].dtype && *got[i].dtype != dtype)
      return message("result ", i, " is ", *got[i].dtype, ", expected ", dtype);
    const double unit = exact ? 0 : c.op.ulps * epsilon_of(dtype);
    const std::string wrong =
        compare(got[i], expected[i], dtype, unit * std::sqrt(terms), unit * terms * c.sample.magnitude);
    if (!wrong.empty()) return message("result ", i, ": ", wrong);
  }
  return {};
}

std::string compare_gradients(const std::vector<Array>& got, const std::vector<Array>& expected, const Case& c) {
  const double terms = std::max(c.sample.gradient_terms, c.sample.terms);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double unit = 4 * c.op.ulps * epsilon_of(c.dtype);
    const std::string wrong = compare(got[i], expected[i], c.dtype, unit * std::sqrt(terms), unit * terms);
    if (!wrong.empty()) return message("gradient of argument ", i, ": ", wrong);
  }
  return {};
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  if (a.size() != b.size()) return false;
  const auto same = [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i].shape == b[i].shape) || !std::ranges::equal(a[i].values, b[i].values, same)) return false;
  return true;
}

std::string check_value(const Case& c, const Mode& mode) {
  const std::vector<Tensor> inputs = make_inputs(c.op, c.sample, c.dtype);
  const std::vector<Array> before = to_arrays(inputs);
  std::vector<Tensor> results;
  {
    const Device device(mode);
    results = c.sample.call(inputs);
  }
  const std::string wrong = compare_all(to_arrays(results), expected_of(c).results, c, c.sample.terms, c.sample.exact);
  if (!wrong.empty()) return wrong;
  return same_bits(before, to_arrays(inputs)) ? "" : "the operator changed its inputs";
}

std::string check_guards(const Case& c, const std::string& mode_name) {
  GuardedMemory& memory = guarded_memory(mode_name);
  const Mode& mode = guarded_mode(mode_name);
  if (differentiable(c)) {
    // A thread keeps the gradient that backward begins with: no leak.
    const Device device(mode);
    operators::neg(Tensor(Shape{}, c.dtype).set_requires_grad()).backward();
  }
  const std::int64_t live = memory.live();
  std::string wrong =
      compare_all(to_arrays(results_of(c, mode)), expected_of(c).results, c, c.sample.terms, c.sample.exact);
  if (wrong.empty() && differentiable(c))
    wrong = compare_gradients(gradients_of(c, mode), expected_of(c).sequential_gradients, c);
  for (const std::string& finding : memory.take_findings()) wrong += (wrong.empty() ? "" : "; ") + finding;
  if (memory.live() != live) wrong += message("; ", memory.live() - live, " blocks were not released");
  return wrong;
}

std::string check_bits(const Case& c, const Mode& mode, const std::vector<int>& threads) {
  const auto everything = [&](int count) {
    std::vector<Array> all = to_arrays(results_of(c, mode, Layout::contiguous, count));
    if (differentiable(c))
      for (Array& gradient : gradients_of(c, mode, Layout::contiguous, count)) all.push_back(std::move(gradient));
    return all;
  };
  const std::vector<Array> first = everything(threads[0]);
  for (std::size_t i = 1; i < threads.size(); ++i)
    if (!same_bits(first, everything(threads[i])))
      return threads[i] == threads[0] ? std::string("a second run gave other bits")
                                      : message(threads[i], " threads gave other bits than ", threads[0]);
  return {};
}

/// The tolerance of numbers that may all be far from 1: that of the largest of them.
double scale_of(const Array& expected) {
  double largest = 0;
  for (const double value : expected.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

/// `magnitude` is that of terms that may cancel: each mode rounds each of them up to eight times.
std::string compare_scaled(const std::vector<Array>& got, const std::vector<Array>& expected, const Case& c,
                           double unit, const char* what, double magnitude = 0) {
  if (got.size() != expected.size()) return message(got.size(), " results, expected ", expected.size());
  const double terms = 2 * std::max(c.sample.gradient_terms, c.sample.terms);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const DType dtype = expected[i].dtype.value_or(c.dtype);
    const double smallest = c.dtype == DType::float64 ? 0x1p-1070 : 0x1p-145;
    const double bound = unit * epsilon_of(c.dtype);
    const double noise = 16 * epsilon_of(c.dtype) * magnitude;
    const std::string wrong = compare(got[i], expected[i], dtype, bound * std::sqrt(terms),
                                      std::max(bound * terms * scale_of(expected[i]), noise) + smallest * terms);
    if (!wrong.empty()) return message(what, ' ', i, ": ", wrong);
  }
  return {};
}

/// `expected` with a NaN wherever `got` has one: for operators that multiply zeros where others have nothing to add.
std::vector<Array> with_nans_of(const std::vector<Array>& got, std::vector<Array> expected) {
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
    for (std::int64_t j = 0; j < std::min(got[i].size(), expected[i].size()); ++j)
      if (std::isnan(got[i][j])) expected[i][j] = got[i][j];
  return expected;
}

std::int64_t nans_of(const std::vector<Array>& arrays) {
  std::int64_t count = 0;
  for (const Array& array : arrays)
    count += std::count_if(array.values.begin(), array.values.end(), [](double value) { return std::isnan(value); });
  return count;
}

std::string check_special(const Case& c, const Mode& mode) {
  const Mode& reference = tern::mode("sequential");
  // Sums of integers are exact; of integers and tiny numbers they are not.
  const bool is_exact = c.sample.exact && (c.sample.terms == 1 || c.special <= Special::infinity);
  // docs/numbers.md: a NaN reaches further in convolutions on devices, and in causal attention.
  const bool convolves = c.op.name.starts_with("conv") || c.op.name == "inverted_residual";
  // Where factors are rounded, a sum near the bound of a relu may be 0 here and not there: an infinite weight makes NaN
  // of 0.
  const bool clips = c.op.name == "inverted_residual" && check_options().precision != Precision::strict;
  const bool further = (!mode.memory->host_accessible() && convolves) || c.op.family == "attention" || clips;
  const bool spreads = further && c.special <= Special::infinity;
  const auto compared = [&](const std::vector<Array>& got, const std::vector<Array>& expected, double unit,
                            const char* what, double magnitude) {
    return compare_scaled(got, spreads ? with_nans_of(got, expected) : expected, c, unit, what, magnitude);
  };
  const std::vector<Array> got = to_arrays(results_of(c, mode)), expected = to_arrays(results_of(c, reference));
  const std::string wrong = compared(got, expected, is_exact ? 0 : c.op.ulps, "result", 0);
  if (!wrong.empty() || !differentiable(c)) return wrong;
  // After a NaN that the reference does not have, the activation passes another gradient.
  if (spreads && nans_of(got) != nans_of(expected)) return {};
  const bool cancels = c.sample.gradient_magnitude && c.special > Special::infinity;
  const double magnitude =
      cancels ? c.sample.gradient_magnitude(to_arrays(make_inputs(c.op, c.sample, c.dtype, {}, c.special))) : 0;
  return compared(gradients_of(c, mode), gradients_of(c, reference), 4 * c.op.ulps, "gradient of argument", magnitude);
}

constexpr std::pair<Special, const char*> specials[]{{Special::nan, "special: NaN"},
                                                     {Special::infinity, "special: infinity"},
                                                     {Special::tiny, "special: tiny"},
                                                     {Special::large, "special: large"},
                                                     {Special::small_large, "special: small and large"}};

bool has_layout(const Case& c, Layout layout) {
  return std::any_of(c.sample.arguments.begin(), c.sample.arguments.end(), [&](const Argument& argument) {
    const int rank = argument.shape.rank();
    return element_count(argument.shape) > 0 &&
           (layout == Layout::channels_last ? rank == 4 : rank >= (layout == Layout::transposed ? 2 : 1));
  });
}

void check_sample(const Case& c, const std::string& mode_name, Report& report) {
  const Mode& mode = tern::mode(mode_name);
  const auto run = [&](const char* check, const std::function<std::string()>& body) {
    report.run(c.op, c.sample.name, name_of(c.dtype), check, body);
  };
  run("value", [&] { return check_value(c, mode); });
  if (mode_name != "sequential")
    run("sequential", [&] {
      return compare_all(to_arrays(results_of(c, mode)), expected_of(c).sequential_results, c, 2 * c.sample.terms,
                         c.sample.exact);
    });
  constexpr std::pair<Layout, const char*> layouts[]{{Layout::offset, "offset"},
                                                     {Layout::transposed, "transposed"},
                                                     {Layout::sliced, "sliced"},
                                                     {Layout::channels_last, "channels last"}};
  for (const auto& [layout, name] : layouts)
    if ((!c.sample.large || layout == Layout::channels_last) && has_layout(c, layout))
      run(name, [&, layout = layout] {
        return compare_all(to_arrays(results_of(c, mode, layout)), expected_of(c).results, c, c.sample.terms,
                           c.sample.exact);
      });
  run("guards", [&] { return check_guards(c, mode_name); });
  const bool whole = check_options().whole;
  if (check_options().deterministic) {
    run("repeat", [&] { return check_bits(c, mode, {0, 0}); });
    if (mode_name == "vectorized" && (c.sample.large || whole || check_options().only == "threads"))
      run("threads", [&] { return check_bits(c, mode, {1, 2, 3, 8, 16}); });
  }
  if (mode_name != "sequential" && (c.dtype == DType::float32 || c.dtype == DType::float64)) {
    // One kind per sample in turn, unless there is time for all.
    static std::size_t turn = 0;
    const std::size_t one = turn++ % std::size(specials);
    const std::size_t kinds = check_options().precision == Precision::bf16 ? 2 : std::size(specials);
    for (std::size_t i = 0; i < kinds; ++i)
      if (whole || (i == one && !c.sample.large))
        run(specials[i].second, [&] { return check_special({c.op, c.sample, c.dtype, specials[i].first}, mode); });
  }
  if (!differentiable(c)) return;
  // Among very many elements some are so near a kink that a central difference steps over it.
  if (c.dtype == DType::float64 && c.sample.smooth && !c.sample.large)
    run("gradient", [&] { return check_differences(c, gradients_of(c, mode)); });
  if (mode_name != "sequential" || c.dtype == DType::float32)
    run("sequential gradient",
        [&] { return compare_gradients(gradients_of(c, mode), expected_of(c).sequential_gradients, c); });
  if (!c.sample.large && has_layout(c, Layout::transposed))
    run("strided gradient", [&] {
      return compare_gradients(gradients_of(c, mode, Layout::transposed), expected_of(c).sequential_gradients, c);
    });
  if (has_layout(c, Layout::channels_last))
    run("channels last gradient", [&] {
      return compare_gradients(gradients_of(c, mode, Layout::channels_last), expected_of(c).sequential_gradients, c);
    });
}

/// Every second sample with one of the dtypes in turn, unless there is time for all.
void check_16_bits(const Operator& op, const Sample& sample, const std::string& mode_name, Report& report) {
  static std::size_t turn = 0;
  const std::size_t now = turn++ % 4;
  const bool whole = check_options().whole || check_options().only.starts_with("16 bits");
  if (!whole && (sample.large || now % 2 != 0)) return;
  const auto has = [&](DType dtype) { return std::ranges::find(sample.dtypes, dtype) != sample.dtypes.end(); };
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    if (!whole && (dtype == DType::bfloat16) != (now == 0)) continue;
    const Case c{op, sample, dtype};
    const Mode& mode = tern::mode(mode_name);
    if (has(DType::float32) && !has(dtype))
      report.run(op, sample.name, name_of(dtype), "16 bits", [&] { return check_rounded(c, mode); });
    if (has(DType::float32) && differentiable({op, sample, DType::float32}))
      report.run(op, sample.name, name_of(dtype), "16 bits, gradient",
                 [&] { return check_rounded_gradients(c, mode); });
  }
}

bool is_kind(const Error& error, Invalid::Kind kind) {
  switch (kind) {
    case Invalid::Kind::any:
      return true;
    case Invalid::Kind::shape:
      return dynamic_cast<const ShapeError*>(&error) != nullptr;
    case Invalid::Kind::dtype:
      return dynamic_cast<const DTypeError*>(&error) != nullptr;
    case Invalid::Kind::numeric:
      return dynamic_cast<const NumericError*>(&error) != nullptr;
    case Invalid::Kind::autograd:
      return dynamic_cast<const AutogradError*>(&error) != nullptr;
  }
  return false;
}

std::string check_mistake(const Operator& op, const Invalid& invalid, const Mode& mode) {
  const Device device(mode);
  try {
    invalid.call();
    mode.memory->synchronize(current_scope().context.stream);
  } catch (const Error& error) {
    const bool right = is_kind(error, invalid.kind);
    const std::string text = error.what();
    if (!right) return message("another kind of exception: ", text);
    // A device that finds a bad label later cannot say which call it came from.
    if (invalid.kind == Invalid::Kind::numeric && !mode.memory->host_accessible()) return {};
    const std::string speaker = invalid.speaker.empty() ? op.name.substr(0, op.name.find('/')) : invalid.speaker;
    if (text.rfind(speaker + ":", 0) != 0) return message("the message does not begin with \"", speaker, ":\": ", text);
    for (const std::string& word : invalid.words)
      if (text.find(word) == std::string::npos) return message("the message lacks \"", word, "\": ", text);
    return {};
  } catch (const std::exception& error) {
    return message("an exception that is no tern::Error: ", error.what());
  }
  return "no exception";
}

}  // namespace

CheckOptions& check_options() {
  static CheckOptions options;
  return options;
}

void Report::run(const Operator& op, const std::string& sample, std::string_view dtype, const char* check,
                 const std::function<std::string()>& body) {
  if (!check_options().only.empty() && check_options().only != check) return;
  ++cases_;
  ++per_check_[check];
  std::string wrong;
  try {
    wrong = body();
  } catch (const std::exception& error) {
    wrong = message("threw: ", error.what());
  }
  if (!wrong.empty())
    failures_.push_back(
        message(op.name, " | ", mode_, dtype.empty() ? "" : " | ", dtype, " | ", sample, " | ", check, " | ", wrong));
}

std::string compare(const Array& got, const Array& expected, DType dtype, double relative, double absolute) {
  if (!(got.shape == expected.shape)) return message("shape ", got.shape, ", expected ", expected.shape);
  std::int64_t wrong = 0, worst = -1;
  double largest = 0;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = stored(expected[i], dtype);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::abs(a - b), bound = relative * std::abs(b) + absolute;
    if (error <= bound && !std::isinf(b)) continue;
    ++wrong;
    if (worst < 0 || !(error <= largest)) {
      worst = i;
      largest = error;
    }
  }
  if (wrong == 0) return {};
  std::ostringstream text;
  text.precision(17);
  text << wrong << " of " << got.size() << " elements are off, the worst at " << worst << ": expected "
       << stored(expected[worst], dtype) << ", got " << got[worst] << " (allowed "
       << relative * std::abs(expected[worst]) + absolute << ')';
  return text.str();
}

void check_operator(const Operator& op, const std::string& mode_name, Report& report) {
  expected_cache().clear();
  for (std::size_t i = check_options().first; i < op.samples.size(); i += check_options().every) {
    for (const DType dtype : op.samples[i].dtypes) check_sample({op, op.samples[i], dtype}, mode_name, report);
    check_16_bits(op, op.samples[i], mode_name, report);
  }
  if (check_options().first > 0) return;
  for (const Invalid& invalid : op.invalid)
    report.run(op, invalid.name, "", "mistake", [&] { return check_mistake(op, invalid, tern::mode(mode_name)); });
}

}  // namespace tern::testing
