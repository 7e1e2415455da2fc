#pragma once

#include <type_traits>

#include "tern/core/dtype.hpp"
#include "tern/core/error.hpp"
#include "tern/core/member_list.hpp"
#include "tern/kernels/context.hpp"
#include "tern/kernels/tape.hpp"

namespace tern::kernels {

/// The memory order of images [N, C, H, W]: as written, or [N, H, W, C] with the channels of a position adjacent. The
/// shape is [N, C, H, W] in both.
enum class Layout : std::uint8_t { channels_first, channels_last };

template <class Signature>
class Kernel;

/// Fills the slots of a mode that borrows its operators from another one (see Mode::inner), and the slots that a mode
/// declares unused.
struct Absent {};
inline constexpr Absent absent;

/// One typed slot of the dispatch table. It has no default constructor, so a mode that omits a slot does not compile.
template <class Result, class... Arguments>
class Kernel<Result(Arguments...)> {
 public:
  Kernel() = delete;
  constexpr Kernel(Result (*function)(Arguments...)) : function_(function) {}
  constexpr Kernel(Absent) : function_(missing) {}
  /// Any other function, for a plain error: which slot it is, the line tells that the compiler names beside it.
  template <class Other>
  requires(std::is_function_v<Other> && !std::is_convertible_v<Other*, Result (*)(Arguments...)>) Kernel(Other*)
      : function_(missing) {
    static_assert(
        std::is_convertible_v<Other*, Result (*)(Arguments...)>,
        "this function's parameters or result are not those of the slot; tern/kernels/ declares what it takes");
  }
  Result operator()(Arguments... arguments) const {
    if constexpr (std::is_void_v<Result>)
      if (tape != nullptr) [[unlikely]]
        return run_taped(function_, arguments...);
    return function_(arguments...);
  }

 private:
  static Result missing(Arguments...) {
    throw Error("a mode names an operator as its own (Mode::own) and has no kernel for it");
  }

  Result (*function_)(Arguments...);
};

}  // namespace tern::kernels

// Rules for every slot:
// - outputs come first, then inputs, then sizes; arrays are row-major and contiguous unless the slot takes strides;
// - pointers live in `context.memory`, are checked by the caller and are aligned to their element only;
// - outputs are overwritten whole and never alias an input, unless the slot says otherwise;
// - a size of 0 is legal and does nothing, unless the result for no elements is defined (an empty sum is 0);
// - work is ordered on `context.stream`; a kernel never waits and never touches the host;
// - scalars that go with elements are Scalar<T>; with 16-bit elements a kernel computes in float32 at least and rounds
//   each
//   result once;
// - sums run in an order that does not depend on `context.threads`;
// - NaN and infinity follow IEEE 754 and reach what they reach in the sequential mode; a NaN's sign and payload mean
//   nothing;
// - finite inputs give finite results if the exact result, and for a sum the sum of its terms' magnitudes, is within
//   half of the dtype's range, whichever algorithm runs. docs/numbers.md states the bounds on rounding.
