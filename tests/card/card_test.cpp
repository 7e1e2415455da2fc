// The host code of the cuda mode (memory, streams, recordings, choices) on the card of stub/cuda_runtime.h, with
// threads.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "card_mode.hpp"
#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"
#include "support/catch.hpp"
#include "support/memory_conformance.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/branches.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using tern::testing::card_mode;
namespace op = tern::operators;

namespace {

/// `value` throughout, made by work on the calling thread's stream.
Tensor made(const Shape& shape, double value) { return op::add(full(shape, value - 1), ones({1})); }

bool all_are(const Tensor& tensor, double value) {
  for (const double element : tensor.values())
    if (element != value) return false;
  return true;
}

}  // namespace

TEST_CASE("card: threads that read small tensors of one maker get their own", "[card]") {
  const Device device(card_mode());
  std::vector<std::vector<Tensor>> tensors(4);
  for (std::size_t k = 0; k < tensors.size(); ++k)
    for (int i = 0; i < 40; ++i) tensors[k].push_back(made({512}, static_cast<double>(1000 * k) + i));
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (std::size_t k = 0; k < tensors.size(); ++k)
    readers.emplace_back([&, k] {
      const Device own(card_mode());
      for (int i = 0; i < 40; ++i)
        if (!all_are(tensors[k][static_cast<std::size_t>(i)], static_cast<double>(1000 * k) + i)) ++wrong;
    });
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("card: tensors that are made, added to and read by three threads", "[card]") {
  const Device device(card_mode());
  for (int round = 0; round < 20; ++round) {
    Tensor a, b;
    std::thread([&] {
      const Device own(card_mode());
      a = made({3000}, round);
    }).join();
    std::thread([&] {
      const Device own(card_mode());
      b = op::add(a, a);
    }).join();
    CHECK(all_are(op::add(b, a), 3.0 * round));
    // Written again while the readers' work is under way.
    a.fill_(-1);
    CHECK(all_are(op::add(b, a), 2.0 * round - 1));
  }
}

TEST_CASE("card: a thread reads and frees finished tensors while their maker records", "[card]") {
  const Device device(card_mode());
  const Tensor done = made({64}, 3), x = made({64}, 2);
  Tensor unwanted = made({64}, 5);
  bool records = false;
  std::string trouble;
  Step step{[&](const Tensor& in) {
    Tensor y = op::add(in, in);
    if (records)
      std::thread([&] {
        try {
          const Device own(card_mode());
          if (!all_are(done, 3)) trouble += "wrong values; ";
          const Tensor sum = op::add(unwanted, done);  // on this thread's stream
          unwanted = Tensor();
          if (!all_are(sum, 8)) trouble += "wrong sum; ";
        } catch (const std::exception& error) {
          trouble += error.what();
        }
      }).join();
    return op::add(y, in);
  }};
  CHECK(all_are(step(x), 6));
  records = true;
  const Tensor recorded = step(x);
  records = false;
  CHECK(trouble.empty());
  CHECK(all_are(recorded, 6));
  CHECK(all_are(step(made({64}, 7)), 21));
}

TEST_CASE("card: what a recording refuses it names, and the thread goes on", "[card]") {
  const Device device(card_mode());
  const Tensor x = made({8}, 2);
  const Mode& mode = card_mode();
  void* const stream = current_scope().context.stream;
  Tensor y({8});
  (void)y.storage().write(current_scope());
  mode.capture->begin(stream);
  CHECK_THROWS_WITH(mode.capture->begin(stream), Catch::ContainsSubstring("already recording"));
  CHECK_THROWS_WITH(x.values(), Catch::ContainsSubstring("a copy to the host cannot be part of a recorded step"));
  CHECK_THROWS_WITH(op::add(x, tensor<float>({1, 2, 3, 4, 5, 6, 7, 8})),
                    Catch::ContainsSubstring("a copy from the host cannot be part of a recorded step"));
  CHECK_THROWS_WITH(mode.memory->synchronize(stream), Catch::ContainsSubstring("a wait cannot be part"));
  mode.capture->abandon(stream);
  CHECK_THROWS_WITH(mode.capture->end(stream), Catch::ContainsSubstring("is not recording"));
  CHECK(all_are(op::add(x, x), 4));
}

TEST_CASE("card: branches of a recording meet again", "[card]") {
  const Device device(card_mode());
  const Tensor x = made({256}, 1);
  Step step{[](const Tensor& in) {
    std::vector<std::function<Tensor()>> functions;
    for (int i = 0; i < 7; ++i)  // more than there are side streams
      functions.push_back([&in, i] {
        Tensor sum = in;
        for (int turn = 0; turn < i; ++turn) sum = op::add(sum, in);
        return sum;
      });
    const std::vector<Tensor> parts = branches(functions);
    Tensor all = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) all = op::add(all, parts[i]);
    return all;
  }};
  for (int turn = 0; turn < 5; ++turn) CHECK(all_are(step(x), 28));
}

