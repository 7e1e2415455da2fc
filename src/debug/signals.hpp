#pragma once
// Handles accesses to closed addresses: a kernel ends; the host gets a message.

#include <cstddef>
#include <functional>
#include <optional>

namespace tern::debug {

/// Installs the signal handlers, also if somebody else has replaced them in between.
void hear_signals() noexcept;

/// Runs the kernel. Returns the address that ended it, if one did: the library's address if it belongs to the device.
std::optional<std::byte*> touched(const std::function<void()>& kernel);

}  // namespace tern::debug
