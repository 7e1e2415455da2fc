#pragma once
// A page of pictures in rows, each with words beneath it: a file by itself.

#include <string>
#include <vector>

#include "options.hpp"

namespace tern::tool {

struct SheetPicture {
  Json pixels = {};          // see pixels_of
  std::string caption = {};  // a line or two
};

/// Writes the page. The first picture of a row is set apart where `first_apart` is true.
void write_sheet(const std::string& file, const std::string& title, const std::string& note,
                 const std::vector<std::vector<SheetPicture>>& rows, bool first_apart);

}  // namespace tern::tool
