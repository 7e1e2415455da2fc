// What goes aside and ahead of a recording, on the card of stub/cuda_runtime.h: its streams, and which blocks are
// reused.

#include "cuda/aside.cuh"

#include <cuda_runtime.h>

#include "card_mode.hpp"
#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/recording.cuh"
#include "support/catch.hpp"
#include "tern/modes/device.hpp"

using namespace tern;
using tern::testing::card_mode;

namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

/// A recording of the thread, which ends well.
struct Recorded {
  const Device device = Device(card_mode());
  Context& context = current_scope().context;
  const Capture& capture = cuda::capture();
  void* const stream = context.stream;
  Recorded() { capture.begin(stream); }
  ~Recorded() { capture.destroy(capture.end(stream)); }

  cudaStream_t queue() const { return cuda::stream_of(context); }
  void* allocate(std::size_t bytes) const { return context.memory->allocate(bytes, stream); }
  void release(void* block, std::size_t bytes) const { context.memory->release(block, bytes, stream); }
  /// A block that the recording has used.
  void* used(std::size_t bytes) const {
    void* const block = allocate(bytes);
    release(block, bytes);
    return block;
  }
};

/// A half of a backward pass, which notes its stream.
struct Half {
  cudaStream_t* ran_on;
  void run(const Context& where) const { *ran_on = cuda::stream_of(where); }
};

}  // namespace

TEST_CASE("aside: work has a stream of its own until it goes in order", "[card]") {
  const Recorded recorded;
  const cudaStream_t in_order = recorded.queue();
  recorded.capture.aside(recorded.stream, {.everything = true});
  const cudaStream_t aside = recorded.queue();
  CHECK(aside != in_order);
  CHECK_FALSE(cuda::may_fork(recorded.context));
  recorded.capture.aside(recorded.stream, {.ahead = true});
  CHECK(recorded.queue() != aside);
  CHECK(recorded.queue() != in_order);
  recorded.capture.aside(recorded.stream, {.parameters = true});
  CHECK(recorded.queue() == in_order);
  recorded.capture.aside(recorded.stream, {});
  CHECK(recorded.queue() == in_order);
  recorded.capture.await(recorded.stream);
}

TEST_CASE("aside: a recording whose end does not await it fails", "[card]") {
  const Device device(card_mode());
  const Capture& capture = cuda::capture();
  void* const stream = current_scope().context.stream;
  capture.begin(stream);
  capture.aside(stream, {.everything = true});
  capture.aside(stream, {});
  CHECK_THROWS_WITH(capture.end(stream), Catch::ContainsSubstring("recording the step"));
}

TEST_CASE("aside: the half of a backward pass that is for parameters", "[card]") {
  Recorded recorded;
  cudaStream_t x = nullptr, weight = nullptr, bias = nullptr;
  const auto run = [&](bool leads_on) {
    std::optional<Half> to_x, to_weight(Half{&weight});
    if (leads_on) to_x.emplace(Half{&x});
    cuda::run_side_by_side(recorded.context, to_x, to_weight,
                           [&](const Context& where) { bias = cuda::stream_of(where); });
  };
  const cudaStream_t in_order = recorded.queue();
  recorded.capture.aside(recorded.stream, {.parameters = true});
  run(true);
  CHECK(x == in_order);
  CHECK(weight != in_order);
  CHECK(bias == weight);
  run(false);
  CHECK(weight == in_order);
  {
    const cudaStream_t aside = cuda::next_aside(recorded.context);
    const cuda::CopiedWeights others_read_them;
    run(true);
    CHECK(weight != in_order);  // it joins at once
    CHECK(weight != aside);
  }
  run(true);
  CHECK(weight == cuda::next_aside(recorded.context));
  recorded.capture.aside(recorded.stream, {});
  recorded.capture.await(recorded.stream);
}

