// Two cards: what belongs to one is not used on the other (the stub counts that), and work on both goes side by side.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "card_mode.hpp"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"
#include "support/catch.hpp"
#include "support/memory_conformance.hpp"
#include "support/training.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/profile.hpp"

using namespace tern;
using Catch::ContainsSubstring;
using tern::testing::card_mode;
namespace op = tern::operators;

namespace {

bool all_are(const Tensor& tensor, double value) {
  const std::vector<double> values = tensor.values();
  return std::all_of(values.begin(), values.end(), [&](double element) { return element == value; });
}

/// What is queued on the calling thread's stream of the device waits a while, and then for `after`.
void delay(
    int device, std::function<void()> after = [] {}) {
  const Device here(card_mode(), {.index = device});
  cuda::use_card(device);
  REQUIRE(card::queue(cuda::stream_of(current_scope().context), [after] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            after();
          }) == cudaSuccess);
}

Tensor made_on(int device, double value) {
  const Device here(card_mode(), {.index = device});
  return op::add(full({64}, value - 1), ones({1}));
}

/// Nothing was used on another card than its own.
struct NoMisuse {
  NoMisuse() { card::take_misuses(); }
  ~NoMisuse() { CHECK(card::take_misuses() == 0); }
};

}  // namespace

TEST_CASE("cards: each has its memory, its streams, its figures", "[card][cards]") {
  const NoMisuse watched;
  (void)card_mode();
  CHECK(cuda::card_count() == 2);
  CHECK(mode("card:1").memory == &cuda::memory(1));
  CHECK(cuda::memory(0).name() == "cuda");
  CHECK(cuda::memory(1).name() == "cuda:1");
  const Tensor first = made_on(0, 3), second = made_on(1, 4);
  CHECK(card::of(first.storage().pointer_in(cuda::memory(0))) == 0);
  CHECK(card::of(second.storage().pointer_in(cuda::memory(1))) == 1);
  CHECK(cuda::memory(0).stream() != cuda::memory(1).stream());
  cuda::use_card(1);
  CHECK(cuda::card().device == 1);
  CHECK(&cuda::thread_stream() == &cuda::thread_stream(1));
  cuda::use_card(0);
  CHECK(cuda::card().device == 0);
  // They reach each other, whatever is current.
  const int straight = card::straight_copies();
  for (const int to : {0, 1}) {
    Memory &here = cuda::memory(to), &there = cuda::memory(1 - to);
    const Tensor& from = to == 0 ? second : first;
    void* const block = here.allocate(256, here.stream());
    REQUIRE(cudaSetDevice(1 - to) == cudaSuccess);
    CHECK(here.copy_from(there, block, from.storage().pointer_in(there), 256, there.stream(), here.stream()));
    here.release(block, 256, here.stream());
  }
  CHECK(card::straight_copies() == straight + 2);
  CHECK(!cuda::memory(0).copy_from(host_memory(), nullptr, nullptr, 0, nullptr, nullptr));
  // A stream of the other card is refused, by name.
  CHECK_THROWS_WITH(cuda::memory(1).allocate(64, cuda::memory(0).stream()), ContainsSubstring("a stream of card 0"));
  cuda::memory(1).set_limit(cuda::memory(1).statistics().reserved);
  CHECK_THROWS_WITH(cuda::memory(1).allocate(std::size_t{1} << 26, cuda::memory(1).stream()),
                    ContainsSubstring("cuda:1: out of memory"));
  cuda::memory(1).set_limit(0);
}

TEST_CASE("cards: a kernel runs on the card of its context, whatever is current", "[card][cards]") {
  const NoMisuse watched;
  for (const int elsewhere : {0, 1})
    for (const int device : {0, 1, 0, 1}) {
      const Device here(card_mode(), {.index = device});
      REQUIRE(cudaSetDevice(elsewhere) == cudaSuccess);  // as a program does that calls the runtime itself
      CHECK(all_are(op::add(made_on(device, 2), made_on(1 - device, 5)), 7));
    }
}

