// What ends while other things go on: threads, recordings, and waits for a whole card.

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "card_mode.hpp"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"
#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using tern::testing::card_mode;
namespace op = tern::operators;

namespace {

Tensor made(double value) { return op::add(full({64}, value - 1), ones({1})); }

bool all_are(const Tensor& tensor, double value) {
  for (const double element : tensor.values())
    if (element != value) return false;
  return true;
}

}  // namespace

TEST_CASE("card: a wait for a whole card keeps nobody from its stream", "[card][cards]") {
  const Device device(card_mode());
  std::atomic<bool> served{false};
  const auto serve = [&] {
    while (!served) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  cuda::use_card(0);
  // As a sum of two ranks: the work of card 0 ends when card 1 has queued its part.
  REQUIRE(card::queue(cuda::stream_of(current_scope().context), serve) == cudaSuccess);
  std::thread trims([] { cuda::memory(0).trim(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::promise<void> ordered;
  std::thread rank([&] {
    Memory& memory = cuda::memory(1);
    void* other = nullptr;
    std::thread([&] { other = memory.stream(); }).join();
    memory.order(other, memory.stream());
    ordered.set_value();
  });
  const bool in_time = ordered.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  served = true;
  rank.join();
  trims.join();
  CHECK(in_time);
}

TEST_CASE("card: a replayed step that ends inside a recording leaves that whole", "[card]") {
  const Device device(card_mode());
  const Tensor x = made(2);
  std::optional<Step> old;
  old.emplace([](const Tensor& in) { return op::add(in, in); });
  for (int i = 0; i < 3; ++i) CHECK(all_are((*old)(x), 4));
  bool records = false;
  Step step{[&](const Tensor& in) {
    const Tensor y = op::add(in, in);
    if (records) old.reset();
    return op::add(y, in);
  }};
  CHECK(all_are(step(x), 6));
  records = true;
  CHECK(all_are(step(x), 6));
  records = false;
  CHECK(!old);
  CHECK(all_are(step(made(5)), 15));
}

TEST_CASE("card: what a thread's work reported is not the next thread's error", "[card]") {
  const Device device(card_mode());
  Tensor first;
  void *first_stream = nullptr, *second_stream = nullptr;
  std::thread([&] {
    const Device own(card_mode());
    first = made(1);
    const Context& context = current_scope().context;
    first_stream = context.stream;
    cuda::FaultCell* const cell = cuda::fault_cell(context);
    (void)card::queue(cuda::stream_of(context), [cell] { cuda::report(cell, cuda::Fault::label, 7, 5); });
  }).join();
  std::string trouble;
  std::thread([&] {
    const Device own(card_mode());
    second_stream = current_scope().context.stream;
    try {
      if (!all_are(made(3), 3)) trouble = "wrong values";
    } catch (const std::exception& error) {
      trouble = error.what();
    }
  }).join();
  CHECK(first_stream == second_stream);
  CHECK(trouble.empty());
  // A reader of the first thread's results still gets the error.
  CHECK_THROWS_WITH(first.values(), Catch::ContainsSubstring("the label 7"));
  CHECK(all_are(first, 1));
}
