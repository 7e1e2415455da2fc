#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "parallel/nccl/peers.hpp"
#include "parallel/nccl/times.cuh"
#include "parallel/nccl/units.cuh"
#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

constexpr int most_ranks = 8;
// Small: they stay beside the kernels of backward until the other devices arrive.
constexpr unsigned threads = 256, most_blocks = 160;
/// A packet: adjacent units, followed by one with the call number.
constexpr std::uint32_t units_of_packet = 7, packet = units_of_packet + 1;
// How often a word is polled before the host's words, which are further away.
constexpr unsigned patience = 4096;
// Largest messages between two ranks, in units. With more ranks each writes to all others and has proportionally less.
constexpr std::size_t most_in_lines = (std::size_t{1} << 19) / Pieces::unit;
constexpr std::size_t most_in_packets = (std::size_t{4} << 20) / Pieces::unit + Pieces::most;

/// What a rank writes into the memory of another one. Everything exists twice, for odd and for even calls: a rank that
/// writes in one call has received what the others wrote in the previous call, so they have finished the one before
/// that.
///
/// A short message travels in lines: two words, each followed by the call number. A word and its number arrive
/// together, so a thread waits only for the words that it adds. A longer message travels in packets of 128 bytes, which
/// eight threads of a warp write together and NVLink delivers as a whole, as NCCL's LL128 assumes: one number for seven
/// units.
struct Inbox {
  uint4* lines = nullptr;    ///< for both calls: the first of each unit, then the second
  uint4* packets = nullptr;  ///< for both calls
};

/// What a kernel knows about the other ranks.
struct Links {
  Inbox out[most_ranks];         ///< in each other rank's memory: what this one sends it
  Inbox in[most_ranks];          ///< in this rank's memory: what each other one sends
  std::uint32_t* state;          ///< in this rank's memory: the number of the last call, and how many of its blocks are
                                 ///< done
  volatile std::uint32_t* gone;  ///< on the host, per rank: do not wait for it
  volatile std::uint32_t* lost;  ///< on the host: one more than the rank that was awaited in vain
  std::uint32_t lines, packets;  ///< largest message; packets is 0 if they are not delivered as a whole
  int rank, size;
};

__device__ void write(uint4* to, uint4 value) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}

__device__ uint4 read(const uint4* from) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}

/// Polls until another rank's data arrive, or that rank is gone.
template <class Protocol, class Look>
__device__ void wait(const Links& links, int rank, const Look& look) {
  bool over = false;
  for (unsigned looks = 1; !look(); ++looks) {
    if (looks % patience != 0) continue;
    if (over) {
      *links.lost = static_cast<std::uint32_t>(rank) + 1;
      return;
    }
    // Data sent before it left have arrived or are in transit: polls once more.
    over = Protocol::any(links.gone[rank] != 0 || links.gone[links.rank] != 0);
  }
}

/// Every thread has one unit and waits for itself.
struct Lines {
  static __device__ std::uint32_t places(std::uint32_t units) { return units; }
  static __device__ std::uint32_t unit_at(std::uint32_t place) { return place; }
  static __device__ bool has_unit(std::uint32_t place, std::uint32_t units) { return place < units; }
  static __device__ bool any(bool holds) { return holds; }

  struct Sent {
    uint4 a, b;
  };
  static __device__ void send(const Inbox& inbox, const Links& links, std::uint32_t place, uint4 value,
                              std::uint32_t call) {
    uint4* const line = inbox.lines + call % 2 * 2 * links.lines + place;
    write(line, {value.x, call, value.y, call});
    write(line + links.lines, {value.z, call, value.w, call});
  }
  static __device__ bool look(Sent& sent, const Links& links, int rank, std::uint32_t place, std::uint32_t call) {
    const uint4* const line = links.in[rank].lines + call % 2 * 2 * links.lines + place;
    sent = {read(line), read(line + links.lines)};
    return sent.a.y == call && sent.a.w == call && sent.b.y == call && sent.b.w == call;
  }
  static __device__ uint4 value(const Sent& sent) { return {sent.a.x, sent.a.z, sent.b.x, sent.b.z}; }
};

/// Eight adjacent threads share a packet; the last one has its number.
struct Packets {
  static __device__ std::uint32_t places(std::uint32_t units) {
    return (units + units_of_packet - 1) / units_of_packet * packet;
  }
  static __device__ std::uint32_t unit_at(std::uint32_t place) {
    return place / packet * units_of_packet + place % packet;
  }
  static __device__ bool has_unit(std::uint32_t place, std::uint32_t units) {
    return place % packet != units_of_packet && unit_at(place) < units;
  }
  static __device__ unsigned together() { return 0xffu << (threadIdx.x % 32 / packet * packet); }
  static __device__ bool any(bool holds) { return __any_sync(together(), holds) != 0; }

