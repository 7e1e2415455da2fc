// What branches of a recording queue together, on the card of stub/cuda_runtime.h.

#include "cuda/branches.cuh"

#include <cuda_runtime.h>

#include <future>
#include <thread>

#include "card_mode.hpp"
#include "cuda/cuda.hpp"
#include "support/catch.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using tern::testing::card_mode;

namespace {

struct Sum {
  float* to;
  const float* from;
  float factor;
};

/// to = to * factor + from
template <bool Shared>
void sum_kernel(cuda::KernelArguments<Sum, Shared> passed) {
  const Sum& mine = passed.mine();
  const unsigned i = blockIdx.x * 4 + threadIdx.x;
  mine.to[i] = mine.to[i] * mine.factor + mine.from[i];
}
template <bool Shared>
void other_kernel(cuda::KernelArguments<Sum, Shared> passed) {
  const Sum& mine = passed.mine();
  const unsigned i = blockIdx.x * 4 + threadIdx.x;
  mine.to[i] += mine.factor;
}

constexpr std::int64_t count = 8;

/// Tensors on the card, whose elements are numbers of their own, and what kernels are to make of them.
struct Arrays {
  std::vector<Tensor> to, from;
  std::vector<Sum> sums;
  explicit Arrays(int branches) {
    for (int i = 0; i < branches; ++i) {
      to.push_back(full({count}, 1));
      from.push_back(full({count}, i + 1));
      sums.push_back({static_cast<float*>(to.back().storage().update(current_scope())),
                      static_cast<const float*>(from.back().storage().read(current_scope())), 0});
    }
  }
  Sum sum(int branch, float factor) const {
    Sum sum = sums[static_cast<std::size_t>(branch)];
    sum.factor = factor;
    return sum;
  }
  double value(int branch) const { return to[static_cast<std::size_t>(branch)].values().back(); }
};

const Context& context() { return current_scope().context; }
void queue_sum(const Sum& sum, unsigned threads = 4) {
  cuda::launch_shared(context(), cuda::Grid(2, threads), sum, [](auto shared) { return sum_kernel<shared>; });
}
void queue_other(const Sum& sum) {
  cuda::launch_shared(context(), cuda::Grid(2, 4), sum, [](auto shared) { return other_kernel<shared>; });
}

/// Records work(branch) in so many branches; the launches that it took, once it has been replayed `replays` times.
template <class Work>
int recorded(int branches, int replays, const Work& work) {
  const Capture& capture = cuda::capture();
  void* const stream = context().stream;
  capture.begin(stream);
  // Replays write to the blocks that work before the branches has used and released.
  for (const std::size_t bytes : {512, 1024, 2048, 4096, 8192}) {
    void* const scratch = context().memory->allocate(bytes, stream);
    context().memory->copy(scratch, static_cast<std::byte*>(scratch) + bytes / 2, bytes / 2, stream);
    context().memory->release(scratch, bytes, stream);
  }
  card::take_launches();
  for (int branch = 0; branch < branches; ++branch) {
    capture.branch(stream);
    work(branch);
  }
  capture.join(stream);
  void* const recording = capture.end(stream);
  const int launches = card::take_launches();
  for (int i = 0; i < replays; ++i) capture.launch(recording, stream);
  capture.destroy(recording);
  return launches;
}

}  // namespace

TEST_CASE("branches: the same kernels of several are one launch", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(40);  // more than there are side streams
  const int launches = recorded(40, 2, [&](int branch) {
    queue_sum(arrays.sum(branch, 2));
    queue_other(arrays.sum(branch, 10));
    queue_sum(arrays.sum(branch, 3));
  });
  CHECK(launches == 3);
  for (int branch = 0; branch < 40; ++branch) {
    double value = 1;
    for (int i = 0; i < 2; ++i) value = (value * 2 + (branch + 1) + 10) * 3 + (branch + 1);
    CHECK(arrays.value(branch) == value);
  }
}

