#pragma once
// How the host records kernels, to call them again without the operators around them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tern/kernels/context.hpp"

namespace tern::kernels {

/// One call of a kernel with all its arguments but the context.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual void run(Context& context) const = 0;
};

/// Hears of every kernel that its thread calls through a slot.
class Tape {
 public:
  virtual ~Tape() = default;
  /// Whether kernels are left out: shapes are wanted, and no elements. Then nothing else is reported.
  virtual bool skips() const { return false; }
  /// A kernel is about to run: each of its pointers, and whether it may write there.
  virtual void touches(const void* pointer, bool writes) = 0;
  /// The kernel computes each element of `out` from the one of `in` in its place, and perhaps from some of `other`: by
  /// the contract of its slot `out` may be `in`.
  virtual void elementwise(const void* out, const void* in, const void* other) = 0;
  virtual void begins() = 0;
  /// It has run, or thrown: `launch` is null then.
  virtual void ends(std::unique_ptr<Launch> launch) noexcept = 0;
};

/// Of the calling thread; null: nobody records.
inline constinit thread_local Tape* tape = nullptr;

template <class T>
void touch(Tape& heard, const T& argument) {
  if constexpr (std::is_pointer_v<T>)
    if (argument != nullptr) heard.touches(argument, !std::is_const_v<std::remove_pointer_t<T>>);
}

// The slots of elementwise kernels, by their signatures.
template <class T, class... Numbers>
requires(std::is_arithmetic_v<T> &&
         (std::is_arithmetic_v<Numbers> && ...)) void tell_elementwise(Tape& heard, T* out, const T* in,
                                                                       std::int64_t /*n*/, Numbers... /*numbers*/) {
  heard.elementwise(out, in, nullptr);
}
template <class T, class Strides>
requires requires(const Strides& strides) { strides.stride[0][0]; }
void tell_elementwise(Tape& heard, T* out, const T* a, const T* b, const Strides& strides) {
  const auto side_by_side = [&](int input) { return strides.rank == 1 && strides.stride[input][0] == 1; };
  if (side_by_side(0)) heard.elementwise(out, a, b);
  if (side_by_side(1)) heard.elementwise(out, b, a);
}

template <class... Arguments>
class LaunchOf final : public Launch {
 public:
  using Function = void (*)(Context&, Arguments...);
  LaunchOf(Function function, const Arguments&... arguments) : function_(function), arguments_(arguments...) {}
  void run(Context& context) const override {
    std::apply([&](const auto&... each) { function_(context, each...); }, arguments_);
  }

 private:
  Function function_;
  std::tuple<std::remove_cvref_t<Arguments>...> arguments_;
};

/// Runs a kernel and gives it to the tape of the thread. What the kernel calls in turn is part of it.
template <class... Arguments>
[[gnu::noinline]] void run_taped(void (*function)(Context&, Arguments...), Context& context,
                                 std::type_identity_t<Arguments>... arguments) {
  if (tape->skips()) return;
  Tape* const heard = std::exchange(tape, nullptr);
  struct Ended {
    ~Ended() {
      heard->ends(std::move(launch));
      tape = heard;
    }
    Tape* heard;
    std::unique_ptr<Launch> launch = {};
  } ended{heard};
  (touch(*heard, arguments), ...);
  if constexpr (requires { tell_elementwise(*heard, arguments...); }) tell_elementwise(*heard, arguments...);
  heard->begins();
  function(context, arguments...);
  ended.launch = std::make_unique<LaunchOf<Arguments...>>(function, arguments...);
}

}  // namespace tern::kernels
