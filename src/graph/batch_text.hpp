#pragma once
// Numbers that depend on the batch, as text: {n}, {3n}, {2n+1}, {n-1}.

#include <string>
#include <string_view>
#include <vector>

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// "{2n+1}", or "7" where it does not depend on the batch.
std::string written(const Linear& number);
/// "[{n},3,28,28]".
std::string written_shape(const std::vector<Linear>& shape);
/// The text with numbers in the place of braces. Throws GraphError for braces that hold anything else.
std::string text_at(std::string_view text, std::int64_t n);
/// Reads one number, with or without braces, from the front of `text`. Throws GraphError.
Linear read_linear(std::string_view& text);
/// Joins two texts that differ in whole numbers alone, of batches a and b; throws GraphError where they differ in more.
std::string joined_text(std::string_view at_a, std::int64_t a, std::string_view at_b, std::int64_t b);
/// The number that is `at_a` at batch a and `at_b` at b. Throws GraphError where no whole numbers fit.
Linear joined_number(std::int64_t at_a, std::int64_t a, std::int64_t at_b, std::int64_t b);

}  // namespace tern::graph
