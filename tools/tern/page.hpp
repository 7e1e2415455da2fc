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

/// JSON that can be embedded in a script without ending it.
std::string in_script(std::string json);

/// The self-contained HTML page of some runs; very many steps and epochs are thinned. `live` is the address from which
/// it requests further events of its only run.
std::string page(const std::vector<PageRun>& runs, const std::string& live = {});

}  // namespace tern::tool