TEST_CASE("card: an event that cannot be recorded costs neither the event nor the block", "[card]") {
  const Device device(card_mode());
  Memory& memory = cuda::memory(0);
  const Tensor warm = made({64}, 1);
  (void)warm.values();
  void* other = nullptr;
  std::thread([&] { other = memory.stream(); }).join();
  const int events = card::live_events();
  void* const block = memory.allocate(4096, memory.stream());
  const std::size_t in_use = memory.statistics().in_use;
  card::fail_event_records(1);
  memory.release(block, 4096, other);
  card::fail_event_records(0);
  CHECK(memory.statistics().in_use + 4096 == in_use);
  CHECK(card::live_events() == events);
  void* const again = memory.allocate(4096, memory.stream());
  CHECK(again == block);
  memory.release(again, 4096, memory.stream());
}

TEST_CASE("card: a trial that throws keeps no events", "[card]") {
  const Device device(card_mode());
  const int events = card::live_events();
  CHECK_THROWS_AS(cuda::microseconds(
                      current_scope().context, [] { throw Error("no"); }, 1, 1),
                  Error);
  CHECK(card::live_events() == events);
}

TEST_CASE("card: kernels are chosen by what they were compiled for", "[card]") {
  // The card of the stub is of 9.0, the code was compiled for 8.0.
  CHECK(cuda::card().code == 80);
  CHECK(!cuda::card().overlap);
}

namespace {

/// A problem with algorithms that take so many seconds on the card's clock, by plan; none: out of memory; less than 0:
/// they fail.
struct Puzzle {
  int number = 0;
  auto operator<=>(const Puzzle&) const = default;
};
std::string text_of(const Puzzle& puzzle) { return message("puzzle ", puzzle.number); }

using PuzzleAlgorithm = cuda::Algorithm<Puzzle, int>;
std::vector<std::optional<int>> first_takes, second_takes;
int runs = 0;

template <const std::vector<std::optional<int>>& takes>
void run_puzzle(Context& context, const Puzzle&, const int&, int plan, void*) {
  ++runs;
  const std::optional<int> time = takes[static_cast<std::size_t>(plan)];
  if (!time) throw OutOfMemory("full");
  if (*time < 0) throw Error("fails");
  REQUIRE(card::queue(cuda::stream_of(context), [time] { card::pass(std::chrono::seconds(*time)); }) == cudaSuccess);
}
template <const std::vector<std::optional<int>>& takes>
int next_puzzle(const Puzzle&, int plan) {
  return plan + 1 < static_cast<int>(takes.size()) ? plan + 1 : -1;
}
const PuzzleAlgorithm first_algorithm{
    .name = "first", .run = run_puzzle<first_takes>, .next_plan = next_puzzle<first_takes>};
const PuzzleAlgorithm second_algorithm{.name = "second",
                                       .fits = [](const Puzzle& puzzle) { return puzzle.number < 100; },
                                       .run = run_puzzle<second_takes>,
                                       .next_plan = next_puzzle<second_takes>};
const std::array puzzle_algorithms{&first_algorithm, &second_algorithm};

std::string chosen(int number, std::vector<std::optional<int>> first, std::vector<std::optional<int>> second) {
  first_takes = std::move(first);
  second_takes = std::move(second);
  runs = 0;
  const auto [algorithm, plan] =
      cuda::choose<Puzzle, int>(current_scope().context, nullptr, puzzle_algorithms, Puzzle{number}, 0);
  return message(algorithm->name, ' ', plan);
}

}  // namespace

