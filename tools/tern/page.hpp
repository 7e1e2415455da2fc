#pragma once

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace tern::tool {

/// A run on the page: a name and the lines of its metrics.
struct PageRun {
  std::string name;
  std::vector<std::string> lines;
};

/// JSON as it may stand inside a script, which it must not end.
std::string in_script(std::string json);

/// The self-contained HTML page of some runs; of very many steps and epochs a part. With `live`, it asks that address
/// for further events of the only run.
std::string page(const std::vector<PageRun>& runs, const std::string& live = {});

}  // namespace tern::tool
