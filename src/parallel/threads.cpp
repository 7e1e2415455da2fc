#include "parallel/threads.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>

#include "tern/core/convert.hpp"
#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

struct GroupState;

/// A rank's arguments in a collective call. All but the pointers and `key` must be equal in all ranks.
struct Arguments {
  const char* call = "";
  std::size_t count = 0;
  DType dtype = DType::uint8;
  int detail = 0;  // the root, or the reduction
  const void* from = nullptr;
  void* to = nullptr;
  int colour = 0, key = 0;
  std::shared_ptr<GroupState> group = nullptr;
};

bool same(const Arguments& a, const Arguments& b) {
  return std::strcmp(a.call, b.call) == 0 && a.count == b.count && a.dtype == b.dtype && a.detail == b.detail;
}

std::string words(const Arguments& of) {
  return of.count == 0 ? std::string(of.call) : message(of.call, " of ", of.count, " ", of.dtype);
}

/// A message in transit between two ranks.
struct Message {
  Arguments arguments;
  bool taken = false;
};

/// The ranks of a group, and the state of their current call.
struct GroupState {
  GroupState(int ranks, std::chrono::milliseconds longest)
      : size(ranks),
        limit(longest),
        arguments(static_cast<std::size_t>(ranks)),
        here(arguments.size()),
        reads(arguments.size()) {
    left.reserve(here.size());
  }

  const int size;
  const std::chrono::milliseconds limit;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Arguments> arguments;
  std::vector<char> here;   // ranks that have arrived at the current call
  std::vector<char> reads;  // ranks that may still read what others shared in the last call
  int unwinding = 0;        // how many wait for those
  std::vector<int> left;    // ranks that will not return
  std::shared_ptr<const std::vector<Arguments>> exchanged;
  std::uint64_t exchanges = 0;
  std::map<std::pair<int, int>, std::shared_ptr<Message>> messages;  // by sender and receiver
  std::string failure;                                               // why the group has failed
  std::vector<std::weak_ptr<GroupState>> children;

  [[noreturn]] void fail(std::unique_lock<std::mutex>& lock, const std::string& reason) {
    if (failure.empty()) failure = reason;
    changed.notify_all();
    const std::string first = failure;
    lock.unlock();
    throw ParallelError(first);
  }

  bool has_left(int rank) const { return std::ranges::find(left, rank) != left.end(); }

  /// Waits for `done`; throws if the group fails, the time is over, or rank `needed` (-1: any) has left.
  template <class Done, class Missing>
  void wait(std::unique_lock<std::mutex>& lock, const char* call, int needed, Done done, Missing missing) {
    const auto over = [&] { return done() || !failure.empty() || (needed < 0 ? !left.empty() : has_left(needed)); };
    if (limit.count() == 0)
      changed.wait(lock, over);
    else if (!changed.wait_for(lock, limit, over))
      fail(lock, missing());
    if (done()) return;
    fail(lock, !failure.empty() ? failure
                                : message("rank ", needed < 0 ? left[0] : needed,
                                          " has ended its program, and another rank waits for it in ", call));
  }

  void end_reading(int rank) {
    reads[static_cast<std::size_t>(rank)] = 0;
    if (unwinding > 0) changed.notify_all();
  }

  /// Until then this rank's shared memory must stay. The others are copying, and wait for nobody meanwhile.
  void wait_for_readers(int rank) {
    std::unique_lock lock(mutex);
    end_reading(rank);
    ++unwinding;
    changed.wait(lock, [&] { return std::ranges::count(reads, 1) == 0; });
    --unwinding;
  }

  enum class Shares { nothing, memory };
  /// All ranks arrive and see each other's arguments. Shared memory may be read until the reader arrives at the next
  /// call.
  std::shared_ptr<const std::vector<Arguments>> exchange(int rank, const Arguments& own,
                                                         Shares shares = Shares::nothing) {
    std::unique_lock lock(mutex);
    end_reading(rank);
    if (!failure.empty()) fail(lock, failure);
    arguments[static_cast<std::size_t>(rank)] = own;
    here[static_cast<std::size_t>(rank)] = 1;
    if (std::ranges::count(here, 1) < size) {
      const std::uint64_t present = exchanges;
      wait(
          lock, own.call, -1, [&] { return exchanges != present; }, [&] { return missing(own); });
      return exchanged;
    }
    for (int other = 1; other < size; ++other)
      if (const Arguments& a = arguments[0], &b = arguments[static_cast<std::size_t>(other)]; !same(a, b))
        fail(lock, message("the ranks make different calls: rank 0 calls ", words(a), ", rank ", other, " ", words(b),
                           a.detail != b.detail ? ", with another root or reduction" : ""));
    std::ranges::fill(here, 0);
    std::ranges::fill(reads, shares == Shares::memory ? 1 : 0);
    exchanged = std::make_shared<const std::vector<Arguments>>(arguments);
    ++exchanges;
    changed.notify_all();
    return exchanged;
  }

