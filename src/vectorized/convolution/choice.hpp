#pragma once

#include <string>
#include <vector>

#include "tern/kernels/algorithms.hpp"
#include "vectorized/convolution/algorithm.hpp"

namespace tern::vectorized::convolution {

/// The name of the decision about a pass; null where there is none.
const char* decision(Pass pass);

/// The algorithm that a pass takes: the forced one where it fits, else by the rule, which reads the problem alone,
/// because the algorithms sum in different orders and results must depend on nothing else; for a problem that need not
/// be deterministic the fastest one in a trial on its first call.
template <class T>
const Algorithm<T>& choose(Context& context, const Problem& problem, const Arrays<T>& arrays);

/// One that fits and computes any values.
template <class T>
const Algorithm<T>& surest(const Problem& problem);

/// Computes a pass by this algorithm, and what that leaves undone by the surest.
template <class T>
void run_by(Context& context, const Algorithm<T>& algorithm, const Problem& problem, const Arrays<T>& arrays);

/// The layout that the forced algorithm of one of the passes works in, else the rule's.
template <class T>
Layout choose_layout(const Context& context, Problem problem);

/// What trials found and this process remembers, a line each: the problem and its algorithm.
std::vector<std::string> remembered_choices();

}  // namespace tern::vectorized::convolution
