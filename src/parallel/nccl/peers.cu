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
// Few and small: they stay beside the kernels of backward while the other devices are not there yet.
constexpr unsigned threads = 256, most_blocks = 64;
/// Units that a thread has on their way at once.
constexpr int batch = 4;
// So often a word is looked at before the host's are, which are further away.
constexpr unsigned patience = 4096;
// Messages between two ranks, in units; among more, each writes its own to all others, and has as much less.
constexpr std::size_t most_lines = (std::size_t{1} << 19) / Pieces::unit;
constexpr std::size_t most_blocked = (std::size_t{4} << 20) / Pieces::unit + Pieces::most;

/// What a rank writes into the memory of another one. All of it is there twice, for odd and for even calls: who writes
/// in a call has had what the others wrote in the call before, so they are through with the one before that.
///
/// A short message travels in lines: two words, each with the number of the call behind it. Both words of such a pair
/// arrive at once, so that nobody waits for more than the words that it adds. In a longer one the number goes behind
/// what a block wrote: half the bytes, and a wait for the slowest thread.
struct Inbox {
  uint4* lines = nullptr;            ///< of both calls: the first of each unit, then the second
  uint4* units = nullptr;            ///< of both calls
  std::uint32_t* written = nullptr;  ///< of each block, the call whose units are there
};

/// What a kernel knows of the others.
struct Links {
  Inbox out[most_ranks];         ///< at each other rank: what this one sends it
  Inbox in[most_ranks];          ///< here: what each other one sends
  std::uint32_t* state;          ///< here: the number of the last call, and how many blocks of this one are done
  volatile std::uint32_t* gone;  ///< on the host, of each rank: nobody is to wait for it
  volatile std::uint32_t* lost;  ///< on the host: one more than the rank that was waited for in vain
  std::uint32_t lines, units;    ///< of a message: the most that go in lines, and at all
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

__device__ void write_call(std::uint32_t* written, std::uint32_t call) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(written), "r"(call) : "memory");
}

__device__ std::uint32_t read_call(const std::uint32_t* written) {
  std::uint32_t call;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(call) : "l"(written) : "memory");
  return call;
}

/// Waits for what another rank sends; not for one that is gone.
template <class There>
__device__ void wait(const Links& links, int rank, const There& there) {
  bool over = false;
  for (unsigned looks = 1; !there(); ++looks) {
    if (looks % patience != 0) continue;
    if (over) {
      *links.lost = static_cast<std::uint32_t>(rank) + 1;
      return;
    }
    // What it sent before it went is here, or on its way: one round more.
    over = links.gone[rank] != 0 || links.gone[links.rank] != 0;
  }
}

template <bool in_lines>
__device__ void send(const Inbox& inbox, const Links& links, std::size_t odd, std::uint32_t unit, uint4 value,
                     std::uint32_t call) {
  if constexpr (in_lines) {
    uint4* const line = inbox.lines + odd * 2 * links.lines + unit;
    write_line(line, value.x, value.y, call);
    write_line(line + links.lines, value.z, value.w, call);
  } else {
    inbox.units[odd * links.units + unit] = value;
  }
}

template <bool in_lines>
__device__ uint4 receive(const Links& links, int rank, std::size_t odd, std::uint32_t unit, std::uint32_t call) {
  const Inbox& inbox = links.in[rank];
  if constexpr (in_lines) {
    const uint4* const line = inbox.lines + odd * 2 * links.lines + unit;
    uint4 a, b;
    wait(links, rank, [&] {
      a = read_line(line);
      b = read_line(line + links.lines);
      return a.y == call && a.w == call && b.y == call && b.w == call;
    });
    return {a.x, a.z, b.x, b.z};
  } else {
    return __ldcg(inbox.units + odd * links.units + unit);
  }
}

/// What this block wrote is there, and what the same block of each other rank wrote is here.
__device__ void meet(const Links& links, std::uint32_t call) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < links.size && other != links.rank) {
    __threadfence_system();
    write_call(links.out[other].written + blockIdx.x, call);
    const std::uint32_t* const written = links.in[other].written + blockIdx.x;
    wait(links, other, [&] { return read_call(written) == call; });
  }
  __syncthreads();
}

template <class T, bool in_lines>
__global__ void __launch_bounds__(threads)
    sum_units(const __grid_constant__ Pieces pieces, const __grid_constant__ Links links, bool mean) {
  constexpr int width = Pieces::unit / sizeof(T);
  std::uint32_t call = links.state[0] + 1;
  if (call == 0) call = 2;  // no memory holds it to begin with, and it is even
  const std::size_t odd = call % 2;
  const std::uint32_t units = pieces.begin[pieces.count], all = gridDim.x * threads;
  const std::uint32_t first = blockIdx.x * threads + threadIdx.x;
  for (std::uint32_t begin = first; begin < units; begin += batch * all) {
    uint4 own[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k)
      if (begin + k * all < units) own[k] = unit_of(pieces, begin + k * all).load();
#pragma unroll
    for (int k = 0; k < batch; ++k)
      for (int step = 1; step < links.size && begin + k * all < units; ++step)
        send<in_lines>(links.out[(links.rank + step) % links.size], links, odd, begin + k * all, own[k], call);
  }
  if constexpr (!in_lines) meet(links, call);
  for (std::uint32_t begin = first; begin < units; begin += batch * all) {
    T sum[batch][width];
    for (int rank = 0; rank < links.size; ++rank) {
      uint4 sent[batch] = {};
#pragma unroll
      for (int k = 0; k < batch; ++k)
        if (const std::uint32_t i = begin + k * all; i < units)
          sent[k] = rank == links.rank ? unit_of(pieces, i).load() : receive<in_lines>(links, rank, odd, i, call);
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        T terms[width];
        memcpy(terms, &sent[k], sizeof terms);
        for (int place = 0; place < width; ++place)
          sum[k][place] = rank == 0 ? terms[place] : sum[k][place] + terms[place];
      }
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (begin + k * all >= units) break;
      if (mean)
        for (int place = 0; place < width; ++place) sum[k][place] /= static_cast<T>(links.size);
      uint4 result;
      memcpy(&result, sum[k], sizeof result);
      unit_of(pieces, begin + k * all).store(result);
    }
  }
  // The last block counts the call; all others have read its number.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&links.state[1], 1) + 1 < gridDim.x) return;
  links.state[1] = 0;
  links.state[0] = call;
}

