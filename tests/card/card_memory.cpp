// The memory of the cards of stub/cuda_runtime.h: which card holds what, and what is copied between them.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "card.hpp"

namespace {

using card::card_mutex, card::current, card::device_of, card::misuse, card::push;

std::atomic<int> all_peer_copies{0}, all_straight_copies{0};

struct Piece {
  std::size_t bytes;
  int device;
};

// With the card locked.
std::map<const std::byte*, Piece>& pieces() {
  static auto* all = new std::map<const std::byte*, Piece>;
  return *all;
}
int owner_of(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  auto piece = pieces().upper_bound(byte);
  if (piece == pieces().begin()) return -1;
  --piece;
  return byte < piece->first + piece->second.bytes ? piece->second.device : -1;
}
std::set<std::pair<int, int>>& links() {  // from a card to one whose memory it reaches
  static auto* all = new std::set<std::pair<int, int>>;
  return *all;
}

}  // namespace

int card::peer_copies() { return all_peer_copies; }
int card::straight_copies() { return all_straight_copies; }
int card::of(const void* address) {
  const std::scoped_lock lock(card_mutex());
  return owner_of(address);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  const std::scoped_lock lock(card_mutex());
  return links().insert({current, peer}).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const cudaError_t status = cudaHostAlloc(pointer, bytes, 0);
  const std::scoped_lock lock(card_mutex());
  if (status == cudaSuccess) pieces()[static_cast<std::byte*>(*pointer)] = {bytes, current};
  return status;
}
cudaError_t cudaFree(void* pointer) {
  {
    const std::scoped_lock lock(card_mutex());
    pieces().erase(static_cast<std::byte*>(pointer));
  }
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = std::size_t{8} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const std::scoped_lock lock(card_mutex());
  for (const void* const end : {static_cast<const void*>(to), from})
    if (const int device = owner_of(end); device >= 0 && device != device_of(stream)) return misuse();
  return push(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const std::scoped_lock lock(card_mutex());
  if (owner_of(to) != to_device || owner_of(from) != from_device || device_of(stream) != to_device) return misuse();
  ++all_peer_copies;
  if (links().contains({to_device, from_device})) ++all_straight_copies;
  return push(stream, [=] { std::memcpy(to, from, bytes); });
}
