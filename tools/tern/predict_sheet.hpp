#pragma once
// The contact sheet of `tern predict`: pictures with their predictions.

#include <string>
#include <vector>

#include "evaluation.hpp"

namespace tern::tool {

/// Names and expectations for the predicted pictures.
struct SheetNames {
  std::vector<std::string> files = {};      // [n], or empty: pictures are numbers of a data set
  std::vector<std::int64_t> expected = {};  // [n], the class that each should have; -1: unknown
  std::string by = {};                      // who says so: "folder" or "label"
};

/// Writes an HTML page with at most 240 pictures: first those that differ from their expectation, most confident first;
/// then the others, least confident first.
void write_predict_sheet(const std::string& file, const std::string& model, const Examples& set,
                         const Prediction& prediction, const SheetNames& names, const Blueprint& blueprint);

}  // namespace tern::tool
