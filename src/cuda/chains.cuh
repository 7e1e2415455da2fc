#pragma once
// Chains: small products that a recording queues one after the other run in one kernel, whose blocks wait for each
// other where a product reads what an earlier one writes. That takes less than a launch. Whatever else is queued on the
// stream ends the chain.

#include <functional>
#include <vector>

#include "cuda/support.cuh"

namespace tern::cuda {

/// Bytes of the card that a kernel reads or writes: lines of `line` bytes, `pitch` apart.
struct Touched {
  const void* begin = nullptr;
  std::int64_t lines = 0, line = 0, pitch = 0;
};

struct Chain {
  /// Queues the links at `table`, which has the bytes of a counter, then the links.
  using Launch = void (*)(const Context& context, std::byte* table, int links, int waits);
  static constexpr std::size_t counter_bytes = 16;  ///< zeros
};

/// Whether products of the context are recorded in chains now.
bool chains(const Context& context);
/// Begins a link: whether it must wait for the links before it. Links of another `launch` end the chain.
bool next_link(const Context& context, Chain::Launch launch, const std::vector<Touched>& reads, const Touched& writes);
/// Ends it. A link that stays alone is launched by `alone`.
void add_link(const std::byte* link, std::size_t bytes, std::function<void()> alone);
/// Launches a chain of one link at once.
void launch_link(Context& context, Chain::Launch launch, const std::byte* link, std::size_t bytes);

/// Whether the thread has begun a chain.
extern thread_local bool chained;
/// Launches what the thread has chained on this stream.
void end_chain(void* stream);
/// Forgets it.
void drop_chain() noexcept;

}  // namespace tern::cuda
