#pragma once

#include <filesystem>

namespace tern {

/// The thread count of a Device that names none: OMP_NUM_THREADS if set, else the cores that this process may run on,
/// limited by its control group's CPU quota. Determined once.
int default_threads();

/// The number of cores that a process's control groups grant, rounded up; 0 if unlimited. `process` is
/// /proc/self/cgroup and `groups` /sys/fs/cgroup; both versions of control groups are read.
int granted_cores(const std::filesystem::path& process, const std::filesystem::path& groups);

}  // namespace tern
