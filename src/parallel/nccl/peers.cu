#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "parallel/nccl/peers.hpp"
#include "parallel/nccl/units.cuh"
#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

constexpr int most_ranks = 8;
constexpr std::size_t inbox_bytes = std::size_t{8} << 20;
// Few, as they stay while the other devices are not there yet, beside the kernels of backward.
constexpr unsigned threads = 512, most_blocks = 32;
// So often a word is looked at before the host's are, which are further away.
constexpr unsigned patience = 4096;

/// What a kernel knows of the others. A unit of 16 bytes travels as two lines of two words, each with the number of the
/// call behind it; both words of such a pair arrive at once. Lines of odd and of even calls have room of their own: who
/// writes those of a call has had what the others sent in the call before, so they are through with the one before
/// that.
struct Links {
  uint4* out[most_ranks];        ///< in the memory of each other rank: what this one sends it
  const uint4* in[most_ranks];   ///< here: what each other one sends
  std::uint32_t* state;          ///< here: the number of the last call, and how many blocks of this one are done
  volatile std::uint32_t* gone;  ///< on the host, of each rank: nobody is to wait for it
  volatile std::uint32_t* lost;  ///< on the host: one more than the rank that was waited for in vain
  std::uint32_t capacity;        ///< units of a message
  int rank, size;
};

__device__ void write_line(uint4* line, std::uint32_t a, std::uint32_t b, std::uint32_t call) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(line), "r"(a), "r"(call), "r"(b), "r"(call)
               : "memory");
}

__device__ uint4 read_line(const uint4* line) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(line)
               : "memory");
  return value;
}

/// The unit that another rank sent in this call; waits for it.
__device__ uint4 receive(const Links& links, int rank, std::size_t place, std::uint32_t call) {
  const uint4 *const first = links.in[rank] + place, *const second = first + links.capacity;
  bool over = false;
  for (unsigned looks = 1;; ++looks) {
    const uint4 a = read_line(first), b = read_line(second);
    if (a.y == call && a.w == call && b.y == call && b.w == call) return {a.x, a.z, b.x, b.z};
    if (looks % patience != 0) continue;
    if (over) {
      *links.lost = static_cast<std::uint32_t>(rank) + 1;
      return {};
    }
    // What it sent before it went is here, or on its way: one round more.
    over = links.gone[rank] != 0 || links.gone[links.rank] != 0;
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_units(const __grid_constant__ Pieces pieces, const __grid_constant__ Links links, bool mean) {
  constexpr int width = Pieces::unit / sizeof(T);
  std::uint32_t call = links.state[0] + 1;
  if (call == 0) call = 2;  // no memory holds it to begin with, and it is even
  const std::size_t room = call % 2 * std::size_t{2} * links.capacity;
  const std::uint32_t units = pieces.begin[pieces.count], all = gridDim.x * threads;
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < units; i += all) {
    const uint4 own = unit_of(pieces, i).load();
    for (int step = 1; step < links.size; ++step) {
      uint4* const line = links.out[(links.rank + step) % links.size] + room + i;
      write_line(line, own.x, own.y, call);
      write_line(line + links.capacity, own.z, own.w, call);
    }
  }
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < units; i += all) {
    const Unit unit = unit_of(pieces, i);
    T sum[width];
    for (int rank = 0; rank < links.size; ++rank) {
      const uint4 sent = rank == links.rank ? unit.load() : receive(links, rank, room + i, call);
      T terms[width];
      memcpy(terms, &sent, sizeof terms);
      for (int k = 0; k < width; ++k) sum[k] = rank == 0 ? terms[k] : sum[k] + terms[k];
    }
    if (mean)
      for (int k = 0; k < width; ++k) sum[k] /= static_cast<T>(links.size);
    uint4 result;
    memcpy(&result, sum, sizeof result);
    unit.store(result);
  }
  // The last block counts the call; all others have read its number.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&links.state[1], 1) + 1 < gridDim.x) return;
  links.state[1] = 0;
  links.state[0] = call;
}

bool succeeded(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();  // it is no later call's
  return status == cudaSuccess;
}