  struct Sent {
    uint4 unit;
  };
  static __device__ void send(const Inbox& inbox, const Links& links, std::uint32_t place, uint4 value,
                              std::uint32_t call) {
    if (place % packet == units_of_packet) value.x = call;
    __syncwarp(together());  // a packet is whole only if its threads write, and read, together
    write(inbox.packets + call % 2 * packet * links.packets + place, value);
  }
  static __device__ bool look(Sent& sent, const Links& links, int rank, std::uint32_t place, std::uint32_t call) {
    __syncwarp(together());
    sent.unit = read(links.in[rank].packets + call % 2 * packet * links.packets + place);
    return __shfl_sync(together(), sent.unit.x, units_of_packet, packet) == call;
  }
  static __device__ uint4 value(const Sent& sent) { return sent.unit; }
};

/// Sends this rank's data, then sums the data of all ranks in rank order. A thread sums what it sent itself and holds
/// it meanwhile, so it waits for no other thread.
/// `batch`: units that a thread has in flight.
template <class T, class Protocol, int batch>
__global__ void __launch_bounds__(threads)
    sum_units(const __grid_constant__ Pieces pieces, const __grid_constant__ Links links, bool mean,
              Counting counting) {
  if (blockIdx.x == 0 && threadIdx.x == 0) begin_count(counting);
  constexpr int width = Pieces::unit / sizeof(T);
  std::uint32_t call = links.state[0] + 1;
  if (call == 0) call = 2;  // no memory holds it initially, and it is even
  const std::uint32_t units = pieces.begin[pieces.count], places = Protocol::places(units), step = gridDim.x * threads;
  for (std::uint32_t begin = blockIdx.x * threads + threadIdx.x; begin < places; begin += batch * step) {
    uint4 own[batch] = {};
#pragma unroll
    for (int k = 0; k < batch; ++k)
      if (const std::uint32_t place = begin + k * step; place < places && Protocol::has_unit(place, units))
        own[k] = unit_of(pieces, Protocol::unit_at(place)).load();
#pragma unroll
    for (int k = 0; k < batch; ++k)
      for (int hop = 1; hop < links.size && begin + k * step < places; ++hop)
        Protocol::send(links.out[(links.rank + hop) % links.size], links, begin + k * step, own[k], call);

    T sum[batch][width];
    for (int rank = 0; rank < links.size; ++rank) {
      const bool is_own = rank == links.rank;
      typename Protocol::Sent sent[batch];
      bool there[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k)
        there[k] = is_own || begin + k * step >= places || Protocol::look(sent[k], links, rank, begin + k * step, call);
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (!there[k])
          wait<Protocol>(links, rank, [&] { return Protocol::look(sent[k], links, rank, begin + k * step, call); });
        const uint4 value = is_own ? own[k] : Protocol::value(sent[k]);
        T terms[width];
        memcpy(terms, &value, sizeof terms);
#pragma unroll
        for (int i = 0; i < width; ++i) sum[k][i] = rank == 0 ? terms[i] : sum[k][i] + terms[i];
      }
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const std::uint32_t place = begin + k * step;
      if (place >= places || !Protocol::has_unit(place, units)) continue;
      if (mean)
        for (int i = 0; i < width; ++i) sum[k][i] /= static_cast<T>(links.size);
      uint4 result;
      memcpy(&result, sum[k], sizeof result);
      unit_of(pieces, Protocol::unit_at(place)).store(result);
    }
  }
  // The last block counts the call; all others have read its number.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&links.state[1], 1) + 1 < gridDim.x) return;
  links.state[1] = 0;
  links.state[0] = call;
  end_count(counting);
}

using Kernel = void (*)(Pieces, Links, bool, Counting);
Kernel kernel_of(bool is_double, bool in_lines) {
  if (is_double) return in_lines ? sum_units<double, Lines, 2> : sum_units<double, Packets, 4>;
  return in_lines ? sum_units<float, Lines, 2> : sum_units<float, Packets, 4>;
}

bool succeeded(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();  // the error must not reach a later call
  return status == cudaSuccess;
}

