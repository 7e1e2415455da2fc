// The transport between processes: MPI on the host's memory. One rank is one process that mpirun or srun started.
//
// MPI runs with MPI_THREAD_SERIALIZED: calls come from one thread at a time, as the contract of a group says. Each call
// first sends a short announcement to all ranks, so that a rank with another call or other sizes is an error instead of
// a hang. Every wait has a time limit.

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <mutex>
#include <vector>

#include "large_sum.hpp"
#include "tern/core/error.hpp"
#include "tern/parallel/plugin.hpp"

namespace tern::parallel {

namespace {

using Clock = std::chrono::steady_clock;

/// Whether this rank has failed: it then does not end MPI, which would wait for the others.
bool rank_failed = false;

/// MPI in this process, from first use to the process's end.
class Library {
 public:
  Library() {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started == 0) {
      ours_ = true;
      if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        throw DeviceUnavailable("mpi: MPI_Init_thread failed");
    } else {
      MPI_Query_thread(&level);
    }
    if (level < MPI_THREAD_SERIALIZED)
      throw DeviceUnavailable("mpi: this MPI lets only the thread that started it make calls (MPI_THREAD_SERIALIZED)");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm here = MPI_COMM_NULL;
    int ranks = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks);
    MPI_Comm_free(&here);
    patience = ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 2000 : 0;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // A failed rank leaves without it; mpirun then ends the others, which may be waiting for it.
  ~Library() { end(); }
  void end() const {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ours_ && !rank_failed && ended == 0) MPI_Finalize();
  }

  std::int64_t patience = 0;  ///< microseconds for which a waiting rank keeps its core

 private:
  bool ours_ = false;
};

Library& library() {
  static Library library;
  return library;
}

void check(const char* call, int status) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw ParallelError(message("mpi: ", call, ": ", std::string(text.data(), static_cast<std::size_t>(length))));
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return MPI_FLOAT;
    case DType::float64:
      return MPI_DOUBLE;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::bfloat16:
    case DType::float16:
      return MPI_UINT16_T;  // moved, never reduced
    case DType::int8:
      return MPI_INT8_T;
    case DType::uint8:
    case DType::boolean:
      return MPI_UINT8_T;
  }
  throw ParallelError(message("mpi: no type for dtype ", static_cast<int>(dtype)));
}

MPI_Op operation(Reduction reduction) {
  return reduction == Reduction::max ? MPI_MAX : reduction == Reduction::min ? MPI_MIN : MPI_SUM;
}

/// What a rank is about to do, sent to the others.
struct Announcement {
  std::int64_t call, count, dtype, detail;
  bool operator==(const Announcement&) const = default;
};
constexpr const char* names[]{"barrier",    "all_reduce", "broadcast", "reduce_scatter",
                              "all_gather", "all_to_all", "split"};
enum Call : std::int64_t {
  barrier_call,
  reduce_call,
  broadcast_call,
  scatter_call,
  gather_call,
  exchange_call,
  split_call
};

std::string words(const Announcement& a) {
  const std::string name = names[a.call];
  return a.count == 0 ? name : message(name, " of ", a.count, " ", static_cast<DType>(a.dtype));
}

