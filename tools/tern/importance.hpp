#pragma once
// Permutation importance: how much worse a model is when the values of a column are dealt out anew among the rows.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "examples.hpp"
#include "options.hpp"
#include "tern/nn/module.hpp"

namespace tern::tool {

struct ColumnImportance {
  std::string column = {};
  double mean = 0, deviation = 0;  // of the fall of the accuracy or R2, over the repeats
  double loss = 0;                 // by how much the loss rises, in the mean
};

struct Importance {
  std::int64_t examples = 0, repeats = 0;
  double whole = 0;                            // accuracy or R2 with all columns as they are
  std::vector<ColumnImportance> columns = {};  // the most important one first
};

/// Of a table's columns as its file has them: all inputs of one, such as those of its categories, move together. Which
/// row gets which value depends on the seed, the column and the repeat alone. `stop` is asked between columns; when it
/// says true, there are no columns.
Importance importance(nn::Module& net, const Blueprint& blueprint, const Examples& examples, std::int64_t repeats,
                      std::uint64_t seed, const std::function<bool()>& stop);

/// As many rows, from all parts of the set, as a moment is enough for; all, where it is enough for these.
Examples some_of(const Examples& examples, const Blueprint& blueprint, std::int64_t repeats);

std::string as_table(const Importance& importance, const Blueprint& blueprint);
std::string as_csv(const Importance& importance, const Blueprint& blueprint);
Json as_json(const Importance& importance);

}  // namespace tern::tool
