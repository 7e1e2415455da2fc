// The debug device: every planted fault is found by name, and nothing is found where there is none.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

/// The fault that `program` ends with.
std::string fault_of(const std::function<void()>& program) {
  try {
    program();
  } catch (const DeviceFault& fault) {
    return fault.what();
  }
  return "no fault";
}

/// A debug device whose kernels are sequential's but for what `change` puts in their place.
const Mode& planted(const std::string& name, const std::function<void(Mode&)>& change) {
  Mode copy = mode("sequential");
  change(copy);
  register_mode(name, copy);
  return mode("debug:" + name);
}

using Unary = void (*)(Context&, float*, const float*, std::int64_t);

/// What is found when `kernel` is the device's neg, of ten numbers.
std::string fault_of_kernel(const std::string& name, Unary kernel) {
  const Device device(planted(name, [&](Mode& mode) { mode.operators.arithmetic.neg = kernel; }));
  return fault_of([] { op::neg(ones({10})).values(); });
}

/// The device by hand.
struct Bare {
  const Mode& mode = tern::mode("debug");
  Memory& memory = *mode.memory;
  void* own = memory.stream();
  void* other = another_stream();
  std::vector<float> host = std::vector<float>(16, 1.0F);
  std::size_t bytes = host.size() * sizeof(float);
  float* x = allocate();
  float* y = allocate();

  Bare() {
    memory.synchronize(own);
    memory.copy_in(x, host.data(), bytes, own);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  ~Bare() {
    memory.finish(nullptr);
    if (x != nullptr) memory.release(x, bytes, own);
    if (y != nullptr) memory.release(y, bytes, own);
    memory.finish(nullptr);
  }

  void* another_stream() const {
    void* stream = nullptr;
    std::thread([&] { stream = memory.stream(); }).join();
    return stream;
  }
  float* allocate() { return static_cast<float*>(memory.allocate(bytes, own)); }
  void neg(float* out, const float* in, void* stream, std::int64_t n = 16) const {
    Context context{.memory = &memory, .stream = stream};
    mode.operators.arithmetic.neg(context, out, in, n);
  }
  std::vector<float> values(const float* pointer, void* stream) {
    std::vector<float> read(host.size());
    memory.copy_out(read.data(), pointer, bytes, stream);
    return read;
  }
  void give_back(float*& pointer, void* stream) { memory.release(std::exchange(pointer, nullptr), bytes, stream); }
};

/// The first of the words that the text lacks, and the text; empty where it has them all.
std::string lacks(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (text.find(word) == std::string::npos) return message("no \"", word, "\" in: ", text);
  return "";
}
constexpr const char* unordered =
    ", and nothing orders the two: a Memory::order, or a wait, is missing (TERN_DEBUG_SEED=";

}  // namespace

// ---- order ----

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

// ---- bounds ----

TEST_CASE("debug: a kernel that writes right behind its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("writes behind",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i <= n; ++i) out[i] = -in[i % n];
                              }),
              {"neg", "wrote to the place 0 bytes behind the end of block", "(40 bytes", "(argument 1)"}) == "");
}

TEST_CASE("debug: a kernel that writes far behind its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("writes far behind",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i + 100] = -in[i];
                              }),
              {"neg", "touched the place 360 bytes behind the end of block"}) == "");
}

TEST_CASE("debug: a kernel that writes before its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("writes before",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i - 1] = -in[i];
                              }),
              {"neg", "wrote to the place 4 bytes before block"}) == "");
}

TEST_CASE("debug: a kernel that writes far before its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("writes far before",
                              [](Context&, float* out, const float*, std::int64_t) { out[-5000] = 1; }),
              {"neg", "bytes before block", "touched"}) == "");
}

TEST_CASE("debug: a kernel that reads right behind its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("reads behind",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i] = -in[i + 1];
                              }),
              {"neg", "used what lies behind the end of block", "(argument 2)"}) == "");
}

TEST_CASE("debug: a kernel that reads far behind its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("reads far behind",
                              [](Context&, float* out, const float* in, std::int64_t n) { out[0] = in[n + 6]; }),
              {"neg", "touched the place 24 bytes behind the end of block", "(argument 2)"}) == "");
}

TEST_CASE("debug: a kernel that reads before its block", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("reads before",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i] = -in[i - 1];
                              }),
              {"neg", "used what lies before block", "(argument 2)"}) == "");
}

TEST_CASE("debug: a kernel that writes what it was given for reading", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("writes its input",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i] = -in[i];
                                const_cast<float*>(in)[2] = 0;
                              }),
              {"neg", "wrote to byte 8 of block", "which it was given for reading"}) == "");
}