/// What all ranks use, to the end of the last one: words on the host, and the memory that they write to.
struct Free {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreeHost {
  void operator()(std::uint32_t* words) const { (void)cudaFreeHost(words); }
};
using Allocated = std::unique_ptr<void, Free>;
struct Shared {
  std::unique_ptr<std::uint32_t, FreeHost> words;  // gone, and lost, of each rank
  std::array<Allocated, most_ranks> inboxes;
};

bool has_words(Shared& shared) {
  constexpr std::size_t bytes = std::size_t{2} * most_ranks * sizeof(std::uint32_t);
  std::uint32_t* words = nullptr;
  if (!succeeded(cudaHostAlloc(&words, bytes, cudaHostAllocPortable | cudaHostAllocMapped))) return false;
  std::memset(words, 0, bytes);
  shared.words.reset(words);
  return true;
}

/// An inbox and the counters behind it, on the present device, whose kernels are loaded; null where it cannot be.
Allocated zeros() {
  constexpr std::size_t bytes = inbox_bytes + 256;
  cudaFuncAttributes attributes{};
  void* memory = nullptr;
  if (!succeeded(cudaFuncGetAttributes(&attributes, sum_units<float>)) ||
      !succeeded(cudaFuncGetAttributes(&attributes, sum_units<double>)) || !succeeded(cudaMalloc(&memory, bytes)))
    return {};
  Allocated inbox(memory);
  // Before anybody knows of it.
  if (!succeeded(cudaMemset(memory, 0, bytes)) || !succeeded(cudaDeviceSynchronize())) return {};
  return inbox;
}

/// What a rank tells the others of itself.
struct Introduction {
  std::array<char, 64> machine{};
  std::int64_t process = 0;
  int device = 0;
  void* inbox = nullptr;                            // null: it cannot take part
  const std::shared_ptr<Shared>* shared = nullptr;  // of the first rank
};

/// Whether the present device reads and writes the memory of another one.
bool reaches(int device, int other) {
  if (device == other) return true;
  int can = 0;
  if (!succeeded(cudaDeviceCanAccessPeer(&can, device, other)) || can == 0) return false;
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  return succeeded(status) || status == cudaErrorPeerAccessAlreadyEnabled;
}

}  // namespace

struct Peers::Body {
  Links links{};
  std::shared_ptr<Shared> shared;
  int device = 0;
};

Peers::Peers(std::unique_ptr<Body> body) : body_(std::move(body)) {}

std::unique_ptr<Peers> Peers::open(Collective& host, int device) {
  const int size = host.size(), rank = host.rank();
  if (size > most_ranks) return nullptr;
  const auto own_shared = std::make_shared<Shared>();
  Allocated inbox = rank != 0 || has_words(*own_shared) ? zeros() : Allocated();
  Introduction own{.process = getpid(), .device = device, .inbox = inbox.get(), .shared = &own_shared};
  (void)gethostname(own.machine.data(), own.machine.size() - 1);
  std::vector<Introduction> all(static_cast<std::size_t>(size));
  host.all_gather(&own, all.data(), sizeof own, DType::uint8, nullptr);
  std::uint8_t suits = 1;
  for (const Introduction& other : all)
    suits = suits != 0 && other.inbox != nullptr && other.machine == own.machine && other.process == own.process &&
            reaches(device, other.device);
  host.all_reduce(&suits, 1, DType::uint8, Reduction::min, nullptr);
  auto body = std::make_unique<Body>();
  if (suits != 0) body->shared = *all[0].shared;
  host.barrier(nullptr);  // all have a share of it
  if (suits == 0) return nullptr;
  body->shared->inboxes[static_cast<std::size_t>(rank)] = std::move(inbox);
  body->device = device;
  Links& links = body->links;
  links.rank = rank;
  links.size = size;
  links.capacity = static_cast<std::uint32_t>(inbox_bytes / 64 / static_cast<std::size_t>(std::max(1, size - 1)));
  links.state = reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(own.inbox) + inbox_bytes);
  links.gone = body->shared->words.get();
  links.lost = links.gone + most_ranks + rank;
  // In the inbox of a rank each other one has its place, in their order: lines of even calls, then of odd ones.
  const auto place = [&](int owner, int sender) {
    const auto position = static_cast<std::size_t>(sender < owner ? sender : sender - 1);
    return static_cast<uint4*>(all[static_cast<std::size_t>(owner)].inbox) + position * 4 * links.capacity;
  };
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    links.out[other] = place(other, rank);
    links.in[other] = place(rank, other);
  }
  return std::unique_ptr<Peers>(new Peers(std::move(body)));
}

Peers::~Peers() {
  if (std::uncaught_exceptions() > 0) leave();
  int present = 0;
  (void)cudaGetDevice(&present);
  (void)cudaSetDevice(body_->device);
  (void)cudaDeviceSynchronize();
  (void)cudaSetDevice(present);
  leave();
}

std::size_t Peers::most_bytes() const { return body_->links.capacity * Pieces::unit; }

void Peers::all_reduce(const Pieces& pieces, DType dtype, bool mean, void* stream) {
  const unsigned blocks = std::clamp((pieces.units() + threads - 1) / threads, 1u, most_blocks);
  const auto kernel = dtype == DType::float64 ? sum_units<double> : sum_units<float>;
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(pieces, body_->links, mean);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw ParallelError(message("all_reduce between devices: ", cudaGetErrorString(status)));
}

void Peers::leave() noexcept { body_->links.gone[body_->links.rank] = 1; }

int Peers::lost() const { return static_cast<int>(*body_->links.lost) - 1; }

}  // namespace tern::parallel
