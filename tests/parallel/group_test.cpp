#include "tern/parallel/group.hpp"

#include <cstring>
#include <thread>

#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::Group;
using parallel::Reduction;

namespace {

constexpr DType every_dtype[]{DType::float32, DType::float64, DType::bfloat16, DType::float16,
                              DType::int32,   DType::int64,   DType::uint8,    DType::boolean};

/// Small integers, exact in every dtype; those of a rank differ from another's.
Tensor numbers(const Shape& shape, int rank, DType dtype) {
  Tensor x(shape, DType::int64);
  const auto values = x.write<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i * 7 + 3 * rank) % 11;
  return dtype == DType::boolean ? operators::less(x.to(DType::float32), full({}, 5)) : x.to(dtype);
}

std::string difference(const Tensor& found, const std::vector<double>& expected, const char* what) {
  if (found.values() == expected) return {};
  return message(what, " of ", found.dtype(), ": ", found);
}

std::vector<double> reduced(const Shape& shape, int size, DType dtype, Reduction reduction) {
  std::vector<double> result = numbers(shape, 0, dtype).values();
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<double> other = numbers(shape, rank, dtype).values();
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = reduction == Reduction::max   ? std::max(result[i], other[i])
                  : reduction == Reduction::min ? std::min(result[i], other[i])
                                                : result[i] + other[i];
  }
  return result;
}

}  // namespace

TEST_CASE("group: every reduction of every dtype", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      for (const DType dtype : every_dtype)
        for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min})
          for (const std::int64_t n : {0, 1, 5, 1000}) {
            if (dtype == DType::boolean && reduction == Reduction::sum) continue;
            Tensor x = numbers({n}, group.rank(), dtype);
            group.all_reduce(x, reduction);
            const std::string wrong = difference(x, reduced({n}, group.size(), dtype, reduction), "all_reduce");
            if (!wrong.empty()) return wrong;
          }
      Tensor mean = full({3}, group.rank());
      group.all_reduce(mean, Reduction::mean);
      return difference(mean, std::vector<double>(3, (group.size() - 1) / 2.0), "mean");
    });
}

TEST_CASE("group: sums of more elements than a chunk, than a slice, and of no whole number of them",
          "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      for (const DType dtype : {DType::float32, DType::float64})
        for (const std::int64_t n : {131072, 262144, 262147, 700001, 1 << 20}) {
          Tensor x = numbers({n}, group.rank(), dtype);
          group.all_reduce(x);
          const std::string wrong = difference(x, reduced({n}, group.size(), dtype, Reduction::sum), "all_reduce");
          if (!wrong.empty()) return message(wrong, " of ", n);
        }
      Tensor mean = full({600000}, group.rank());
      group.all_reduce(mean, Reduction::mean);
      return difference(mean, std::vector<double>(600000, (group.size() - 1) / 2.0), "mean");
    });
}

TEST_CASE("group: numbers at the ends of their range", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const double own = group.rank() == 0 ? -5 : 4;
      Tensor low = full({2}, own, DType::int64), nan = full({2}, group.rank() == 0 ? NAN : 1.0);
      group.all_reduce(low, Reduction::min);
      group.all_reduce(nan, Reduction::sum);
      if (!std::isnan(nan.values()[1])) return "a sum lost a NaN";
      return difference(low, {-5, -5}, "min");
    });
}

TEST_CASE("group: sums that are begun are complete behind the join", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const double all = group.size() * (group.size() + 1) / 2;
      const Tensor x = full({1000}, group.rank() + 1), half = full({3}, group.rank() + 1, DType::bfloat16);
      const Tensor mean = full({2, 2}, group.rank() + 1);
      group.begin_all_reduce(x);
      group.begin_all_reduce(half);
      group.begin_all_reduce(mean.transpose(0, 1), parallel::Reduction::mean);
      group.join();
      if (x.values() != std::vector<double>(1000, all)) return message("a sum: ", x);
      if (half.values() != std::vector<double>(3, all)) return message("a sum of bfloat16: ", half);
      return mean.values() == std::vector<double>(4, all / group.size()) ? "" : message("a mean: ", mean);
    });
}