TEST_CASE("branches: one that differs is queued by itself, and so is what follows something else", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(6);
  Tensor copied = full({count}, 0);
  void* const to = copied.storage().write(current_scope());
  const int launches = recorded(6, 1, [&](int branch) {
    queue_sum(arrays.sum(branch, 2));
    if (branch == 1) queue_other(arrays.sum(branch, 10));
    if (branch == 3) {  // between the two kernels, of which both come in its order
      const Sum sum = arrays.sum(branch, 1);
      context().memory->copy(to, sum.to, count * sizeof(float), context().stream);
    }
    if (branch == 4)
      cuda::launch(context(), cuda::Grid(2, 4), other_kernel<false>,
                   cuda::KernelArguments<Sum, false>{arrays.sum(branch, 5)});
    queue_sum(arrays.sum(branch, 3));
  });
  CHECK(launches == 2 + 3 + 2 + 3);  // of 0, 2 and 5 together, of 1, of 3, and of 4
  const auto expected = [](int branch, double between) { return (2.0 + branch + 1 + between) * 3 + branch + 1; };
  for (int branch = 0; branch < 6; ++branch)
    CHECK(arrays.value(branch) == expected(branch, branch == 1 ? 10 : branch == 4 ? 5 : 0));
  CHECK(copied.values().front() == 2 + 4);
}

TEST_CASE("branches: what a thread queues after an early join follows all branches so far", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(3);
  void* const stream = context().stream;
  const int launches = recorded(3, 1, [&](int branch) {
    queue_sum(arrays.sum(branch, 2));
    if (branch != 1) return;
    cuda::capture().join(stream);
    CHECK(cuda::queue_of(stream) == static_cast<cudaStream_t>(stream));
    Sum sum = arrays.sum(1, 1);
    sum.from = arrays.sum(0, 1).to;  // what the first branch has written
    queue_sum(sum);
  });
  CHECK(launches == 1 + 1 + 1);
  CHECK(arrays.value(0) == 3);
  CHECK(arrays.value(1) == 4 + 3);
  CHECK(arrays.value(2) == 5);
}

TEST_CASE("branches: a launch that fails where they join is the end's error", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(2);
  CHECK_THROWS_WITH(recorded(2, 1, [&](int branch) { queue_sum(arrays.sum(branch, 2), 2048); }),
                    Catch::ContainsSubstring("launching a kernel"));
  // And the thread goes on.
  CHECK(recorded(2, 1, [&](int branch) { queue_sum(arrays.sum(branch, 2)); }) == 1);
  CHECK(arrays.value(1) == 4);
}

TEST_CASE("branches: they join on their card, whatever card a branch left current", "[card][cards]") {
  const Device device(card_mode());
  const Arrays arrays(2);
  const int launches = recorded(2, 1, [&](int branch) {
    queue_sum(arrays.sum(branch, 2));
    cuda::use_card(1);
  });
  cuda::use_card(0);
  CHECK(launches == 1);
  CHECK(arrays.value(1) == 4);
}

TEST_CASE("branches: a recording ends on a thread that can have no stream", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(2);
  void* const stream = context().stream;
  const Capture& capture = cuda::capture();
  Memory& memory = cuda::memory(0);
  const std::size_t before = memory.statistics().in_use;
  capture.begin(stream);
  for (int branch = 0; branch < 2; ++branch) {
    capture.branch(stream);
    queue_sum(arrays.sum(branch, 2));
  }
  capture.join(stream);
  void* const recording = capture.end(stream);
  capture.launch(recording, stream);
  CHECK(memory.statistics().in_use > before);
  // Threads take what streams there are; the first for which none is left ends the recording.
  card::fail_stream_creates(true);
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  std::vector<std::thread> threads;
  for (bool left = true; left;) {
    std::promise<bool> got;
    threads.emplace_back([&, end] {
      bool gets = true;
      try {
        (void)memory.stream();
      } catch (const Error&) {
        gets = false;
        capture.destroy(recording);
      }
      got.set_value(gets);
      end.wait();
    });
    left = got.get_future().get();
  }
  card::fail_stream_creates(false);
  over.set_value();
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.statistics().in_use == before);
  CHECK(arrays.value(1) == 4);
}

TEST_CASE("branches: outside of them a launch is queued at once", "[card]") {
  const Device device(card_mode());
  const Arrays arrays(1);
  queue_sum(arrays.sum(0, 2));
  CHECK(arrays.value(0) == 3);
}
