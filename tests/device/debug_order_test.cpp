// What nothing orders, on the debug device: streams, waits, recordings and their branches. Every planted fault is found
// by the names of both operators.

#include <thread>

#include "device/debug_faults.hpp"
#include "support/catch.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

TEST_CASE("debug: a stream that reads what another one writes, without an order", "[device][debug]") {
  Bare bare;
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, bare.x, bare.other); }),
              {"neg (argument 2) on stream", "which copy from the host on stream", unordered, " reads "}) == "");
}

TEST_CASE("debug: a stream that writes what another one reads, without an order", "[device][debug]") {
  Bare bare;
  bare.memory.order(bare.own, bare.other);
  bare.neg(bare.y, bare.x, bare.other);
  CHECK(lacks(fault_of([&] { bare.memory.copy_in(bare.x, bare.host.data(), bare.bytes, bare.own); }),
              {"copy from the host on stream", "which neg on stream", unordered, " writes block"}) == "");
  bare.memory.order(bare.other, bare.own);
  bare.memory.copy_in(bare.x, bare.host.data(), bare.bytes, bare.own);
}

TEST_CASE("debug: two streams that write the same block, without an order", "[device][debug]") {
  Bare bare;
  bare.neg(bare.y, bare.x, bare.own);
  bare.memory.synchronize(bare.own);
  bare.neg(bare.y, bare.x, bare.own);
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, bare.x, bare.other); }),
              {"neg (argument 1) on stream", "which neg on stream", unordered, " writes block"}) == "");
}

TEST_CASE("debug: a block used on a stream that does not know of its allocation", "[device][debug]") {
  Bare bare;
  bare.memory.synchronize(bare.own);
  float* const fresh = bare.allocate();
  CHECK(lacks(fault_of([&] { bare.neg(fresh, bare.x, bare.other); }), {"neg", "its allocation", unordered}) == "");
  bare.memory.release(fresh, bare.bytes, bare.own);
}

TEST_CASE("debug: a block released while another stream reads it", "[device][debug]") {
  Bare bare;
  bare.memory.synchronize(bare.own);
  bare.neg(bare.y, bare.x, bare.other);
  CHECK(lacks(fault_of([&] {
                bare.give_back(bare.x, bare.own);
                bare.memory.synchronize(bare.own);
              }),
              {"release of block", "which neg on stream", unordered}) == "");
}

TEST_CASE("debug: a copy to the host that waits for the wrong stream", "[device][debug]") {
  Bare bare;
  bare.memory.order(bare.own, bare.other);
  bare.memory.synchronize(bare.own);
  bare.neg(bare.y, bare.x, bare.other);
  CHECK(lacks(fault_of([&] { bare.values(bare.y, bare.own); }),
              {"copy to the host on stream", "neg on stream", unordered}) == "");
  CHECK(bare.values(bare.y, bare.other) == std::vector<float>(16, -1.0F));
}

TEST_CASE("debug: copies on two streams, without an order", "[device][debug]") {
  Bare bare;
  bare.memory.synchronize(bare.own);
  bare.memory.copy(bare.y, bare.x, bare.bytes, bare.own);
  CHECK(lacks(fault_of([&] { bare.memory.copy(bare.x, bare.y, bare.bytes, bare.other); }),
              {"copy on", "copy on", unordered}) == "");
}

TEST_CASE("debug: an order is one way", "[device][debug]") {
  Bare bare;
  bare.memory.order(bare.other, bare.own);
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, bare.x, bare.other); }), {"neg", "copy from the host", unordered}) == "");
}

TEST_CASE("debug: orders go from stream to stream", "[device][debug]") {
  Bare bare;
  void* const third = bare.another_stream();
  bare.memory.order(bare.own, bare.other);
  bare.memory.order(bare.other, third);
  bare.neg(bare.y, bare.x, third);
  bare.memory.finish(third);
  CHECK(bare.values(bare.y, bare.own) == std::vector<float>(16, -1.0F));
}

namespace {

/// The debug device's memory, by somebody who has forgotten that streams want an order.
class Forgetful final : public Memory {
 public:
  explicit Forgetful(Memory& inner) : inner_(inner) {}
  std::string_view name() const override { return "forgetful"; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t bytes, void* stream) override { return inner_.allocate(bytes, stream); }
  void release(void* pointer, std::size_t bytes, void* stream) noexcept override {
    inner_.release(pointer, bytes, stream);
  }
  void copy_in(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy_in(to, from, bytes, stream);
  }
  void copy_out(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy_out(to, from, bytes, stream);
  }
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override {
    inner_.copy(to, from, bytes, stream);
  }
  void* stream() override { return inner_.stream(); }
  void synchronize(void* stream) override { inner_.synchronize(stream); }
  MemoryStatistics statistics() const override { return inner_.statistics(); }
  void reset_peak() override { inner_.reset_peak(); }
  void trim() override { inner_.trim(); }
  void set_limit(std::size_t bytes) override { inner_.set_limit(bytes); }

 private:
  Memory& inner_;
};

}  // namespace

