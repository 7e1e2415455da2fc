#pragma once

#include "tern/device/device.hpp"

namespace tern {

/// Counts a move between two memories, or throws TransferError where the scope forbids it. Throws Error while a step is
/// being recorded: a move cannot be replayed.
void count_transfer(const Scope& scope, const Memory& from, const Memory& to, std::size_t bytes);

}  // namespace tern