TEST_CASE("debug: a kernel that keeps a pointer of an earlier call", "[device][debug]") {
  static const float* kept = nullptr;
  const Device device(planted("keeps", [](Mode& mode) {
    mode.operators.arithmetic.neg = +[](Context&, float* out, const float* in, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = -in[i];
      kept = in;
    };
    mode.operators.arithmetic.abs = +[](Context&, float* out, const float*, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = kept[i];
    };
  }));
  const Tensor x = ones({10});
  CHECK(op::neg(x).values()[0] == -1);
  CHECK(lacks(fault_of([] { op::abs(ones({10})).values(); }), {"abs", "byte 0 of block", "which it was not given"}) ==
        "");
}

TEST_CASE("debug: a kernel that uses an address of its own", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("uses null",
                              [](Context&, float* out, const float*, std::int64_t) {
                                const float* volatile nowhere = nullptr;
                                out[0] = nowhere[1];
                              }),
              {"neg", "which is no memory of the device"}) == "");
}

TEST_CASE("debug: copies that pass the end of a block", "[device][debug]") {
  Bare bare;
  std::vector<float> longer(17);
  CHECK(lacks(fault_of([&] { bare.memory.copy_in(bare.x, longer.data(), 68, bare.own); }),
              {"copy from the host of 68 bytes from byte 0 of block", "passes its end"}) == "");
  CHECK(lacks(fault_of([&] { bare.memory.copy_out(longer.data(), bare.x + 1, 64, bare.own); }),
              {"copy to the host of 64 bytes from byte 4 of block"}) == "");
  CHECK(lacks(fault_of([&] { bare.memory.copy(bare.y + 8, bare.x, 64, bare.own); }),
              {"copy of 64 bytes from byte 32 of block"}) == "");
  CHECK(lacks(fault_of([&] { bare.neg(bare.y + 20, bare.x, bare.own); }),
              {"neg: argument 1 points to the place 16 bytes behind the end of block"}) == "");
}

// ---- after the release ----

TEST_CASE("debug: a kernel that is given a released block", "[device][debug]") {
  Bare bare;
  const float* const dead = bare.x;
  bare.give_back(bare.x, bare.own);
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, dead, bare.own); }),
              {"neg (argument 2) uses block", "after its release"}) == "");
  bare.memory.synchronize(bare.own);
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, dead, bare.own); }), {"after its release"}) == "");
  CHECK(lacks(fault_of([&] { bare.values(dead, bare.own); }), {"copy to the host uses block", "after its release"}) ==
        "");
}

TEST_CASE("debug: releases of what is not held", "[device][debug]") {
  Bare bare;
  const auto fault_of_release = [&](void* pointer, std::size_t bytes) {
    return fault_of([&] {
      bare.memory.release(pointer, bytes, bare.own);
      bare.memory.synchronize(bare.own);
    });
  };
  float* const twice = bare.x;
  bare.give_back(bare.x, bare.own);
  CHECK(lacks(fault_of_release(twice, bare.bytes), {"which was released before"}) == "");
  CHECK(lacks(fault_of_release(bare.y + 1, bare.bytes), {"release of a pointer to byte 4 of block"}) == "");
  CHECK(lacks(fault_of_release(bare.host.data(), bare.bytes), {"memory of the host"}) == "");
  float* const shorter = bare.allocate();
  CHECK(lacks(fault_of_release(shorter, 8), {"(64 bytes", "as one of 8 bytes"}) == "");
}

// ---- what nothing wrote ----

TEST_CASE("debug: an operator on a tensor that nothing wrote", "[device][debug]") {
  const Device device{"debug"};
  CHECK(lacks(fault_of([] { op::relu(Tensor({3})).values(); }),
              {"relu", "used bytes that nothing wrote: bytes 0 to 11 of block", "(argument 2)"}) == "");
  // Whatever the operator makes of it.
  CHECK(lacks(fault_of([] { op::less(Tensor({8}), ones({8})).values(); }), {"less"}) == "");
  CHECK(lacks(fault_of([] { op::where(Tensor({64}, DType::boolean), ones({64}), zeros({64})).values(); }),
              {"where", "(argument 4)"}) == "");
  CHECK(lacks(fault_of([] { op::sum(Tensor({8})).values(); }), {"sum"}) == "");
}

TEST_CASE("debug: a value that nothing wrote and the host reads", "[device][debug]") {
  Bare bare;
  bare.memory.copy_in(bare.y, bare.host.data(), 20, bare.own);
  CHECK(lacks(fault_of([&] { bare.values(bare.y, bare.own); }),
              {"copy to the host of 64 bytes reads 44 that nothing wrote, from byte 20 of block"}) == "");
}