TEST_CASE("group: several tensors are reduced as one message, each where it is", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const double all = group.size() * (group.size() + 1) / 2;
      const Tensor large = full({1000}, group.rank() + 1), none = zeros({0}), one = full({}, 2 * (group.rank() + 1));
      Tensor rows = full({3, 4}, group.rank() + 1);
      const Tensor view = rows.slice(0, 1, 2), across = rows.transpose(0, 1).slice(1, 2, 3);
      group.begin_all_reduce({large, none, one, view, across});
      group.join();
      if (large.values() != std::vector<double>(1000, all)) return message("a sum: ", large);
      if (one.item() != 2 * all) return message("a sum of one: ", one);
      const double own = group.rank() + 1;
      const std::vector<double> expected{own, own, own, own, all, all, all, all, all, all, all, all};
      if (rows.values() != expected) return message("sums of views: ", rows);
      group.begin_all_reduce({large, one}, Reduction::mean);
      group.join();
      if (one.item() != 2 * all) return message("a mean: ", one);
      return large.values() == std::vector<double>(1000, all) ? "" : message("a mean: ", large);
    });
}

TEST_CASE("group: what a view shows is reduced and nothing else", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      Tensor x = full({3, 4}, group.rank());
      group.all_reduce(x.slice(1, 1, 3), Reduction::max);  // strided
      group.broadcast(x.slice(0, 2, 3), group.size() - 1);
      const double last = group.size() - 1, own = group.rank();
      return difference(x, {own, last, last, own, own, last, last, own, last, last, last, last}, "view");
    });
}

TEST_CASE("group: elements come to where they belong", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const int size = group.size(), rank = group.rank();
      for (const DType dtype : every_dtype) {
        Tensor x = numbers({2, 3}, rank, dtype);
        group.broadcast(x, size - 1);
        std::string wrong = difference(x, numbers({2, 3}, size - 1, dtype).values(), "broadcast");
        std::vector<double> all;
        for (int other = 0; other < size; ++other)
          for (const double value : numbers({2, 3}, other, dtype).values()) all.push_back(value);
        const Tensor gathered = group.all_gather(numbers({2, 3}, rank, dtype));
        if (gathered.shape() != Shape{2 * size, 3}) return message("all_gather: ", gathered.shape());
        wrong += difference(gathered, all, "all_gather");
        const Tensor swapped = group.all_to_all(full({2 * size, 3}, rank, dtype));
        std::vector<double> ranks;
        for (int other = 0; other < size; ++other)
          for (int i = 0; i < 6; ++i) ranks.push_back(dtype == DType::boolean ? other != 0 : other);
        wrong += difference(swapped, ranks, "all_to_all");
        if (!wrong.empty()) return wrong;
      }
      Tensor blocks({size, 2});
      const auto values = blocks.write<float>();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      const Tensor own = group.reduce_scatter(blocks);
      return difference(own, {2.0 * rank * size, (2.0 * rank + 1) * size}, "reduce_scatter");
    });
}

TEST_CASE("group: messages between two ranks, in their order", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      // Round the ring, twice.
      const int size = group.size(), next = (group.rank() + 1) % size, before = (group.rank() + size - 1) % size;
      if (size == 1) return {};
      std::string wrong;
      for (int round = 0; round < 2; ++round) {
        Tensor sent = full({5}, 10 * round + group.rank(), DType::int64), got = zeros({5}, DType::int64);
        if (group.rank() % 2 == 0) {
          group.send(sent, next);
          group.receive(got, before);
        } else {
          group.receive(got, before);
          group.send(sent, next);
        }
        wrong += difference(got, std::vector<double>(5, 10 * round + before), "receive");
      }
      return wrong;
    });
}

