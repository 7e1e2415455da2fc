// The table for several cards. Streams belong to a thread and a card, cuDNN's handles and plans to a stream, cuBLASLt's
// handle to a card. Kernels need not know about several cards: every slot first makes its context's card current. The
// runtime reports which card is current, because a program may change it, too. Compiled by the library's compiler,
// like everything that reads the lists of the contract.

#include "cuda/cuda.hpp"
#include "tern/modes/contract.hpp"

namespace tern::cuda {
namespace {

/// A kernel that makes its context's card current and calls the one that was in its slot.
template <auto slot, class Result, class Surroundings, class... A>
struct OnCard {
  static inline kernels::Kernel<Result(Surroundings&, A...)> plain = kernels::absent;
  static Result call(Surroundings& context, A... arguments) {
    use_card_of(context.stream);
    return plain(context, arguments...);
  }
};

template <auto slot, class Family, class Result, class Surroundings, class... A>
void wrap_slot(Family& family, kernels::Kernel<Result(Surroundings&, A...)> Family::*) {
  using Wrapped = OnCard<slot, Result, Surroundings, A...>;
  Wrapped::plain = family.*slot;
  family.*slot = kernels::Kernel<Result(Surroundings&, A...)>(Wrapped::call);
}

template <class Family, auto... slots>
void wrap_family(Family& family, MemberList<slots...>) {
  (wrap_slot<slots>(family, slots), ...);
}
template <class Family>
void wrap_family(Family& family) {
  wrap_family(family, typename Family::Members{});
}
void wrap_family(bool& /*channels_last*/) {}

template <class Table, auto... families>
void wrap_table(Table& table, MemberList<families...>) {
  (wrap_family(table.*families), ...);
}

}  // namespace

void use_cards(Mode& mode) {
  mode.for_each_table(
      []<class T>(kernels::Operators<T>& table) { wrap_table(table, typename kernels::Operators<T>::Members{}); });
  wrap_family(mode.movement);
  if (mode.quantized) wrap_family(*mode.quantized);
  if (mode.recurrent) wrap_family(*mode.recurrent);
  if (mode.resampling) wrap_family(*mode.resampling);
}

}  // namespace tern::cuda