  std::string missing(const Arguments& own) const {
    std::string ranks;
    for (int rank = 0; rank < size; ++rank)
      if (here[static_cast<std::size_t>(rank)] == 0) ranks += message(ranks.empty() ? "" : ", ", rank);
    return message("rank ", ranks, " did not arrive at ", own.call, " within ", limit.count(), " ms");
  }

  void abandon(const std::string& reason) {
    std::vector<std::weak_ptr<GroupState>> smaller;
    {
      const std::lock_guard lock(mutex);
      if (failure.empty()) failure = reason;
      smaller = children;
      changed.notify_all();
    }
    for (const auto& child : smaller)
      if (const auto group = child.lock()) group->abandon(reason);
  }
};

/// In a call whose elements the others read: a failing rank must not free them while they are in use.
class Sharing {
 public:
  Sharing(GroupState& group, int rank) : group_(group), rank_(rank), exceptions_(std::uncaught_exceptions()) {}
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  ~Sharing() {
    if (std::uncaught_exceptions() > exceptions_) group_.wait_for_readers(rank_);
  }

 private:
  GroupState& group_;
  int rank_, exceptions_;
};

template <class T>
void reduce(Reduction reduction, T* to, const T* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (!std::is_same_v<T, bool>)
      if (reduction == Reduction::sum) {
        if constexpr (std::is_integral_v<T>)  // wraps around
          to[i] = static_cast<T>(static_cast<std::make_unsigned_t<T>>(to[i]) +
                                 static_cast<std::make_unsigned_t<T>>(from[i]));
        else
          to[i] += from[i];
        continue;
      }
    const bool take = reduction == Reduction::max ? to[i] < from[i] : from[i] < to[i];
    // NaN is kept.
    if (take || from[i] != from[i]) to[i] = from[i];
  }
}

void reduce(Reduction reduction, DType dtype, std::byte* to, const std::byte* from, std::size_t count) {
  with_type_of(dtype, [&]<class T>(T) {
    if constexpr (tern::detail::is_half<T>)
      throw DTypeError(message("all_reduce: ", dtype, " is moved, never reduced"));
    else
      reduce(reduction, reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), count);
  });
}

class Threads final : public Collective {
 public:
  Threads(std::shared_ptr<GroupState> group, int rank) : group_(std::move(group)), rank_(rank) {}

  std::string_view name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  Memory* memory() override { return nullptr; }

  void barrier(void*) override { group_->exchange(rank_, {.call = "barrier"}); }

