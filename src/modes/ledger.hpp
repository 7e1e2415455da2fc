#pragma once

#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

/// Counts every move of the process between two memories, and reports or refuses it as the scope says. It sees only
/// moves, after the observers of the thread.
Observer& ledger();

/// All moves since the process began, regardless of reset_transfers().
std::vector<Transfer> all_transfers();
/// The moves of `now` that came after `before`, an earlier result of all_transfers().
std::vector<Transfer> since(std::vector<Transfer> now, const std::vector<Transfer>& before);

}  // namespace tern
