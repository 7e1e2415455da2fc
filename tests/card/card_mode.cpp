#include "card_mode.hpp"

#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <future>

#include "cuda/cuda.hpp"
#include "cuda/support.cuh"
#include "tern/core/error.hpp"
#include "tern/modes/contract.hpp"

namespace tern::testing {
namespace {

// Where a kernel runs, on the thread of a stream.
Context on_host(const Context& context) {
  Context host = context;
  host.memory = &host_memory();
  host.stream = nullptr;
  return host;
}

void launch(const Context& context, std::function<void()> work) {
  expects(card::queue(cuda::stream_of(context), std::move(work)) == cudaSuccess, "card: a kernel was not launched");
}

void queued_add(Context& context, float* out, const float* a, const float* b, const kernels::Broadcast& sizes) {
  for (const void* array : {static_cast<const void*>(out), static_cast<const void*>(a), static_cast<const void*>(b)})
    expects(card::of(array) == cuda::card().device, "card: an array of another card");
  launch(context, [host = on_host(context), out, a, b, sizes]() mutable {
    mode("sequential").operators.arithmetic.add(host, out, a, b, sizes);
  });
}
void queued_copy(Context& context, void* out, const void* in, const kernels::Strided& sizes, std::size_t element) {
  launch(context, [host = on_host(context), out, in, sizes, element]() mutable {
    mode("sequential").movement.copy(host, out, in, sizes, element);
  });
}
void queued_fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), value, element);
  launch(context, [host = on_host(context), out, n, bytes, element]() mutable {
    mode("sequential").movement.fill(host, out, n, bytes.data(), element);
  });
}

template <auto slot, class... A>
struct Awaited {
  static inline kernels::Kernel<void(Context&, A...)> plain = kernels::absent;
  static void call(Context& context, A... arguments) {
    expects(!cuda::recording(context), "card: only add, copy and fill can be recorded");
    std::promise<void> done;
    launch(context, [&] {
      Context host = on_host(context);
      plain(host, arguments...);
      done.set_value();
    });
    done.get_future().wait();
  }
};

template <auto slot, class Family, class... A>
void await_slot(Family& family, kernels::Kernel<void(Context&, A...)> Family::*) {
  Awaited<slot, A...>::plain = family.*slot;
  family.*slot = kernels::Kernel<void(Context&, A...)>(Awaited<slot, A...>::call);
}
// What answers a question about sizes runs at once.
template <auto slot, class Family, class Result, class... A>
void await_slot(Family&, kernels::Kernel<Result(const Context&, A...)> Family::*) {}

template <class Family, auto... slots>
void await_slots(Family& family, MemberList<slots...>) {
  (await_slot<slots>(family, slots), ...);
}
template <class Family>
void await_family(Family& family) {
  await_slots(family, typename Family::Members{});
}
void await_family(bool& /*channels_last*/) {}
template <class Table, auto... families>
void await_table(Table& table, MemberList<families...>) {
  (await_family(table.*families), ...);
}

}  // namespace

const Mode& card_mode() {
  static const Mode& made = []() -> const Mode& {
    static constexpr Places places{.count = card::count,
                                   .memory = [](int device) -> Memory& { return cuda::memory(device); },
                                   .description = [](int device) { return message("card ", device); }};
    Mode copy = mode("sequential");
    copy.memory = &cuda::memory(0);
    copy.places = &places;
    copy.capture = &cuda::capture();
    copy.timer = &cuda::timer();
    copy.for_each_table(
        []<class T>(kernels::Operators<T>& table) { await_table(table, typename kernels::Operators<T>::Members{}); });
    await_family(copy.movement);
    await_family(*copy.quantized);
    copy.operators.arithmetic.add = queued_add;
    copy.movement.copy = queued_copy;
    copy.movement.fill = queued_fill;
    cuda::use_cards(copy);
    return register_mode("card", copy);
  }();
  return made;
}

}  // namespace tern::testing
