#pragma once
// One program, traced at several batches.

#include <string>

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Writes the batch into the shapes and attributes of `a`, traced at n: `b` is the same program at m. Throws GraphError
/// where it does other work there.
void join(Structure& a, const Structure& b, std::int64_t n, std::int64_t m);

/// What `program`, traced at m, does and `whole` would not do there; empty: nothing.
std::string difference_at(const Structure& whole, const Structure& program, std::int64_t m);

/// What differs between the work of a graph and that of the program that it was made from, both traced at one batch;
/// empty: nothing. Operators that hand on their input are in neither: an expand to what is there already. Copies do not
/// count: a program makes none of a tensor whose elements follow one another. Without `sizes` results may have others.
std::string difference_of_work(const Structure& graph, const Structure& program, bool sizes = true);

}  // namespace tern::graph
