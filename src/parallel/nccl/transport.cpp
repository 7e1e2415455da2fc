// The transport between GPUs: NCCL on the memory of the cuda mode, in stream order, so that a Step records it. A
// transport on the host connects the ranks.

#include <array>
#include <exception>
#include <vector>

#include "parallel/nccl/library.hpp"
#include "parallel/nccl/meter.hpp"
#include "parallel/nccl/peers.hpp"
#include "parallel/nccl/pieces.hpp"
#include "tern/kernels/algorithms.hpp"
#include "tern/parallel/plugin.hpp"

namespace tern::parallel {

namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::float64:
      return ncclFloat64;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::float16:
      return ncclFloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::int8:
      return ncclInt8;
    case DType::uint8:
    case DType::boolean:
      return ncclUint8;
  }
  throw ParallelError(message("nccl: no type for dtype ", static_cast<int>(dtype)));
}

ncclRedOp_t operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return ncclAvg;
    case Reduction::max:
      return ncclMax;
    case Reduction::min:
      return ncclMin;
    default:
      return ncclSum;
  }
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

/// The device of a memory; -1 if it is not CUDA's.
int device_of(Memory& memory) {
  if (memory.host_accessible()) return -1;
  void* const stream = memory.stream();
  constexpr std::size_t bytes = 64;
  void* const block = memory.allocate(bytes, stream);
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, block);
  memory.release(block, bytes, stream);
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status == cudaSuccess && attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/// Makes the device the thread's current one during its lifetime.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    (void)cudaGetDevice(&before_);
    if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess)
      throw ParallelError(message("nccl: device ", device, ": ", cudaGetErrorString(status)));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { (void)cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Resources for work that runs concurrently with a rank's other work: a stream, an event to order it, and memory for
/// pieces that travel together.
class Side {
 public:
  static constexpr std::size_t room = (std::size_t{4} << 20) + Pieces::unit * Pieces::most;

  Side() {
    int least = 0, greatest = 0;
    check("begin_all_reduce", cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check("begin_all_reduce", load_copies());
    check("begin_all_reduce", cudaEventCreateWithFlags(&order_, cudaEventDisableTiming));
    check("begin_all_reduce", cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
    check("begin_all_reduce", cudaMalloc(&whole_, room));
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  // Recordings of the stream and the event may still be replayed: CUDA keeps what it needs.
  ~Side() {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    if (order_ != nullptr) (void)cudaEventDestroy(order_);
    if (whole_ != nullptr) (void)cudaFree(whole_);
  }

  cudaStream_t stream() const { return stream_; }
  void* whole() const { return whole_; }
  /// Makes later work on `later` wait for earlier work on `earlier`.
  void follow(cudaStream_t earlier, cudaStream_t later) const {
    check("order", cudaEventRecord(order_, earlier));
    check("order", cudaStreamWaitEvent(later, order_));
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t order_ = nullptr;
  void* whole_ = nullptr;
};

class Nccl final : public Collective {
 public:
  /// Takes ownership of the communicator. Without peers everything goes through NCCL.
  Nccl(ncclComm_t comm, Memory& memory, int device, int rank, int size, std::unique_ptr<Peers> peers = nullptr,
       const Algorithms* algorithms = nullptr)
      : comm_(comm),
        memory_(memory),
        device_(device),
        rank_(rank),
        size_(size),
        peers_(std::move(peers)),
        choice_{.algorithms = algorithms} {}
  // A rank that an exception unwinds has left work that waits for others, and others wait for it.
  ~Nccl() override {
    if (std::uncaught_exceptions() > 0) end();
    peers_.reset();
    if (comm_ != nullptr) (void)library().destroy(comm_);
  }

  std::string_view name() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Memory* memory() override { return &memory_; }

  // When every rank's number has arrived, every rank is here.
  void barrier(void* stream) override {
    const OnDevice here(device_);
    constexpr std::size_t bytes = 64;
    void* const block = memory_.allocate(bytes, stream);
    const ncclResult_t result = library().all_reduce(block, block, bytes, ncclUint8, ncclMax, comm_, stream_of(stream));
    memory_.release(block, bytes, stream);
    check("barrier", result);
    memory_.synchronize(stream);
  }

  void all_reduce(void* data, std::size_t count, DType dtype, Reduction reduction, void* stream) override {
    const OnDevice here(device_);
    if (begun_) side_->follow(side_->stream(), stream_of(stream));  // peers handle one call at a time
    const Piece piece{data, count};
    reduce({&piece, 1}, dtype, reduction, stream, counting(true));
  }

  // On its own stream, after the work queued so far; if that is being recorded, so is this.
  void begin_all_reduce(std::span<const Piece> pieces, DType dtype, Reduction reduction, void* stream) override {
    const OnDevice here(device_);
    if (side_ == nullptr) side_ = std::make_unique<Side>();
    side_->follow(stream_of(stream), side_->stream());
    reduce(pieces, dtype, reduction, side_->stream(), counting(false));
    begun_ = true;
  }

  void join(void* stream) override {
    if (!begun_) return;
    const OnDevice here(device_);
    begun_ = false;
    if (meter_ != nullptr) meter_->join(stream);
    side_->follow(side_->stream(), stream_of(stream));
    check_peers();
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root, void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    check("broadcast", library().broadcast(data, data, count, type_of(dtype), root, comm_, stream_of(stream)));
  }

  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction,
                      void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    check("reduce_scatter",
          library().reduce_scatter(from, to, count, type_of(dtype), operation(reduction), comm_, stream_of(stream)));
  }

  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    check("all_gather", library().all_gather(from, to, count, type_of(dtype), comm_, stream_of(stream)));
  }

  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    const std::size_t bytes = count * size_of(dtype);
    check("all_to_all", library().group_start());
    ncclResult_t result = ncclSuccess;
    for (int rank = 0; rank < size_ && result == ncclSuccess; ++rank) {
      const std::size_t place = static_cast<std::size_t>(rank) * bytes;
      result = library().send(static_cast<const std::byte*>(from) + place, count, type_of(dtype), rank, comm_,
                              stream_of(stream));
      if (result == ncclSuccess)
        result = library().receive(static_cast<std::byte*>(to) + place, count, type_of(dtype), rank, comm_,
                                   stream_of(stream));
    }
    const ncclResult_t ended = library().group_end();
    check("all_to_all", result != ncclSuccess ? result : ended);
  }

  void send(const void* from, std::size_t count, DType dtype, int to, void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    check("send", library().send(from, count, type_of(dtype), to, comm_, stream_of(stream)));
  }

  void receive(void* to, std::size_t count, DType dtype, int from, void* stream) override {
    const OnDevice here(device_);
    const Stretch stretch(counting(true), stream);
    check("receive", library().receive(to, count, type_of(dtype), from, comm_, stream_of(stream)));
  }

  void measure() override {
    const OnDevice here(device_);
    if (meter_ == nullptr) meter_ = std::make_unique<Meter>();
  }
  Spent spent() override {
    const OnDevice here(device_);
    return meter_ == nullptr ? Spent{} : meter_->spent();
  }

  // Numbers here are ranks; the new communicator numbers by key, so the other ranks' keys are gathered.
  std::unique_ptr<Collective> split(int colour, int key) override {
    const OnDevice here(device_);
    void* const stream = memory_.stream();
    const std::array<std::int32_t, 2> own{colour, key};
    std::vector<std::int32_t> all(2 * static_cast<std::size_t>(size_));
    const std::size_t bytes = all.size() * sizeof(std::int32_t);
    void* const block = memory_.allocate(bytes, stream);
    auto* const mine = static_cast<std::int32_t*>(block) + 2 * static_cast<std::size_t>(rank_);
    memory_.copy_in(mine, own.data(), sizeof own, stream);
    const ncclResult_t result = library().all_gather(mine, block, 2, ncclInt32, comm_, stream_of(stream));
    if (result == ncclSuccess) memory_.copy_out(all.data(), block, bytes, stream);
    memory_.release(block, bytes, stream);
    check("split", result);
    int rank = 0, size = 0;
    for (int other = 0; other < size_; ++other) {
      const std::int32_t its_colour = all[2 * static_cast<std::size_t>(other)],
                         its_key = all[2 * static_cast<std::size_t>(other) + 1];
      if (its_colour != colour) continue;
      ++size;
      if (its_key < key || (its_key == key && other < rank_)) ++rank;
    }
    ncclComm_t child = nullptr;
    check("split", library().split(comm_, colour, key, &child, nullptr));
    return std::make_unique<Nccl>(child, memory_, device_, rank, size);
  }

  void abandon(const std::string&) noexcept override { end(); }

 private:
  /// Marks what is queued on a stream from here to the end of the block.
  class Stretch {
   public:
    Stretch(const Counting& counting, void* stream) : counting_(counting), stream_(stream) {
      Meter::begin(counting_, stream_);
    }
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;
    ~Stretch() { Meter::end(counting_, stream_); }

   private:
    Counting counting_;
    void* stream_;
  };

  Counting counting(bool alone) const { return meter_ == nullptr ? Counting{} : meter_->count(!begun_, alone); }

  void end() noexcept {
    if (peers_ != nullptr) peers_->leave();
    if (comm_ != nullptr) (void)library().abort(comm_);
    comm_ = nullptr;
  }

  void check_peers() const {
    const int lost = peers_ == nullptr ? -1 : peers_->lost();
    if (lost >= 0)
      throw ParallelError(message("rank ", lost, " is gone, and rank ", rank_, " waited for its share of a sum"));
  }

  /// Whether a message goes through the peers. All ranks decide alike.
  bool by_peers(std::size_t bytes, DType dtype, Reduction reduction) const {
    const bool fits = peers_ != nullptr && bytes > 0 && bytes <= peers_->most_bytes() &&
                      (dtype == DType::float32 || dtype == DType::float64) &&
                      (reduction == Reduction::sum || reduction == Reduction::mean);
    const bool takes = fits && forced_algorithm(choice_, decision) != "library";
    took_algorithm(choice_, decision, takes ? "peers" : "library");
    return takes;
  }

  void by_library(void* data, std::size_t count, DType dtype, Reduction reduction, void* stream) const {
    check("all_reduce",
          library().all_reduce(data, data, count, type_of(dtype), operation(reduction), comm_, stream_of(stream)));
  }

  // Short messages go through the peers. Of others, large pieces are summed in place; copying several small pieces into
  // a buffer and back costs less than a sum for each.
  void reduce(std::span<const Piece> pieces, DType dtype, Reduction reduction, void* stream, Counting counting) {
    check_peers();
    const std::size_t element = size_of(dtype);
    std::size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += (piece.count * element + Pieces::unit - 1) / Pieces::unit * Pieces::unit;
    if (by_peers(bytes, dtype, reduction)) {
      for (const Pieces& several : messages_of(pieces, element, bytes)) {
        peers_->all_reduce(several, dtype, reduction == Reduction::mean, counting, stream);
        counting.first = false;
      }
      return;
    }
    const Stretch stretch(counting, stream);
    std::vector<Piece> small;
    for (const Piece& piece : pieces) {
      if (element % 4 == 0 && piece.count * element <= Side::room / 2)
        small.push_back(piece);
      else
        by_library(piece.data, piece.count, dtype, reduction, stream);
    }
    for (const Pieces& several : messages_of(small, element, Side::room)) {
      if (several.count == 1) {
        by_library(several.data[0], several.words[0] * std::size_t{4} / element, dtype, reduction, stream);
      } else {
        check("all_reduce", gather(several, side_->whole(), stream));
        by_library(side_->whole(), several.bytes() / element, dtype, reduction, stream);
        check("all_reduce", scatter(side_->whole(), several, stream));
      }
    }
  }

  static constexpr const char* decision = "all_reduce";

  ncclComm_t comm_;
  Memory& memory_;
  int device_, rank_, size_;
  std::unique_ptr<Peers> peers_;
  Context choice_;                // for forced algorithms
  std::unique_ptr<Side> side_;    // created by the first begin_all_reduce
  std::unique_ptr<Meter> meter_;  // created when it has to measure
  bool begun_ = false;
};

// A name of the card that is unique on this machine; empty if NCCL cannot be used.
std::string suits(Memory& memory) {
  if (!library().missing.empty()) return {};
  const int device = device_of(memory);
  std::array<char, 64> bus{};
  if (device < 0 || cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess) return {};
  return bus.data();
}

std::unique_ptr<Collective> open(const Opening& opening) {
  if (!library().missing.empty()) throw DeviceUnavailable(library().missing);
  Collective& host = *opening.over;
  const int device = device_of(*opening.memory);
  if (device < 0) throw DeviceUnavailable(message("nccl: ", opening.memory->name(), " is no memory of a CUDA device"));
  const OnDevice here(device);
  ncclUniqueId id{};
  if (host.rank() == 0) check("start", library().unique_id(&id));
  host.broadcast(&id, sizeof id, DType::uint8, 0, nullptr);
  ncclComm_t comm = nullptr;
  check("start", library().init_rank(&comm, host.size(), id, host.rank()));
  return std::make_unique<Nccl>(comm, *opening.memory, device, host.rank(), host.size(), Peers::open(host, device),
                                opening.algorithms);
}

}  // namespace

}  // namespace tern::parallel

extern "C" const tern::parallel::TransportPlugin* tern_transport() {
  static constexpr tern::parallel::TransportPlugin plugin{.open = tern::parallel::open, .suits = tern::parallel::suits};
  return &plugin;
}