TEST_CASE("card: a trial's choice is remembered under its problem, without one nothing is", "[card]") {
  {
    const Device free(card_mode(), {.deterministic = false});
    void* const stream = current_scope().context.stream;
    CHECK(chosen(1, {5, 3}, {4, 0, 2}) == "second 1");
    CHECK(runs > 0);
    // The same problem asks nobody again, another one has its own choice.
    CHECK(chosen(1, {0}, {2, 2}) == "second 1");
    CHECK(runs == 0);
    CHECK(chosen(2, {3, 0}, {2}) == "first 1");
    // Nothing is timed, and nothing remembered, while recording.
    card_mode().capture->begin(stream);
    CHECK(chosen(3, {2}, {0}) == "first 0");
    CHECK(chosen(1, {0}, {2, 2}) == "second 1");
    CHECK(runs == 0);
    card_mode().capture->abandon(stream);
    CHECK(chosen(3, {2}, {0}) == "second 0");
    // A plan for which there is no memory, or that fails, is none; where nothing runs, nothing is remembered.
    CHECK(chosen(4, {std::nullopt, 2}, {-1, 3}) == "first 1");
    CHECK(chosen(5, {std::nullopt}, {-1}) == "first 0");
    CHECK(chosen(5, {2}, {0}) == "second 0");
    // One that does not fit is not tried, and an algorithm without plans is none.
    CHECK(chosen(100, {3}, {0}) == "first 0");
    CHECK(chosen(6, {}, {0}) == "second 0");
    CHECK_THROWS_WITH(chosen(101, {}, {0}), Catch::ContainsSubstring("puzzle 101"));
  }
  const Device fixed(card_mode(), {.deterministic = true});
  CHECK(chosen(1, {5}, {0, 0}) == "first 0");
  CHECK(chosen(7, {5}, {0}) == "first 0");
  CHECK(runs == 0);

  const std::vector<std::string> lines = kernels::remembered_choices<Puzzle, int>();
  CHECK(std::count(lines.begin(), lines.end(), "puzzle 1: second, plan 1") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "puzzle 3: second, plan 0") == 1);
  for (const std::string& line : lines) CHECK(line.find("puzzle 7") == std::string::npos);
}

TEST_CASE("card: a problem prepared for two streams runs beside another in a recording", "[card]") {
  const Device device(card_mode());
  Context& context = current_scope().context;
  first_takes = second_takes = {0};
  std::optional<cuda::Prepared<Puzzle, int>> first, second;
  first.emplace(context, nullptr, puzzle_algorithms, Puzzle{8}, 0);
  second.emplace(context, nullptr, puzzle_algorithms, Puzzle{9}, 0);
  std::vector<cudaStream_t> streams;
  const auto last = [&](Context& where) { streams.push_back(cuda::stream_of(where)); };
  cuda::run_side_by_side(context, first, second, last);
  card_mode().capture->begin(context.stream);
  cuda::run_side_by_side(context, first, second, last);
  first.reset();
  cuda::run_side_by_side(context, first, second, last);
  card_mode().capture->destroy(card_mode().capture->end(context.stream));
  CHECK(streams[0] == cuda::stream_of(context));
  CHECK(streams[1] != cuda::stream_of(context));
  CHECK(streams[2] == cuda::stream_of(context));
}

TEST_CASE("card: an operator is fused by the rule, or as it is forced", "[card]") {
  using Algorithm = kernels::Algorithm<int, kernels::NoArrays>;
  static constexpr Algorithm first{.name = "fused", .fits = [](const int& size) { return size >= 8; }};
  static constexpr Algorithm composed{.name = "composed"};
  static constexpr Algorithm last{.name = "fused", .fits = [](const int& size) { return size >= 2; }};
  static constexpr std::array all{&first, &composed, &last};
  static const char* forced = nullptr;
  static std::string took;
  const Algorithms watcher{.watched{1},
                           .forced = [](const char* decision) { return decision[0] == 'o' ? forced : nullptr; },
                           .took = [](const char*, const char* algorithm) noexcept { took += algorithm; }};
  const Context context{.algorithms = &watcher};
  const auto fused = [&](const char* name, int size) {
    forced = name;
    return kernels::fuses<int>(context, "own", all, size);
  };
  CHECK(fused(nullptr, 8));
  CHECK(took.empty());  // its kernel reports that
  CHECK_FALSE(fused(nullptr, 4));
  CHECK(took == "composed");
  CHECK(fused("fused", 4));
  CHECK_FALSE(fused("fused", 1));
  CHECK_FALSE(fused("composed", 8));
  CHECK(kernels::fuses<int>(context, "another", all, 8));
}

TEST_CASE("card: a memo forgets what was found longest ago", "[card]") {
  kernels::Memo<int, std::string> memo(3);
  for (int i = 0; i < 3; ++i) memo.keep(i, std::to_string(i));
  REQUIRE(memo.find(0) != nullptr);
  CHECK(memo.keep(0, "another") == "0");
  CHECK(memo.full());
  memo.keep(3, "3");
  CHECK(memo.size() == 3);
  CHECK(memo.find(1) == nullptr);
  for (const int kept : {0, 2, 3}) {
    REQUIRE(memo.find(kept) != nullptr);
    CHECK(*memo.find(kept) == std::to_string(kept));
  }
}

TEST_CASE("card: its memory keeps what the contract promises", "[card][memory]") {
  tern::testing::check_memory(cuda::memory(0));
}
