#pragma once
// Faults on the debug device: how they are planted, and what is said of them.

#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

/// The fault that `program` ends with.
inline std::string fault_of(const std::function<void()>& program) {
  try {
    program();
  } catch (const DeviceFault& fault) {
    return fault.what();
  }
  return "no fault";
}

/// A debug device whose kernels are sequential's but for what `change` puts in their place.
inline const Mode& planted(const std::string& name, const std::function<void(Mode&)>& change) {
  Mode copy = mode("sequential");
  change(copy);
  register_mode(name, copy);
  return mode("debug:" + name);
}

using Unary = void (*)(Context&, float*, const float*, std::int64_t);

/// What is found when `kernel` is the device's neg, of ten numbers.
inline std::string fault_of_kernel(const std::string& name, Unary kernel) {
  const Device device(planted(name, [&](Mode& mode) { mode.operators.arithmetic.neg = kernel; }));
  return fault_of([] { operators::neg(ones({10})).values(); });
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
inline std::string lacks(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (text.find(word) == std::string::npos) return message("no \"", word, "\" in: ", text);
  return "";
}
inline constexpr const char* unordered =
    ", and nothing orders the two: a Memory::order, or a wait, is missing (TERN_DEBUG_SEED=";

}  // namespace tern::testing