TEST_CASE("group: split into even and odd ranks, the last first", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const Group half = group.split(group.rank() % 2, -group.rank());
      const int members = (group.size() + (group.rank() % 2 == 0 ? 1 : 0)) / 2;
      if (half.size() != members) return message("a half of ", half.size());
      if (half.rank() != members - 1 - group.rank() / 2) return message("rank ", half.rank(), " of the half");
      Tensor x = full({1}, 1 + group.rank());
      half.all_reduce(x);
      double expected = 0;
      for (int rank = group.rank() % 2; rank < group.size(); rank += 2) expected += 1 + rank;
      return difference(x, {expected}, "sum of a half");
    });
}

TEST_CASE("group: words and places", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const std::string text = group.broadcast(group.rank() == 0 ? "one word" : "another", 0);
      if (text != "one word") return text;
      if (!group.broadcast(std::string()).empty()) return "words out of nothing";
      const std::vector<std::string> places = group.places();
      group.barrier();
      // mpirun says how many it started.
      if (const char* started = under_mpi() ? std::getenv("OMPI_COMM_WORLD_SIZE") : nullptr)
        if (std::to_string(group.size()) != started) return message(group.size(), " ranks of ", started);
      if (places.size() != static_cast<std::size_t>(group.size())) return message(places.size(), " places");
      if (places.back().find(", process ") == std::string::npos) return places.back();
      return {};
    });
}

TEST_CASE("group: tensors of a device come to the host and go back", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const Device device{"debug"};
      Tensor x = full({4}, group.rank()) + 1.0;  // made on the device
      group.all_reduce(x);
      const double sum = group.size() * (group.size() + 1) / 2.0;
      return difference(x + 1.0, std::vector<double>(4, sum + 1), "sum of a device's");
    });
}

TEST_CASE("group: launched threads inherit scope and generator", "[parallel]") {
  const Device device{"sequential", {.threads = 1}};
  manual_seed(5);
  default_generator().skip(3);
  check_ranks(3, [](const Group&) -> std::string {
    if (current_scope().mode->name != "sequential") return current_scope().mode->name;
    if (default_generator().seed() != 5 || default_generator().position() != 3) return "another generator";
    return {};
  });
}

TEST_CASE("group: calls that do not fit together name the ranks", "[parallel]") {
  const auto failing = [](int ranks, const std::function<void(const Group&)>& program, int limit = 20'000) {
    return said<ParallelError>(
        [&] { parallel::launch({.ranks = ranks, .limit = std::chrono::milliseconds(limit)}, program); });
  };
  CHECK_THAT(failing(2, [](const Group& group) { group.all_reduce(zeros({3 + group.rank()})); }),
             ContainsSubstring("rank 0 calls all_reduce of 3 float32, rank 1 all_reduce of 4 float32"));
  CHECK_THAT(failing(2,
                     [](const Group& group) {
                       group.all_reduce(zeros({3}, group.rank() == 0 ? DType::float32 : DType::int32));
                     }),
             ContainsSubstring("rank 0 calls all_reduce of 3 float32, rank 1 all_reduce of 3 int32"));
  CHECK_THAT(failing(3, [](const Group& group) { group.broadcast(zeros({3}), group.rank() == 2 ? 1 : 0); }),
             ContainsSubstring("with another root"));
  CHECK_THAT(failing(2,
                     [](const Group& group) {
                       if (group.rank() == 0)
                         group.barrier();
                       else
                         group.all_gather(zeros({2}));
                     }),
             ContainsSubstring("rank 0 calls barrier, rank 1 all_gather of 2 float32"));
  CHECK_THAT(failing(2,
                     [](const Group& group) {
                       if (group.rank() == 0)
                         group.send(zeros({2}), 1);
                       else
                         group.receive(zeros({3}), 0);
                     }),
             ContainsSubstring("rank 0 sends 2 float32, rank 1 expects 3 float32"));
  CHECK_THAT(failing(2,
                     [](const Group& group) {
                       if (group.rank() == 0) group.barrier();
                     }),
             ContainsSubstring("rank 1 has ended its program"));
  CHECK_THAT(failing(3,
                     [](const Group& group) {
                       if (group.rank() == 0) group.receive(zeros({3}), 2);
                     }),
             ContainsSubstring("rank 2 has ended its program"));
  CHECK_THAT(failing(
                 2,
                 [](const Group& group) {
                   if (group.rank() == 0) {
                     group.barrier();
                     return;
                   }
                   std::this_thread::sleep_for(std::chrono::milliseconds(200));
                 },
                 20),
             ContainsSubstring("rank 1 did not arrive at barrier within 20 ms"));
}

