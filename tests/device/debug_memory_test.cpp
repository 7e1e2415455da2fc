// Memory that is used wrongly, on the debug device: out of bounds, after its release, before it was written, or by the
// host. Every planted fault is found by the operator's name, the block and the side.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "device/debug_faults.hpp"
#include "support/catch.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

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
                                const float* volatile nowhere = reinterpret_cast<const float*>(64);
                                out[0] = nowhere[0];
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