using Kernel = void (*)(Pieces, Links, bool);
Kernel kernel_of(bool is_double, bool in_lines) {
  if (is_double) return in_lines ? sum_units<double, true> : sum_units<double, false>;
  return in_lines ? sum_units<float, true> : sum_units<float, false>;
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
  std::array<Allocated, most_ranks> memories;
};

bool has_words(Shared& shared) {
  constexpr std::size_t bytes = std::size_t{2} * most_ranks * sizeof(std::uint32_t);
  std::uint32_t* words = nullptr;
  if (!succeeded(cudaHostAlloc(&words, bytes, cudaHostAllocPortable | cudaHostAllocMapped))) return false;
  std::memset(words, 0, bytes);
  shared.words.reset(words);
  return true;
}

/// How the memory of a rank is divided: its counters, then what each other rank writes.
struct Layout {
  explicit Layout(int ranks)
      : senders(static_cast<std::size_t>(std::max(1, ranks - 1))),
        lines(most_lines / senders),
        units(most_blocked / senders) {}

  static constexpr std::size_t state = 256, written = most_blocks * sizeof(std::uint32_t);
  std::size_t senders, lines, units;

  std::size_t inbox() const { return written + (4 * lines + 2 * units) * Pieces::unit; }
  std::size_t bytes() const { return state + senders * inbox(); }
  /// Where `sender` writes, in the memory of `owner`.
  Inbox find(void* memory, int owner, int sender) const {
    const auto position = static_cast<std::size_t>(sender < owner ? sender : sender - 1);
    std::byte* const begin = static_cast<std::byte*>(memory) + state + position * inbox();
    auto* const first = reinterpret_cast<uint4*>(begin + written);
    return {first, first + 4 * lines, reinterpret_cast<std::uint32_t*>(begin)};
  }
};

/// The memory of a rank, on the present device, whose kernels are loaded; null where it cannot be.
Allocated zeros(std::size_t bytes) {
  cudaFuncAttributes attributes{};
  for (const bool is_double : {false, true})
    for (const bool in_lines : {false, true})
      if (!succeeded(cudaFuncGetAttributes(&attributes, kernel_of(is_double, in_lines)))) return {};
  void* memory = nullptr;
  if (!succeeded(cudaMalloc(&memory, bytes))) return {};
  Allocated result(memory);
  // Before anybody knows of it.
  if (!succeeded(cudaMemset(memory, 0, bytes)) || !succeeded(cudaDeviceSynchronize())) return {};
  return result;
}

/// What a rank tells the others of itself.
struct Introduction {
  std::array<char, 64> machine{};
  std::int64_t process = 0;
  int device = 0;
  void* memory = nullptr;                           // null: it cannot take part
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
  const Layout layout(size);
  Allocated memory = rank != 0 || has_words(*own_shared) ? zeros(layout.bytes()) : Allocated();
  Introduction own{.process = getpid(), .device = device, .memory = memory.get(), .shared = &own_shared};
  (void)gethostname(own.machine.data(), own.machine.size() - 1);
  std::vector<Introduction> all(static_cast<std::size_t>(size));
  host.all_gather(&own, all.data(), sizeof own, DType::uint8, nullptr);
  std::uint8_t suits = 1;
  for (const Introduction& other : all)
    suits = suits != 0 && other.memory != nullptr && other.machine == own.machine && other.process == own.process &&
            reaches(device, other.device);
  host.all_reduce(&suits, 1, DType::uint8, Reduction::min, nullptr);
  auto body = std::make_unique<Body>();
  if (suits != 0) body->shared = *all[0].shared;
  host.barrier(nullptr);  // all have a share of it
  if (suits == 0) return nullptr;
  body->shared->memories[static_cast<std::size_t>(rank)] = std::move(memory);
  body->device = device;
  Links& links = body->links;
  links.rank = rank;
  links.size = size;
  links.lines = static_cast<std::uint32_t>(layout.lines);
  links.units = static_cast<std::uint32_t>(layout.units);
  links.state = static_cast<std::uint32_t*>(own.memory);
  links.gone = body->shared->words.get();
  links.lost = links.gone + most_ranks + rank;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    links.out[other] = layout.find(all[static_cast<std::size_t>(other)].memory, other, rank);
    links.in[other] = layout.find(own.memory, rank, other);
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

std::size_t Peers::most_bytes() const { return body_->links.units * Pieces::unit; }

void Peers::all_reduce(const Pieces& pieces, DType dtype, bool mean, void* stream) {
  const unsigned blocks = std::clamp((pieces.units() + threads - 1) / threads, 1u, most_blocks);
  const Kernel kernel = kernel_of(dtype == DType::float64, pieces.units() <= body_->links.lines);
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(pieces, body_->links, mean);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw ParallelError(message("all_reduce between devices: ", cudaGetErrorString(status)));
}

void Peers::leave() noexcept { body_->links.gone[body_->links.rank] = 1; }

int Peers::lost() const { return static_cast<int>(*body_->links.lost) - 1; }

}  // namespace tern::parallel