TEST_CASE("debug: tensors handed to another thread, by a memory that orders nothing", "[device][debug]") {
  Mode forgetful = planted("forgetful kernels", [](Mode&) {});
  forgetful.memory = new Forgetful(*forgetful.memory);
  const Mode& device_mode = register_mode("forgetful", forgetful);
  const auto program = [](const Mode& mode) {
    Tensor made;
    std::thread([&] {
      const Device device(mode);
      made = op::matmul(ones({4, 4}), ones({4, 4}));
    }).join();
    const Device device(mode);
    op::relu(made).values();
  };
  CHECK(lacks(fault_of([&] { program(device_mode); }), {"relu (argument 2)", "which matmul on stream", unordered}) ==
        "");
  CHECK(fault_of([&] { program(mode("debug")); }) == "no fault");
}

// ---- recordings ----

namespace {

/// A recording of what `work` queues.
void* record(const Bare& bare, const std::function<void()>& work) {
  bare.mode.capture->begin(bare.own);
  work();
  return bare.mode.capture->end(bare.own);
}

}  // namespace

TEST_CASE("debug: a replay beside a stream that writes what it reads", "[device][debug]") {
  Bare bare;
  void* const recording = record(bare, [&] { bare.neg(bare.y, bare.x, bare.own); });
  bare.mode.capture->launch(recording, bare.own);
  CHECK(bare.values(bare.y, bare.own) == std::vector<float>(16, -1.0F));
  bare.memory.order(bare.own, bare.other);
  bare.memory.copy_in(bare.x, bare.host.data(), bare.bytes, bare.other);
  CHECK(lacks(fault_of([&] { bare.mode.capture->launch(recording, bare.own); }),
              {"neg", "copy from the host", unordered}) == "");
  bare.memory.order(bare.other, bare.own);
  bare.mode.capture->launch(recording, bare.own);
  CHECK(bare.values(bare.y, bare.own) == std::vector<float>(16, -1.0F));
  bare.mode.capture->destroy(recording);
}

TEST_CASE("debug: branches that write one block", "[device][debug]") {
  Bare bare;
  const auto fault = fault_of([&] {
    void* const recording = record(bare, [&] {
      bare.mode.capture->branch(bare.own);
      bare.neg(bare.y, bare.x, bare.own);
      bare.mode.capture->branch(bare.own);
      bare.neg(bare.y, bare.x, bare.own);
      bare.mode.capture->join(bare.own);
    });
    bare.mode.capture->destroy(recording);
    bare.memory.synchronize(bare.own);
  });
  CHECK(lacks(fault, {"neg writes block", "neg writes it in another"}) == "");
}

TEST_CASE("debug: a branch that reads what another one writes", "[device][debug]") {
  Bare bare;
  const auto fault = fault_of([&] {
    void* const recording = record(bare, [&] {
      bare.mode.capture->branch(bare.own);
      bare.neg(bare.y, bare.x, bare.own);
      bare.mode.capture->branch(bare.own);
      bare.memory.copy(bare.x, bare.y, 32, bare.own);
      bare.mode.capture->join(bare.own);
    });
    bare.mode.capture->destroy(recording);
    bare.memory.synchronize(bare.own);
  });
  CHECK(lacks(fault, {"in one branch of a step", "copy"}) == "");
}

TEST_CASE("debug: work that uses what is aside before it is awaited", "[device][debug]") {
  const auto fault = [](bool awaits, bool reads) {
    Bare bare;
    return fault_of([&] {
      void* const recording = record(bare, [&] {
        const Capture& capture = *bare.mode.capture;
        capture.aside(bare.own, {.everything = true});
        bare.neg(bare.y, bare.x, bare.own);
        capture.aside(bare.own, {});
        if (awaits) capture.await(bare.own);
        bare.memory.copy(reads ? bare.x : bare.y, reads ? bare.y : bare.x, 32, bare.own);
        if (!awaits) capture.await(bare.own);
      });
      bare.mode.capture->launch(recording, bare.own);
      bare.memory.synchronize(bare.own);
      bare.mode.capture->destroy(recording);
    });
  };
  CHECK(fault(true, true) == "no fault");
  CHECK(fault(true, false) == "no fault");
  CHECK(lacks(fault(false, true), {"in a step", "copy", "neg", "aside"}) == "");
  CHECK(lacks(fault(false, false), {"in a step", "copy", "neg", "aside"}) == "");
}

TEST_CASE("debug: a replay that reads what only an earlier replay wrote", "[device][debug]") {
  Bare bare;
  float* inside = nullptr;
  void* const recording = record(bare, [&] {
    inside = bare.allocate();
    bare.neg(bare.y, inside, bare.own);
  });
  CHECK(lacks(fault_of([&] {
                bare.mode.capture->launch(recording, bare.own);
                bare.memory.copy(inside, bare.x, bare.bytes, bare.own);
                bare.mode.capture->launch(recording, bare.own);
                bare.memory.synchronize(bare.own);
              }),
              {"neg", "used bytes that nothing wrote"}) == "");
  bare.memory.release(inside, bare.bytes, bare.own);
  bare.mode.capture->destroy(recording);
}
