#pragma once
// The contact sheet of `tern predict`: pictures with what the model takes them for.

#include <string>
#include <vector>

#include "evaluation.hpp"

namespace tern::tool {

/// A prediction of a picture, of all that were made.
struct SheetNames {
  std::vector<std::string> files = {};      // [n], or empty: pictures are numbers of a data set
  std::vector<std::int64_t> expected = {};  // [n], the class that each should be; -1: nobody knows
  std::string by = {};                      // who says so: "folder" or "label"
};

/// Writes an HTML page. At most 240 pictures are shown: those that are not what is expected first, the surest ahead;
/// then the others, the least sure ahead.
void write_predict_sheet(const std::string& file, const std::string& model, const Examples& set,
                         const Prediction& prediction, const SheetNames& names, const Blueprint& blueprint);

}  // namespace tern::tool
