#pragma once
// What the parts of the cards share, behind stub/cuda_runtime.h.

#include <functional>
#include <mutex>

#include "stub/cuda_runtime.h"

namespace card {

using Work = std::function<void()>;

/// One lock for all of the card's state; the work itself runs outside of it.
std::mutex& card_mutex();

inline thread_local int current = 0;  ///< the thread's card

/// What is used on another card than its own.
cudaError_t misuse();

/// The card of a stream.
int device_of(cudaStream_t stream);

/// Queues work on a stream, or records it; with the card locked.
cudaError_t push(cudaStream_t stream, Work work);

}  // namespace card
