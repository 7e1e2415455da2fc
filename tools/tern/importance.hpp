#pragma once
// Permutation importance: how much worse a model gets when the values of a column are shuffled among the rows.

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
  double mean = 0, deviation = 0;  // of the drop in accuracy or R2, over the repeats
  double loss = 0;                 // mean increase of the loss
};

struct Importance {
  std::int64_t examples = 0, repeats = 0;
  double whole = 0;                            // accuracy or R2 with all columns intact
  std::vector<ColumnImportance> columns = {};  // most important first
};

/// For a table's columns as in its file: all inputs of one column, such as those of its categories, move together.
/// Which row gets which value depends only on the seed, the column and the repeat. `stop` is called between columns; if
/// it returns true, the result has no columns.
Importance importance(nn::Module& net, const Blueprint& blueprint, const Examples& examples, std::int64_t repeats,
                      std::uint64_t seed, const std::function<bool()>& stop);

/// As many rows, from all parts of the set, as can be processed in a moment; all, if possible.
Examples some_of(const Examples& examples, const Blueprint& blueprint, std::int64_t repeats);

std::string as_table(const Importance& importance, const Blueprint& blueprint);
std::string as_csv(const Importance& importance, const Blueprint& blueprint);
Json as_json(const Importance& importance);

}  // namespace tern::tool
