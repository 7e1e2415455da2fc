#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tern/kernels/algorithms.hpp"
#include "vectorized/convolution/algorithm.hpp"

namespace tern::vectorized::convolution {

/// The name of a pass's decision; null if there is none.
const char* decision(Pass pass);

/// The algorithm of a pass: the forced one if it fits, else the rule's. The rule reads only the problem, because the
/// algorithms sum in different orders and results must depend on nothing else. A problem that need not be deterministic
/// gets the fastest one of a trial in its first call.
template <class T>
const Algorithm<T>& choose(Context& context, const Problem& problem, const Arrays<T>& arrays);

/// The name of the forced algorithm, if it fits, or of the rule's.
template <class T>
std::string_view name_by_rule(const Context& context, const Problem& problem);

/// Whether the algorithm of this name fits.
template <class T>
bool fits_by_name(const Problem& problem, std::string_view name);

/// One that fits and handles all values.
template <class T>
const Algorithm<T>& surest(const Problem& problem);

/// Runs a pass with this algorithm; what that leaves undone, the most robust one computes.
template <class T>
void run_by(Context& context, const Algorithm<T>& algorithm, const Problem& problem, const Arrays<T>& arrays);

/// The layout of the forced algorithm of one of the passes, else of the rule's.
template <class T>
Layout choose_layout(const Context& context, Problem problem);

/// The cached results of trials in this process, one line each: the problem and its algorithm.
std::vector<std::string> remembered_choices();

}  // namespace tern::vectorized::convolution