TEST_CASE("debug: what was never written stays so when it is copied", "[device][debug]") {
  Bare bare;
  float* const z = bare.allocate();
  bare.memory.copy(z, bare.y, bare.bytes, bare.own);
  bare.memory.synchronize(bare.own);
  CHECK(lacks(fault_of([&] {
                bare.neg(bare.x, z, bare.own);
                bare.memory.synchronize(bare.own);
              }),
              {"neg", "used bytes that nothing wrote: bytes 0 to 63"}) == "");
  bare.memory.release(z, bare.bytes, bare.own);
}

TEST_CASE("debug: a kernel that leaves a result out", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("leaves one out",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i)
                                  if (i != 7) out[i] = -in[i];
                              }),
              {"reads 4 that nothing wrote, from byte 28 of block", "written by neg"}) == "");
}

TEST_CASE("debug: a kernel that adds to its result", "[device][debug]") {
  CHECK(lacks(fault_of_kernel("adds",
                              [](Context&, float* out, const float* in, std::int64_t n) {
                                for (std::int64_t i = 0; i < n; ++i) out[i] += -in[i];
                              }),
              {"neg", "used bytes that nothing wrote", "(argument 1)"}) == "");
}

// ---- the host ----

TEST_CASE("debug: pointers of the host and of the device in each other's place", "[device][debug]") {
  Bare bare;
  std::vector<float> host(16);
  CHECK(lacks(fault_of([&] { bare.neg(host.data(), bare.x, bare.own); }),
              {"neg: argument 1 is 0x", "memory of the host"}) == "");
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, host.data(), bare.own); }), {"neg: argument 2 is 0x"}) == "");
  CHECK(lacks(fault_of([&] { bare.memory.copy_in(host.data(), host.data(), 64, bare.own); }),
              {"copy from the host: a pointer is 0x"}) == "");
  CHECK(lacks(fault_of([&] { bare.memory.copy_in(bare.y, bare.x, 64, bare.own); }), {"reads from the device"}) == "");
  CHECK(lacks(fault_of([&] { bare.memory.copy_out(bare.y, bare.x, 64, bare.own); }), {"writes to the device"}) == "");
  CHECK(lacks(fault_of([&] { bare.neg(bare.y, bare.x, &bare); }), {"is no stream"}) == "");
  const Mode& elsewhere = planted("elsewhere", [](Mode&) {});
  void* const foreign = elsewhere.memory->allocate(64, elsewhere.memory->stream());
  CHECK(lacks(fault_of([&] { bare.neg(static_cast<float*>(foreign), bare.x, bare.own); }),
              {"memory of the device debug:elsewhere"}) == "");
  elsewhere.memory->release(foreign, 64, elsewhere.memory->stream());
}

namespace {

/// What a child process says as it ends of `program`; empty where it ends well.
std::string last_words(const std::function<void()>& program) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGSEGV, SIG_DFL);  // the test program hears it, too
    std::signal(SIGBUS, SIG_DFL);
    program();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : text;
}

}  // namespace

