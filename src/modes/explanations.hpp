#pragma once
// The text of Device::explain() for a Device{"auto"}.

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

/// Stores a sentence about `subject` for the device with that number (Scope::automatic), replacing the previous one.
void explain(std::uint64_t device, std::uint64_t subject, std::string sentence);
/// The sentences, oldest first; at most the last 64.
std::vector<std::string> explanations(std::uint64_t device);
void forget_explanations(std::uint64_t device) noexcept;

}  // namespace tern