TEST_CASE("group: what one rank throws ends the others and is thrown", "[parallel]") {
  std::vector<std::string> ends(3);
  const auto program = [&](const Group& group) {
    const Group subgroup = group.split(group.rank() == 1 ? 1 : 0);
    if (group.rank() == 1) throw FileError("the disk is full");
    try {
      while (true) subgroup.barrier();  // in a subgroup that the failed rank is not in
    } catch (const ParallelError& error) {
      ends[static_cast<std::size_t>(group.rank())] = error.what();
      throw;
    }
  };
  CHECK(said<FileError>([&] { parallel::launch({.ranks = 3}, program); }) == "the disk is full");
  CHECK(ends[0] == "rank 1 failed: the disk is full");
  CHECK(ends[2] == ends[0]);
}

TEST_CASE("group: a rank that has left ends no other, and a rank that waits for it gets an error", "[parallel]") {
  std::string error;
  parallel::launch({.ranks = 3}, [&](const Group& group) {
    const Group subgroup = group.split(group.rank() == 2 ? 1 : 0);
    group.barrier();
    group.leave();
    if (group.rank() == 2) return;
    subgroup.barrier();  // the others still have theirs
    subgroup.leave();
    subgroup.leave();
    if (group.rank() == 0) error = said<ParallelError>([&] { subgroup.barrier(); });
  });
  CHECK_THAT(error, ContainsSubstring("has ended its program"));
}

TEST_CASE("group: bad calls are typed errors", "[parallel]") {
  const Group alone;
  CHECK(alone.size() == 1);
  CHECK(alone.transport() == "threads");
  CHECK_THAT(said<DTypeError>([&] { alone.all_reduce(zeros({2}, DType::int64), Reduction::mean); }),
             ContainsSubstring("int64 has no mean"));
  CHECK_THAT(said<DTypeError>([&] { alone.all_reduce(zeros({2}, DType::boolean)); }),
             ContainsSubstring("bool has no sum"));
  CHECK_THAT(said<ShapeError>([&] { alone.broadcast(zeros({2}), 1); }), ContainsSubstring("rank 1 of 1 ranks"));
  CHECK_THAT(said<ShapeError>([&] { alone.send(zeros({2}), 0); }), ContainsSubstring("rank 0"));
  CHECK_THAT(said<ShapeError>([&] { alone.all_to_all(scalar(1.0f)); }), ContainsSubstring("blocks for 1 ranks"));
  CHECK_THAT(said<ShapeError>([&] { alone.split(-1); }), ContainsSubstring("0 or more"));
  CHECK_THAT(said<ShapeError>([&] { parallel::launch({.ranks = 0}, [](const Group&) {}); }),
             ContainsSubstring("0 ranks"));
  CHECK_THAT(said<DeviceUnavailable>([&] { parallel::launch({.transport = "pigeons"}, [](const Group&) {}); }),
             ContainsSubstring("there are threads and mpi"));
  Tensor leaf = ones({2});
  leaf.set_requires_grad();
  alone.all_reduce(leaf);
  CHECK(leaf.is_leaf());
}

}  // namespace tern::testing