TEST_CASE("aside: early work has a stream of its own, behind one of a few marks", "[card]") {
  const Recorded recorded;
  const Capture& capture = recorded.capture;
  const cudaStream_t in_order = recorded.queue();
  capture.aside(recorded.stream, {.everything = true});
  const cudaStream_t aside = recorded.queue();
  CHECK(capture.mark(recorded.stream) == 0);
  capture.aside(recorded.stream, {});
  capture.await(recorded.stream);
  capture.early(recorded.stream, 0);
  CHECK(recorded.queue() != in_order);
  CHECK(recorded.queue() != aside);
  CHECK(cuda::goes_early(recorded.stream));
  capture.early(recorded.stream, -1);
  CHECK(recorded.queue() == in_order);
  CHECK_FALSE(cuda::goes_early(recorded.stream));
  int marks = 1;
  while (capture.mark(recorded.stream) == marks) ++marks;
  CHECK(marks == cuda::Stream::most_marks);
  CHECK(capture.mark(recorded.stream) == -1);
}

TEST_CASE("aside: what is released beside it is used again once it is awaited", "[card]") {
  const Recorded recorded;
  constexpr std::size_t bytes = 3 * mebi;
  recorded.capture.aside(recorded.stream, {.everything = true});
  void* const inside = recorded.used(bytes);
  recorded.capture.aside(recorded.stream, {});
  void* const beside = recorded.allocate(bytes);
  CHECK(beside != inside);
  recorded.release(beside, bytes);
  recorded.capture.await(recorded.stream);
  void* const after[]{recorded.allocate(bytes), recorded.allocate(bytes)};
  CHECK(((after[0] == inside && after[1] == beside) || (after[0] == beside && after[1] == inside)));
  for (void* const block : after) recorded.release(block, bytes);
}

TEST_CASE("aside: a recording awaits it before it takes much more memory", "[card]") {
  const Recorded recorded;
  constexpr std::size_t bytes = 16 * mebi;
  recorded.capture.aside(recorded.stream, {.everything = true});
  void* const inside = recorded.used(bytes);
  recorded.capture.aside(recorded.stream, {});
  std::vector<void*> blocks;
  while (blocks.empty() || blocks.back() != inside) {
    REQUIRE(blocks.size() < 5);
    blocks.push_back(recorded.allocate(bytes));
  }
  CHECK(blocks.size() == 5);  // 64 MiB, and the one that was held back
  for (void* const block : blocks) recorded.release(block, bytes);
  CHECK(recorded.used(bytes) != nullptr);
  recorded.capture.await(recorded.stream);
}

TEST_CASE("ahead: what a kernel makes of its weights alone", "[card]") {
  const Recorded recorded;
  constexpr std::size_t bytes = 3 * mebi;
  cudaStream_t ran_on = nullptr;
  const auto work = [&](const Context& where, void*) { ran_on = cuda::stream_of(where); };
  void* const used = recorded.used(bytes);
  const auto made = [&] {
    cuda::MadeAhead ahead;
    return ahead.make(recorded.context, bytes, work);
  };
  CHECK(made() == nullptr);
  recorded.capture.aside(recorded.stream, {.weights = true});
  {
    const cuda::CopiedWeights copies;
    CHECK(made() == nullptr);
  }
  CHECK(ran_on == nullptr);
  void* const fresh = made();
  CHECK(fresh != used);
  CHECK(ran_on != recorded.queue());
  recorded.capture.aside(recorded.stream, {});
  // It ends with the kernel.
  void* const after[]{recorded.allocate(bytes), recorded.allocate(bytes)};
  CHECK((after[0] == fresh || after[1] == fresh));
  for (void* const block : after) recorded.release(block, bytes);
}

TEST_CASE("ahead: work takes no block that the recording has used, within a limit", "[card]") {
  const Recorded recorded;
  constexpr std::size_t bytes = 32 * mebi;
  void* const used = recorded.used(bytes);
  recorded.capture.aside(recorded.stream, {.ahead = true});
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(recorded.allocate(bytes));
  recorded.capture.aside(recorded.stream, {});
  CHECK(blocks[0] != used);
  CHECK(blocks[1] != used);
  CHECK(blocks[2] == used);
  for (void* const block : blocks) recorded.release(block, bytes);
}