TEST_CASE("debug: the host touches the device's memory, and hears what it did", "[device][debug]") {
  Bare bare;
  bare.memory.synchronize(bare.own);
  const auto touch = [&](const std::function<void()>& program) {
    return last_words([&] {
      bare.neg(bare.y, bare.x, bare.own);
      bare.memory.synchronize(bare.own);
      program();
    });
  };
  volatile float* const y = bare.y;
  CHECK(touch([] {}).empty());
  CHECK(lacks(touch([&] { static_cast<void>(y[3]); }), {"the host touched byte 12 of block", "written by neg"}) == "");
  CHECK(lacks(touch([&] { y[0] = 1; }), {"the host touched byte 0 of block"}) == "");
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

// ---- healthy programs ----

TEST_CASE("debug: kernels run when somebody waits, in an order that the seed fixes", "[device][debug]") {
  static std::vector<std::int64_t> order;
  const auto order_of = [](const std::string& name, const char* seed) {
    setenv("TERN_DEBUG_SEED", seed, 1);
    const Mode& debug = planted(name, [](Mode& mode) {
      mode.operators.arithmetic.neg = +[](Context&, float* out, const float*, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = 0;
        order.push_back(n);
      };
    });
    unsetenv("TERN_DEBUG_SEED");
    Memory& memory = *debug.memory;
    order.clear();
    std::vector<void*> streams;
    std::vector<float*> blocks;
    for (int i = 0; i < 4; ++i) {
      std::thread([&] { streams.push_back(memory.stream()); }).join();
      blocks.push_back(static_cast<float*>(memory.allocate(400, streams.back())));
    }
    for (std::int64_t n = 1; n <= 24; ++n) {
      Context context{.memory = &memory, .stream = streams[n % 4]};
      debug.operators.arithmetic.neg(context, blocks[n % 4], blocks[n % 4], n);
    }
    CHECK(order.size() < 48);
    for (std::size_t i = 0; i < 4; ++i) memory.release(blocks[i], 400, streams[i]);
    memory.finish(nullptr);
    CHECK(order.size() == 48);  // once in each view
    return order;
  };
  const auto first = order_of("seeded a", "7");
  CHECK(order_of("seeded b", "7") == first);
  CHECK(order_of("seeded c", "8") != first);
  setenv("TERN_DEBUG_SEED", "seven", 1);
  CHECK_THROWS_WITH(planted("seeded d", [](Mode&) {}), ContainsSubstring("TERN_DEBUG_SEED is \"seven\""));
  unsetenv("TERN_DEBUG_SEED");
}

TEST_CASE("debug: a bad label is told by the next wait, as on a card", "[device][debug]") {
  const Device device{"debug"};
  const Tensor labels = tensor<std::int64_t>({0, 7});
  CHECK_THROWS_AS(op::cross_entropy(ones({2, 3}), labels).item(), NumericError);
  CHECK_THROWS_WITH(op::gather(ones({3, 2}), labels).values(),
                    ContainsSubstring("gather") && ContainsSubstring("index 7 at position 1, expected one in [0, 3)"));
  CHECK(op::one_hot(labels, 8).values()[15] == 1);
}

TEST_CASE("debug: it is asked for by its name alone", "[device][debug]") {
  CHECK(mode("debug").name == "debug");
  CHECK(&mode("debug") == &mode("debug"));
  CHECK(mode("debug:vectorized").name == "debug:vectorized");
  CHECK(mode("debug").timer == nullptr);
  CHECK_FALSE(mode("debug").on_host());
  CHECK(fastest_mode() != "debug");
  CHECK(reference_mode().name == "sequential");
  for (const ModeStatus& status : modes()) CHECK_FALSE(status.name.starts_with("debug"));
  CHECK_THROWS_AS(mode("debug:nobody"), DeviceUnavailable);
  CHECK_THROWS_WITH(mode("debug:debug"), ContainsSubstring("do not run on the host's memory"));
  CHECK_THROWS_AS(mode("debugger"), DeviceUnavailable);
  CHECK_THROWS_AS(register_mode("debug", mode("sequential")), Error);
}

namespace {

struct Training {
  std::vector<double> values;
  std::int64_t replays = 0;
};

/// The losses of a LeNet and then its parameters.
Training train_lenet(const std::string& mode_name, bool stepped, std::uint64_t seed, int steps) {
  const Device device{mode_name};
  Training result;
  models::LeNet net(seed);
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.01, .momentum = 0.9});
  const auto train = [&](const Tensor& x, const Tensor& labels) {
    Tensor loss = net.loss(x, labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  };
  Step step(train);
  const data::Dataset digits = data::synthetic_digits(16);
  const data::DataLoader loader(digits, {.batch_size = 4, .seed = seed, .prefetch = 2});
  int left = steps;
  for (std::int64_t epoch = 0; left > 0; ++epoch)
    for (const data::Batch& batch : loader.epoch(epoch)) {
      if (left-- <= 0) break;
      result.values.push_back((stepped ? step(batch.images, batch.labels) : train(batch.images, batch.labels)).item());
    }
  for (const Tensor& parameter : net.parameters())
    for (const double value : parameter.values()) result.values.push_back(value);
  result.replays = step.replays();
  return result;
}

}  // namespace

TEST_CASE("debug: LeNet trains by a Step to the bits of sequential", "[device][debug]") {
  const Training debug = train_lenet("debug", true, 1, 6);
  CHECK(debug.replays >= 3);
  CHECK(debug.values == train_lenet("sequential", false, 1, 6).values);
}

TEST_CASE("debug: the vectorized mode's kernels, to its bits", "[device][debug]") {
  const Training debug = train_lenet("debug:vectorized", true, 1, 6);
  CHECK(debug.replays >= 3);
  CHECK(debug.values == train_lenet("vectorized", false, 1, 6).values);
}

TEST_CASE("debug: two threads train at once", "[device][debug]") {
  std::array<Training, 2> beside;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < beside.size(); ++i)
    threads.emplace_back([&, i] { beside[i] = train_lenet("debug", true, i + 1, 4); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < beside.size(); ++i)
    CHECK(beside[i].values == train_lenet("sequential", false, i + 1, 4).values);
}
