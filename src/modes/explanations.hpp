#pragma once
// What Device::explain() says of a Device{"auto"}.

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

/// Keeps a sentence about `subject` for the device of that number (Scope::automatic), in the place of the one before.
void explain(std::uint64_t device, std::uint64_t subject, std::string sentence);
/// The sentences, the oldest first; the last 64 at most.
std::vector<std::string> explanations(std::uint64_t device);
void forget_explanations(std::uint64_t device) noexcept;

}  // namespace tern
