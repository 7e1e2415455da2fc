#pragma once
// What happens when a closed address is touched: by a kernel, which then ends; by the host, which hears what it did.

#include <cstddef>
#include <functional>
#include <optional>

namespace tern::debug {

/// Hears of closed addresses from now on, also where somebody else has come to hear in between.
void hear_signals() noexcept;

/// Runs the kernel. Returns the address that ended it, where one did: as it was handed out if it is the device's.
std::optional<std::byte*> touched(const std::function<void()>& kernel);

}  // namespace tern::debug
