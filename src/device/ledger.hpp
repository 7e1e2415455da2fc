#pragma once

#include "tern/device/device.hpp"

namespace tern {

/// Counts a move between two memories, or throws TransferError where the scope forbids it. Throws Error while a step is
/// being recorded: a move cannot be replayed.
void count_transfer(const Scope& scope, const Memory& from, const Memory& to, std::size_t bytes);

/// All moves since the process began, whatever reset_transfers() did.
std::vector<Transfer> all_transfers();
/// Those of `now` that came after `before`, an earlier result of all_transfers().
std::vector<Transfer> since(std::vector<Transfer> now, const std::vector<Transfer>& before);

}  // namespace tern
