#pragma once
// Threads of one process as ranks.

#include <chrono>
#include <memory>
#include <vector>

#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// The ends of a group of threads, one per rank.
std::vector<std::unique_ptr<Collective>> thread_ranks(int size, std::chrono::milliseconds limit);

}  // namespace tern::parallel
