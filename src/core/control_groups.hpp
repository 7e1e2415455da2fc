#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace tern {

/// Calls visit(folder) for each control group that limits this process through a controller ("cpu", "memory"): its own
/// and all parents. `process` is /proc/self/cgroup, `groups` /sys/fs/cgroup, of either version. In a container a folder
/// may not exist.
void for_each_control_group(const std::filesystem::path& process, const std::filesystem::path& groups,
                            const std::string& controller,
                            const std::function<void(const std::filesystem::path& folder)>& visit);

}  // namespace tern
