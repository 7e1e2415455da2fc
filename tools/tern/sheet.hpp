#pragma once
// A page of pictures with captions, as one file.

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace tern::tool {

struct SheetPicture {
  Json pixels = {};                  // see pixels_of
  std::string caption = {};          // a line or two
  std::string title = {};            // a line above them, in bold
  std::optional<double> share = {};  // of 1, drawn as a bar
  std::string wrong = {};            // what is wrong with it: the picture is marked
  std::string file = {};             // where it comes from, in small print
};

struct SheetPart {
  std::string heading = {};  // may be empty
  std::vector<SheetPicture> pictures = {};
};

/// Writes the page. With `first_apart` each part is a row whose first picture is set apart.
void write_sheet(const std::string& file, const std::string& title, const std::string& note,
                 const std::vector<SheetPart>& parts, bool first_apart);

}  // namespace tern::tool