TEST_CASE("cards: a tensor goes from one to the other and to the host", "[card][cards]") {
  const NoMisuse watched;
  const Tensor x = made_on(0, 6);
  reset_transfers();
  const int copies = card::peer_copies(), straight = card::straight_copies();
  {
    const Device second(card_mode(), {.index = 1});
    const Tensor y = op::add(x, x);
    CHECK(card::peer_copies() == copies + 1);
    CHECK(card::straight_copies() == straight + 1);
    CHECK(all_are(y, 12));
    (void)op::add(x, y);
    CHECK(card::peer_copies() == copies + 1);
  }
  const auto moved = [](const std::string& from, const std::string& to) {
    for (const Transfer& transfer : transfers())
      if (transfer.from == from && transfer.to == to) return transfer.count;
    return std::int64_t{0};
  };
  CHECK(moved("cuda", "cuda:1") == 1);
  CHECK(moved("cuda:1", "host") == 1);
  CHECK(moved("cuda", "host") == 0);
}

TEST_CASE("cards: a copy between two waits for the bytes, and their next writer for the copy", "[card][cards]") {
  const NoMisuse watched;
  for (int round = 0; round < 3; ++round) {
    delay(0);
    Tensor x = made_on(0, round);  // late
    delay(1);
    Tensor y;
    {
      const Device second(card_mode(), {.index = 1});
      y = op::add(x, x);
    }
    {
      const Device first(card_mode());
      x.fill_(-1);  // while the copy is not made yet
    }
    CHECK(all_are(y, 2 * round));
    CHECK(all_are(x, -1));
  }
  // The maker's block is used again only after the copy, too.
  delay(1);
  Tensor x = made_on(0, 8), y;
  {
    const Device second(card_mode(), {.index = 1});
    y = op::add(x, x);
  }
  x = Tensor();
  const Tensor other = made_on(0, 100);
  CHECK(all_are(y, 16));
}

TEST_CASE("cards: to wait for a memory is to wait for every stream of its card", "[card][cards]") {
  const NoMisuse watched;
  for (const int device : {0, 1}) {
    std::atomic<bool> done = false;
    delay(device, [&] { done = true; });
    cuda::memory(device).finish(nullptr);
    CHECK(done);
  }
}

TEST_CASE("cards: a tensor is copied away while its maker records", "[card][cards]") {
  const NoMisuse watched;
  const Device device(card_mode());
  const Tensor done = made_on(0, 3);
  const Mode& mode = card_mode();
  void* const stream = current_scope().context.stream;
  mode.capture->begin(stream);
  CHECK(std::async(std::launch::async, [&] {
          const Device second(card_mode(), {.index = 1});
          return all_are(op::add(done, done), 6);
        }).get());
  mode.capture->destroy(mode.capture->end(stream));
  CHECK(all_are(op::add(done, done), 6));
  // A recording itself takes no bytes of another card.
  const Tensor far = made_on(1, 3);
  mode.capture->begin(stream);
  CHECK_THROWS_WITH(op::add(far, far), ContainsSubstring("a copy from another card cannot be part of a recorded step"));
  mode.capture->abandon(stream);
}

TEST_CASE("cards: what a thread made on a card, another one frees, reads and makes anew", "[card][cards]") {
  const NoMisuse watched;
  for (int round = 0; round < 6; ++round) {
    std::vector<Tensor> tensors{made_on(0, 1), made_on(1, 2)};
    std::thread([&] {
      const Tensor both = [&] {
        const Device here(card_mode(), {.index = round % 2});
        return op::add(tensors[0], tensors[1]);
      }();
      (void)made_on(1 - round % 2, 5);  // works on the other card before it frees
      tensors.clear();
      if (!all_are(both, 3)) throw Error("wrong sum");
    }).join();
    CHECK(all_are(made_on(round % 2, 9), 9));
  }
}