class Mpi final : public Collective {
 public:
  /// Takes ownership of both.
  Mpi(MPI_Comm data, MPI_Comm talk, std::int64_t limit) : data_(data), talk_(talk), limit_(limit) {
    for (MPI_Comm comm : {data_, talk_}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(data_, &rank_);
    MPI_Comm_size(data_, &size_);
    Machine own{};
    int length = 0;
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    MPI_Get_processor_name(name.data(), &length);
    std::copy_n(name.begin(), std::min<std::size_t>(static_cast<std::size_t>(length), own.size() - 1), own.begin());
    machines_.resize(static_cast<std::size_t>(size_));
    check("start", MPI_Allgather(own.data(), own.size(), MPI_CHAR, machines_.data(), own.size(), MPI_CHAR, talk_));
  }
  ~Mpi() override { free(); }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Memory* memory() override { return nullptr; }

  void barrier(void*) override { agree({barrier_call, 0, 0, 0}); }

  void all_reduce(void* data, std::size_t count, DType dtype, Reduction reduction, void*) override {
    agree({reduce_call, integer(count), integer(dtype), integer(reduction)});
    if (size_ > 1 && reduction == Reduction::sum && count * size_of(dtype) >= least_large_bytes) {
      if (dtype == DType::float32) return sum(static_cast<float*>(data), count, floats_);
      if (dtype == DType::float64) return sum(static_cast<double*>(data), count, doubles_);
    }
    const Counted counted(count, dtype);
    run("all_reduce", [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, data, counted.plain("all_reduce"), type_of(dtype), operation(reduction),
                            data_, request);
    });
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root, void*) override {
    agree({broadcast_call, integer(count), integer(dtype), root});
    const Counted counted(count, dtype);
    run("broadcast",
        [&](MPI_Request* request) { return MPI_Ibcast(data, counted.count(), counted.type(), root, data_, request); });
  }

  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction, void*) override {
    agree({scatter_call, integer(count), integer(dtype), integer(reduction)});
    const Counted counted(count, dtype);
    run("reduce_scatter", [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(from, to, counted.plain("reduce_scatter"), type_of(dtype), operation(reduction),
                                       data_, request);
    });
  }

  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void*) override {
    agree({gather_call, integer(count), integer(dtype), 0});
    const Counted counted(count, dtype);
    run("all_gather", [&](MPI_Request* request) {
      return MPI_Iallgather(from, counted.count(), counted.type(), to, counted.count(), counted.type(), data_, request);
    });
  }

  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void*) override {
    agree({exchange_call, integer(count), integer(dtype), 0});
    const Counted counted(count, dtype);
    run("all_to_all", [&](MPI_Request* request) {
      return MPI_Ialltoall(from, counted.count(), counted.type(), to, counted.count(), counted.type(), data_, request);
    });
  }

  // A message begins with its description, so both sides know whether it matches.
  void send(const void* from, std::size_t count, DType dtype, int to, void*) override {
    const std::array<std::int64_t, 2> what{integer(count), integer(dtype)};
    const Counted counted(count, dtype);
    std::array<MPI_Request, 2> requests{};
    check("send", MPI_Isend(what.data(), 2, MPI_INT64_T, to, message_tag, talk_, &requests[0]));
    check("send", MPI_Isend(from, counted.count(), counted.type(), to, message_tag, data_, &requests[1]));
    wait("send", requests, [&](const auto&) { return message(named(to), " did not receive"); });
  }

  void receive(void* to, std::size_t count, DType dtype, int from, void*) override {
    std::array<std::int64_t, 2> what{};
    const auto late = [&](const auto&) { return message(named(from), " sent nothing"); };
    std::array<MPI_Request, 1> request{};
    check("receive", MPI_Irecv(what.data(), 2, MPI_INT64_T, from, message_tag, talk_, &request[0]));
    wait("receive", request, late);
    if (what[0] != integer(count) || what[1] != integer(dtype))
      throw ParallelError(message("rank ", from, " sends ", what[0], " ", static_cast<DType>(what[1]), ", rank ", rank_,
                                  " expects ", count, " ", dtype));
    const Counted counted(count, dtype);
    check("receive", MPI_Irecv(to, counted.count(), counted.type(), from, message_tag, data_, &request[0]));
    wait("receive", request, late);
  }

  std::unique_ptr<Collective> split(int colour, int key) override {
    agree({split_call, 0, 0, 0});
    MPI_Comm data = MPI_COMM_NULL, talk = MPI_COMM_NULL;
    check("split", MPI_Comm_split(data_, colour, key, &data));
    check("split", MPI_Comm_dup(data, &talk));
    return std::make_unique<Mpi>(data, talk, limit_);
  }

  void abandon(const std::string&) noexcept override { rank_failed = true; }
  void leave() override {
    free();
    library().end();
  }

 private:
  void free() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended != 0 || rank_failed) return;
    for (MPI_Comm* comm : {&data_, &talk_})
      if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
  }

  static constexpr int announcement_tag = 1, message_tag = 2;

  static std::int64_t integer(auto value) { return static_cast<std::int64_t>(value); }

  /// A count as MPI accepts it: an int of elements or, beyond 2^31, of blocks.
  class Counted {
   public:
    Counted(std::size_t count, DType dtype) : total_(count), type_(type_of(dtype)) {
      if (total_ <= INT_MAX) return;
      check("type", MPI_Type_contiguous(static_cast<int>(total_ % block), type_, &rest_));
      check("type", MPI_Type_contiguous(static_cast<int>(block), type_, &block_));
      const int lengths[]{static_cast<int>(total_ / block), 1};
      const MPI_Aint places[]{0, static_cast<MPI_Aint>(total_ / block * block * size_of(dtype))};
      const MPI_Datatype types[]{block_, rest_};
      check("type", MPI_Type_create_struct(2, lengths, places, types, &whole_));
      check("type", MPI_Type_commit(&whole_));
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() {
      for (MPI_Datatype* type : {&rest_, &block_, &whole_})
        if (*type != MPI_DATATYPE_NULL) MPI_Type_free(type);
    }
    int count() const { return whole_ != MPI_DATATYPE_NULL ? 1 : static_cast<int>(total_); }
    MPI_Datatype type() const { return whole_ != MPI_DATATYPE_NULL ? whole_ : type_; }
    /// For reductions, which do not accept blocks.
    int plain(const char* call) const {
      expects<ShapeError>(total_ <= INT_MAX, "mpi: ", call, ": ", total_, " elements, at most 2147483647 at once");
      return static_cast<int>(total_);
    }

   private:
    static constexpr std::size_t block = std::size_t{1} << 30;
    std::size_t total_;
    MPI_Datatype type_, rest_ = MPI_DATATYPE_NULL, block_ = MPI_DATATYPE_NULL, whole_ = MPI_DATATYPE_NULL;
  };

  /// Waits for all requests, up to the limit: `late(missing)` then throws, with the indices of the missing requests.
  template <class Requests, class Late>
  void wait(const char* call, Requests& requests, const Late& late) {
    const Clock::time_point began = Clock::now();
    for (int looks = 0;; ++looks) {
      int done = 0;
      check(call, MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
      if (done != 0) return;
      if (looks % 16 != 0) continue;
      const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began);
      if (limit_ > 0 && waited.count() / 1000 > limit_) {
        rank_failed = true;
        std::vector<std::size_t> missing;
        for (std::size_t i = 0; i < requests.size(); ++i) {
          if (requests[i] == MPI_REQUEST_NULL) continue;
          missing.push_back(i);
          // The memory it would fill is released after this call. A collective cannot be cancelled; it has begun in all
          // ranks.
          MPI_Cancel(&requests[i]);
          MPI_Request_free(&requests[i]);
        }
        throw ParallelError(message(late(missing), " within ", limit_, " ms, in ", call, " of ", named(rank_)));
      }
      // If ranks share cores, the awaited rank may need this core; after a while, others may.
      if (waited.count() > 5000)
        usleep(200);
      else if (waited.count() > library().patience)
        sched_yield();
    }
  }

  template <class T>
  void sum(T* data, std::size_t count, std::vector<T>& chunks) {
    large_sum(data_, data, count, chunks, [&](std::vector<MPI_Request>& requests) {
      wait("all_reduce", requests,
           [&](const auto& missing) { return message(named(static_cast<int>(missing[0] / 2)), " did not go on"); });
    });
  }

  template <class Start>
  void run(const char* call, const Start& start) {
    std::array<MPI_Request, 1> request{};
    check(call, start(&request[0]));
    wait(call, request, [](const auto&) { return std::string("the ranks did not finish"); });
  }

  /// Every rank announces what it is about to do.
  void agree(const Announcement& own) {
    if (size_ == 1) return;
    const auto others = static_cast<std::size_t>(size_);
    std::vector<Announcement> said(others);
    std::vector<MPI_Request> receiving(others, MPI_REQUEST_NULL), sending(others, MPI_REQUEST_NULL);
    const char* const call = names[own.call];
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const auto i = static_cast<std::size_t>(rank);
      check(call, MPI_Irecv(&said[i], 4, MPI_INT64_T, rank, announcement_tag, talk_, &receiving[i]));
      check(call, MPI_Isend(&own, 4, MPI_INT64_T, rank, announcement_tag, talk_, &sending[i]));
    }
    // Names all late ranks: one of them may only be waiting for another.
    const auto late = [&](const std::vector<std::size_t>& missing) {
      std::string ranks;
      for (const std::size_t rank : missing) ranks += (ranks.empty() ? "" : ", ") + named(static_cast<int>(rank));
      return ranks + " did not arrive";
    };
    wait(call, receiving, late);
    wait(call, sending, late);
    said[static_cast<std::size_t>(rank_)] = own;
    for (std::size_t rank = 1; rank < others; ++rank)
      if (said[rank] != said[0]) {
        rank_failed = true;
        throw ParallelError(message("the ranks make different calls: rank 0 calls ", words(said[0]), ", rank ", rank,
                                    " ", words(said[rank]),
                                    said[rank].detail != said[0].detail ? ", with another root or reduction" : ""));
      }
  }

  using Machine = std::array<char, 64>;

  std::string named(int rank) const {
    return message("rank ", rank, " (", machines_[static_cast<std::size_t>(rank)].data(), ')');
  }

  MPI_Comm data_, talk_;
  int rank_ = 0, size_ = 1;
  std::vector<Machine> machines_;
  std::int64_t limit_;
  std::vector<float> floats_;  // of large sums
  std::vector<double> doubles_;
};

std::unique_ptr<Collective> open(const Opening& opening) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  (void)library();
  MPI_Comm data = MPI_COMM_NULL, talk = MPI_COMM_NULL;
  check("start", MPI_Comm_dup(MPI_COMM_WORLD, &data));
  check("start", MPI_Comm_dup(MPI_COMM_WORLD, &talk));
  return std::make_unique<Mpi>(data, talk, opening.limit);
}

}  // namespace

}  // namespace tern::parallel

extern "C" const tern::parallel::TransportPlugin* tern_transport() {
  static constexpr tern::parallel::TransportPlugin plugin{.open = tern::parallel::open};
  return &plugin;
}
