#include "core/control_groups.hpp"

#include "core/small_file.hpp"

namespace tern {

void for_each_control_group(const std::filesystem::path& process, const std::filesystem::path& groups,
                            const std::string& controller,
                            const std::function<void(const std::filesystem::path& folder)>& visit) {
  const std::string text = content_of(process);
  for (std::string_view left = text; !left.empty();) {
    const std::string line(next_line(left));  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::filesystem::path root = groups;
    if (controllers.find("," + controller + ",") != std::string::npos)
      root /= controller;
    else if (controllers != ",,")
      continue;
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) visit(root / group);
    visit(root);
  }
}

}  // namespace tern