TEST_CASE("cards: recordings of two threads on two cards", "[card][cards]") {
  const NoMisuse watched;
  const auto learn = [](int device) {
    const Device here(card_mode(), {.index = device});
    Tensor weight = made_on(device, device), gradient = made_on(device, 1);
    Step step{[&](const Tensor& x) { return op::add(op::add(weight, x), gradient); }};
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += step(made_on(device, i)).slice(0, 0, 1).item();
    return std::pair{sum, step.replays()};
  };
  auto other = std::async(std::launch::async, learn, 1);
  const auto [sum, replays] = learn(0);
  const auto [other_sum, other_replays] = other.get();
  CHECK(sum == 28 + 8);
  CHECK(other_sum == 28 + 16);
  CHECK(replays > 0);
  CHECK(other_replays > 0);
}

TEST_CASE("cards: a recording ends and is launched on its card, whatever is current", "[card][cards]") {
  const NoMisuse watched;
  for (const int device : {0, 1}) {
    const Device here(card_mode(), {.index = device});
    const Tensor x = made_on(device, 1);
    Tensor y = made_on(device, 2);
    void* const stream = current_scope().context.stream;
    const Capture& capture = *card_mode().capture;
    capture.begin(stream);
    y = op::add(x, x);
    REQUIRE(cudaSetDevice(1 - device) == cudaSuccess);
    void* const recording = capture.end(stream);
    REQUIRE(cudaSetDevice(1 - device) == cudaSuccess);
    capture.launch(recording, stream);
    CHECK(all_are(y, 2));
    capture.destroy(recording);
  }
}

TEST_CASE("cards: a mark goes with the stream that it is put into", "[card][cards]") {
  const NoMisuse watched;
  const Timer& timer = *card_mode().timer;
  const int events = card::live_events();
  void *const first = timer.make(), *const second = timer.make();
  for (const int device : {0, 1, 0}) {
    void* const stream = cuda::memory(device).stream();
    timer.record(first, stream);
    delay(device);
    timer.record(second, stream);
    CHECK(timer.elapsed(first, second) >= 0.02);
  }
  timer.destroy(first);
  timer.destroy(second);
  CHECK(card::live_events() == events);
}

TEST_CASE("cards: two trainings at once have the bits that each has alone", "[card][cards]") {
  const NoMisuse watched;
  (void)card_mode();
  const auto together = testing::trained_at_once({"card", "card:1"}, 2, 2);
  CHECK(together[0] == testing::trained("sequential", 1, 2, 2));
  CHECK(together[1] == testing::trained("sequential", 2, 2, 2));
}

TEST_CASE("cards: a profile times the work of both", "[card][cards]") {
  const NoMisuse watched;
  std::vector<std::string> modes;
  {
    Profile profile;
    for (int round = 0; round < 2; ++round)
      for (const int device : {0, 1}) CHECK(all_are(op::add(made_on(device, 1), ones({1})), 2));
    for (const ProfileRow& row : profile.table().rows)
      if (std::string_view(row.name) == "add") modes.push_back(row.mode);
  }
  std::sort(modes.begin(), modes.end());
  CHECK(std::count(modes.begin(), modes.end(), "card") == 1);
  CHECK(std::count(modes.begin(), modes.end(), "card:1") == 1);
}

TEST_CASE("cards: shared memory is requested on each card, once", "[card][cards]") {
  static const int kernel = 0;
  for (int round = 0; round < 2; ++round)
    for (const int device : {0, 1}) {
      cuda::use_card(device);
      cuda::allow_shared(&kernel, 64 * 1024);
    }
  CHECK(card::times_set(&kernel, 0) == 1);
  CHECK(card::times_set(&kernel, 1) == 1);
  cuda::use_card(0);
}

TEST_CASE("cards: the second one's memory keeps what the contract promises", "[card][cards][memory]") {
  const NoMisuse watched;
  tern::testing::check_memory(cuda::memory(1));
}