  // Each rank reduces its share of the elements, in rank order, and then copies the shares of the others.
  void all_reduce(void* data, std::size_t count, DType dtype, Reduction reduction, void*) override {
    const Arguments own{
        .call = "all_reduce", .count = count, .dtype = dtype, .detail = static_cast<int>(reduction), .from = data};
    const auto begin = [&](int rank) {
      return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(size()) * size_of(dtype);
    };
    std::vector<std::byte> part(begin(rank_ + 1) - begin(rank_));
    const Sharing sharing(*group_, rank_);
    const auto arguments = share(own);
    reduce_slice(*arguments, begin(rank_), part.size() / size_of(dtype), dtype, reduction, part.data());
    const auto made = share({.call = "all_reduce", .from = part.data()});
    for (int rank = 0; rank < size(); ++rank)
      copy(static_cast<std::byte*>(data) + begin(rank), of_rank(*made, rank).from, begin(rank + 1) - begin(rank));
    group_->exchange(rank_, {.call = "all_reduce"});
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root, void*) override {
    const Sharing sharing(*group_, rank_);
    const auto arguments = share({.call = "broadcast", .count = count, .dtype = dtype, .detail = root, .from = data});
    if (rank_ != root) copy(data, of_rank(*arguments, root).from, count * size_of(dtype));
    group_->exchange(rank_, {.call = "broadcast"});
  }

  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction, void*) override {
    const Sharing sharing(*group_, rank_);
    const auto arguments = share({.call = "reduce_scatter",
                                  .count = count,
                                  .dtype = dtype,
                                  .detail = static_cast<int>(reduction),
                                  .from = from});
    reduce_slice(*arguments, count * static_cast<std::size_t>(rank_) * size_of(dtype), count, dtype, reduction,
                 static_cast<std::byte*>(to));
    group_->exchange(rank_, {.call = "reduce_scatter"});
  }

  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void*) override {
    const Sharing sharing(*group_, rank_);
    const auto arguments = share({.call = "all_gather", .count = count, .dtype = dtype, .from = from});
    const std::size_t bytes = count * size_of(dtype);
    for (int rank = 0; rank < size(); ++rank)
      copy(static_cast<std::byte*>(to) + static_cast<std::size_t>(rank) * bytes, of_rank(*arguments, rank).from, bytes);
    group_->exchange(rank_, {.call = "all_gather"});
  }

  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void*) override {
    const Sharing sharing(*group_, rank_);
    const auto arguments = share({.call = "all_to_all", .count = count, .dtype = dtype, .from = from});
    const std::size_t bytes = count * size_of(dtype);
    for (int rank = 0; rank < size(); ++rank)
      copy(static_cast<std::byte*>(to) + static_cast<std::size_t>(rank) * bytes,
           static_cast<const std::byte*>(of_rank(*arguments, rank).from) + static_cast<std::size_t>(rank_) * bytes,
           bytes);
    group_->exchange(rank_, {.call = "all_to_all"});
  }

  void send(const void* from, std::size_t count, DType dtype, int to, void*) override {
    const Arguments own{.call = "send", .count = count, .dtype = dtype, .from = from};
    const auto late = [&] {
      return message("rank ", to, " did not receive from rank ", rank_, " within ", group_->limit.count(), " ms");
    };
    std::unique_lock lock(group_->mutex);
    const auto sent = std::make_shared<Message>(Message{own});
    group_->wait(
        lock, "send", to,
        [&] {
          return !group_->messages.contains({rank_, to});
        },
        late);
    group_->messages[{rank_, to}] = sent;
    group_->changed.notify_all();
    try {
      group_->wait(
          lock, "send", to, [&] { return sent->taken; }, late);
    } catch (...) {  // later receivers find no message, because its elements are gone
      const std::lock_guard again(group_->mutex);
      if (!sent->taken) group_->messages.erase({rank_, to});
      throw;
    }
  }

  void receive(void* to, std::size_t count, DType dtype, int from, void*) override {
    const auto late = [&] {
      return message("rank ", from, " sent nothing to rank ", rank_, " within ", group_->limit.count(), " ms");
    };
    std::unique_lock lock(group_->mutex);
    group_->wait(
        lock, "receive", from,
        [&] {
          return group_->messages.contains({from, rank_});
        },
        late);
    const auto found = group_->messages.find({from, rank_});
    const std::shared_ptr<Message> sent = found->second;
    if (sent->arguments.count != count || sent->arguments.dtype != dtype)
      group_->fail(lock, message("rank ", from, " sends ", sent->arguments.count, " ", sent->arguments.dtype, ", rank ",
                                 rank_, " expects ", count, " ", dtype));
    copy(to, sent->arguments.from, count * size_of(dtype));
    sent->taken = true;
    group_->messages.erase(found);
    group_->changed.notify_all();
  }

  std::unique_ptr<Collective> split(int colour, int key) override {
    const auto arguments = group_->exchange(rank_, {.call = "split", .colour = colour, .key = key});
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank)
      if (of_rank(*arguments, rank).colour == colour) members.push_back(rank);
    std::ranges::stable_sort(members, {}, [&](int rank) { return of_rank(*arguments, rank).key; });
    std::shared_ptr<GroupState> child;
    if (members[0] == rank_) {
      child = std::make_shared<GroupState>(static_cast<int>(members.size()), group_->limit);
      const std::lock_guard lock(group_->mutex);
      std::erase_if(group_->children, [](const auto& known) { return known.expired(); });
      group_->children.push_back(child);
    }
    const auto made = group_->exchange(rank_, {.call = "split", .group = child});
    child = of_rank(*made, members[0]).group;
    // Nobody reads the new groups after this call, so they end with their ranks.
    group_->exchange(rank_, {.call = "split"});
    const auto place = std::ranges::find(members, rank_) - members.begin();
    return std::make_unique<Threads>(std::move(child), static_cast<int>(place));
  }

  void abandon(const std::string& reason) noexcept override {
    try {
      group_->abandon(reason);
    } catch (...) {
      // Without memory for the message, the time limit informs the others.
    }
  }

  // Ranks that wait for it get an error.
  void leave() override {
    const std::lock_guard lock(group_->mutex);
    if (!group_->has_left(rank_)) group_->left.push_back(rank_);
    group_->changed.notify_all();
  }

 private:
  std::shared_ptr<const std::vector<Arguments>> share(const Arguments& own) {
    return group_->exchange(rank_, own, GroupState::Shares::memory);
  }

  static const Arguments& of_rank(const std::vector<Arguments>& arguments, int rank) {
    return arguments[static_cast<std::size_t>(rank)];
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }

  void reduce_slice(const std::vector<Arguments>& arguments, std::size_t offset, std::size_t count, DType dtype,
                    Reduction reduction, std::byte* to) const {
    copy(to, static_cast<const std::byte*>(arguments[0].from) + offset, count * size_of(dtype));
    for (int rank = 1; rank < size(); ++rank)
      reduce(reduction, dtype, to, static_cast<const std::byte*>(of_rank(arguments, rank).from) + offset, count);
  }

  std::shared_ptr<GroupState> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> thread_ranks(int size, std::chrono::milliseconds limit) {
  const auto group = std::make_shared<GroupState>(size, limit);
  std::vector<std::unique_ptr<Collective>> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Threads>(group, rank));
  return ranks;
}

}  // namespace tern::parallel
