// A recorded call takes no memory: neither from the system nor, for results that are passed in, from the pool.

#include <atomic>
#include <cstdlib>
#include <new>

#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

constinit thread_local bool counts = false;
constinit thread_local int allocations = 0;

void* allocated(std::size_t bytes, std::size_t alignment) {
  if (counts) ++allocations;
  if (bytes == 0) bytes = 1;
  void* const block = alignment == 0 ? std::malloc(bytes)
                                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

// Not inlined: g++ 13 would warn that what `new` returned is freed.
[[gnu::noinline]] void release(void* block) { std::free(block); }

}  // namespace

// The library's, too: this program is linked with it.
void* operator new(std::size_t bytes) { return allocated(bytes, 0); }
void* operator new[](std::size_t bytes) { return allocated(bytes, 0); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // std::stable_sort's
  if (counts) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocated(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }

TEST_CASE("program: a recorded call allocates nothing", "[graph]") {
  const auto check = [](const char* name, nn::Module& net, const Shape& shape) {
    net.eval();
    for (const int threads : {1, 2}) {
      INFO(name << " on " << threads << " threads");
      const Device device{"vectorized", {.threads = threads}};
      const NoGrad no_grad;
      const std::vector<Tensor> inputs{numbers(shape)};
      const graph::Program program(net, inputs, {.fold = false});
      const Tensor expected = net(inputs[0]);
      std::vector<Tensor> results;
      for (int i = 0; i < 5; ++i) program.run(inputs, results);
      CHECK(program.unrecorded() == "");
      const void* const place = results[0].storage().pointer_in(host_memory());
      const std::size_t in_use = host_memory().statistics().in_use;
      host_memory().reset_peak();
      allocations = 0;
      counts = true;
      for (int i = 0; i < 5; ++i) program.run(inputs, results);
      counts = false;
      CHECK(allocations == 0);
      CHECK(results[0].storage().pointer_in(host_memory()) == place);
      CHECK(host_memory().statistics().in_use == in_use);
      CHECK(difference_of(results, {expected}) == "");
    }
  };
  models::LeNet lenet;
  check("LeNet", lenet, {2, 1, 28, 28});
  models::ResNet18 resnet({.classes = 10, .image_size = 64}, 1);
  check("ResNet18", resnet, {1, 3, 64, 64});
  check("ResNet18 in slices", resnet, {20, 3, 64, 64});
  models::GoogLeNet googlenet({.classes = 10, .image_size = 96}, 1);
  check("GoogLeNet", googlenet, {1, 3, 96, 96});
  models::MobileNetV2 mobilenet({.classes = 10, .image_size = 64}, 1);
  check("MobileNetV2", mobilenet, {1, 3, 64, 64});
  nn::Sequential rows{nn::Linear(96, 200, {.activation = Activation::gelu}), nn::LayerNorm({200}), nn::Linear(200, 10),
                      nn::Softmax()};
  check("rows", rows, {3, 96});
}

TEST_CASE("program: results that do not fit are made anew, others are overwritten where they lie", "[graph]") {
  const Device device{"vectorized"};
  const NoGrad no_grad;
  const graph::Program program(graph::trace(
      [](const std::vector<Tensor>& x) {
        return std::vector{operators::tanh(x[0]), x[0]};
      },
      {numbers({2, 3})}));
  const Tensor whole = zeros({4, 3});
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Tensor x = numbers({2, 3}, i);
    std::vector<Tensor> results{whole.slice(0, 1, 3), zeros({3, 2})};
    program.run({x}, results);
    CHECK(difference_of(results, {operators::tanh(x), x}) == "");
    CHECK((results[0].shared_storage() == whole.shared_storage()) == (i > 1));  // the first two calls are not recorded
    CHECK(whole[0].values() == std::vector<double>(3));
    CHECK(whole[3].values() == std::vector<double>(3));
  }
}
