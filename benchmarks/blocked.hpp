#pragma once

namespace tern::benchmarks {

/// Registers the mode "blocked", once: the reference's plain loops with products and convolutions in blocks that stay
/// in the nearest cache. Plain C++ on one thread, the second step of a lecture's ladder.
void register_blocked();

}  // namespace tern::benchmarks
