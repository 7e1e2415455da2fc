// The host code of the cuda mode (memory, streams, recordings, choices) on the card of stub/cuda_runtime.h, with
// threads.

#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"
#include "cuda/timing.cuh"
#include "support/catch.hpp"
#include "support/memory_conformance.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/branches.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

cudaStream_t stream_of(const Context& context) { return cuda::stream_of(context); }

// Kernels that run on the card's streams, as those of the cuda mode do.
void queued_add(Context& context, float* out, const float* a, const float* b, const kernels::Broadcast& sizes) {
  REQUIRE(card::queue(stream_of(context), [context, out, a, b, sizes]() mutable {
            mode("sequential").operators.arithmetic.add(context, out, a, b, sizes);
          }) == cudaSuccess);
}
void queued_copy(Context& context, void* out, const void* in, const kernels::Strided& sizes, std::size_t element) {
  REQUIRE(card::queue(stream_of(context), [context, out, in, sizes, element]() mutable {
            mode("sequential").movement.copy(context, out, in, sizes, element);
          }) == cudaSuccess);
}
void queued_fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), value, element);
  REQUIRE(card::queue(stream_of(context), [context, out, n, bytes, element]() mutable {
            mode("sequential").movement.fill(context, out, n, bytes.data(), element);
          }) == cudaSuccess);
}

/// The mode "card". Of its operators only add, copy and fill run on the card.
const Mode& card_mode() {
  static const Mode& made = [&]() -> const Mode& {
    Mode copy = mode("sequential");
    copy.memory = &cuda::memory();
    copy.capture = &cuda::capture();
    copy.timer = &cuda::timer();
    copy.operators.arithmetic.add = queued_add;
    copy.movement.copy = queued_copy;
    copy.movement.fill = queued_fill;
    return register_mode("card", copy);
  }();
  return made;
}

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
  Memory& memory = cuda::memory();
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
  CHECK_THROWS_AS(cuda::microseconds(current_scope().context, [] { throw Error("no"); }), Error);
  CHECK(card::live_events() == events);
}

TEST_CASE("card: kernels are chosen by what they were compiled for", "[card]") {
  // The card of the stub is of 9.0, the code was compiled for 8.0.
  CHECK(cuda::card().code == 80);
  CHECK(!cuda::card().overlap);
}

TEST_CASE("card: a trial's choice is remembered under its key, without one nothing is", "[card]") {
  const Device free(card_mode(), {.deterministic = false});
  Context& context = current_scope().context;
  struct Decision;
  int asked = 0;
  const auto choose = [&](int key, std::vector<std::optional<float>> times) {
    return cuda::fastest<Decision>(context, key, times.size(), [&](std::size_t i) {
      ++asked;
      return times[i];
    });
  };
  CHECK(choose(1, {3.0f, 1.0f, std::nullopt, 2.0f}) == 1);
  CHECK(asked == 4);
  // The same key asks nobody again, another one has its own choice.
  CHECK(choose(1, {1.0f, 2.0f}) == 1);
  CHECK(asked == 4);
  CHECK(choose(2, {1.0f, 2.0f}) == 0);
  CHECK(asked == 6);
  // Nothing is timed, and nothing remembered, while recording.
  card_mode().capture->begin(context.stream);
  CHECK(choose(3, {2.0f, 1.0f}) == 0);
  CHECK(choose(1, {1.0f, 2.0f}) == 1);
  card_mode().capture->abandon(context.stream);
  CHECK(asked == 6);
  CHECK(choose(3, {2.0f, 1.0f}) == 1);
  // A candidate for which there is no memory is none.
  CHECK(cuda::fastest<Decision>(context, 4, 2, [](std::size_t i) {
          if (i == 0) throw OutOfMemory("full");
          return std::optional(1.0f);
        }) == 1);
  const Device fixed(card_mode(), {.deterministic = true});
  asked = 0;
  CHECK(cuda::fastest<Decision>(current_scope().context, 1, 2, [&](std::size_t) {
          ++asked;
          return std::optional(1.0f);
        }) == 0);
  CHECK(asked == 0);
}

TEST_CASE("card: a memo forgets what was found longest ago", "[card]") {
  cuda::Memo<int, std::string> memo(3);
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
  tern::testing::check_memory(cuda::memory());
}