/// Shared by all ranks until the last one ends: words on the host, and the memory that they write to.
struct Free {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreeHost {
  void operator()(std::uint32_t* words) const { (void)cudaFreeHost(words); }
};
using Allocated = std::unique_ptr<void, Free>;
struct Shared {
  std::unique_ptr<std::uint32_t, FreeHost> words;  // gone and lost, per rank
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

/// The layout of a rank's memory: its counters, then the inboxes of the other ranks.
struct Layout {
  explicit Layout(int ranks)
      : senders(static_cast<std::size_t>(std::max(1, ranks - 1))),
        lines(most_in_lines / senders / 2 * 2),
        packets(most_in_packets / senders / units_of_packet) {}

  static constexpr std::size_t state = 256;  // packets begin at a multiple of their size
  std::size_t senders, lines, packets;

  std::size_t inbox() const { return (2 * packet * packets + 4 * lines) * Pieces::unit; }
  std::size_t bytes() const { return state + senders * inbox(); }
  /// Where `sender` writes, in the memory of `owner`.
  Inbox find(void* memory, int owner, int sender) const {
    const auto position = static_cast<std::size_t>(sender < owner ? sender : sender - 1);
    std::byte* const begin = static_cast<std::byte*>(memory) + state + position * inbox();
    auto* const first = reinterpret_cast<uint4*>(begin);
    return {.lines = first + 2 * packet * packets, .packets = first};
  }
};

/// The memory of a rank on the current device, with its kernels loaded; null if it cannot be allocated.
Allocated zeros(std::size_t bytes) {
  cudaFuncAttributes attributes{};
  for (const bool is_double : {false, true})
    for (const bool in_lines : {false, true})
      if (!succeeded(cudaFuncGetAttributes(&attributes, kernel_of(is_double, in_lines)))) return {};
  void* memory = nullptr;
  if (!succeeded(cudaMalloc(&memory, bytes))) return {};
  Allocated result(memory);
  // Before any rank knows about it.
  if (!succeeded(cudaMemset(memory, 0, bytes)) || !succeeded(cudaDeviceSynchronize())) return {};
  return result;
}

/// What a rank sends the others about itself.
struct Introduction {
  std::array<char, 64> machine{};
  std::int64_t process = 0;
  int device = 0;
  void* memory = nullptr;                           // null: it cannot take part
  const std::shared_ptr<Shared>* shared = nullptr;  // of the first rank
};

/// Whether the current device can access another one's memory.
bool reaches(int device, int other) {
  if (device == other) return true;
  int can = 0;
  if (!succeeded(cudaDeviceCanAccessPeer(&can, device, other)) || can == 0) return false;
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  return succeeded(status) || status == cudaErrorPeerAccessAlreadyEnabled;
}

/// Whether 128 bytes that a warp writes together arrive together at another device: true for NVLink, which supports
/// atomics on the other device; PCI does not.
bool delivers_whole(int device, int other) {
  if (device == other) return true;
  int atomics = 0;
  return succeeded(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device, other)) &&
         atomics != 0;
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
  std::array<std::uint8_t, 2> agreed{1, 1};
  auto& [suits, whole] = agreed;
  for (const Introduction& other : all) {
    suits = suits != 0 && other.memory != nullptr && other.machine == own.machine && other.process == own.process &&
            reaches(device, other.device);
    whole = whole != 0 && delivers_whole(device, other.device);
  }
  host.all_reduce(agreed.data(), agreed.size(), DType::uint8, Reduction::min, nullptr);
  auto body = std::make_unique<Body>();
  if (suits != 0) body->shared = *all[0].shared;
  host.barrier(nullptr);  // all hold a reference to it
  if (suits == 0) return nullptr;
  body->shared->memories[static_cast<std::size_t>(rank)] = std::move(memory);
  body->device = device;
  Links& links = body->links;
  links.rank = rank;
  links.size = size;
  links.lines = static_cast<std::uint32_t>(layout.lines);
  links.packets = static_cast<std::uint32_t>(whole != 0 ? layout.packets : 0);
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

std::size_t Peers::most_bytes() const {
  return std::max(body_->links.lines, body_->links.packets * units_of_packet) * Pieces::unit;
}

void Peers::all_reduce(const Pieces& pieces, DType dtype, bool mean, const Counting& counting, void* stream) {
  const unsigned blocks = std::clamp((pieces.units() + threads - 1) / threads, 1u, most_blocks);
  const Kernel kernel = kernel_of(dtype == DType::float64, pieces.units() <= body_->links.lines);
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(pieces, body_->links, mean, counting);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw ParallelError(message("all_reduce between devices: ", cudaGetErrorString(status)));
}

void Peers::leave() noexcept { body_->links.gone[body_->links.rank] = 1; }

int Peers::lost() const { return static_cast<int>(*body_->links.lost) - 1; }

}  // namespace tern::parallel
