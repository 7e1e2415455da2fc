// Queues every slot of the dispatch table. The slots come from the contract's list, so a new one is included
// automatically.

#include "debug/table.hpp"

#include <array>
#include <cstring>
#include <string_view>
#include <tuple>
#include <vector>

#include "debug/card.hpp"
#include "tern/modes/contract.hpp"

namespace tern::debug {
namespace {

/// "matmul" for &Dot<float>::matmul.
template <auto member>
constexpr auto name_of() {
  constexpr std::string_view whole = contract::value_name<member>();
  constexpr std::size_t from = whole.find(" = ") + 3;
  constexpr std::string_view value = whole.substr(from, whole.find_first_of(";]", from) - from);
  constexpr std::string_view last = value.substr(value.rfind("::") + 2);
  constexpr std::string_view name = last.substr(0, last.find(')'));
  std::array<char, name.size() + 1> text{};
  for (std::size_t i = 0; i < name.size(); ++i) text[i] = name[i];
  return text;
}
template <auto member>
constexpr auto slot_name = name_of<member>();

template <auto member>
constexpr bool is_called(std::string_view name) {
  return std::string_view(slot_name<member>.data()) == name;
}

/// The operands of one call's arguments.
class Operands {
 public:
  /// The next argument is not a pointer.
  void skip() { ++argument_; }
  template <class T>
  void add(T* pointer) {
    ++argument_;
    add_part(pointer);
  }
  /// One of several pointers of the same argument.
  template <class T>
  void add_part(T* pointer) {
    if (pointer != nullptr) list_.push_back({argument_, pointer, !std::is_const_v<T>});
  }
  std::vector<Use> on(const Card& card, const char* name) const {
    std::vector<Use> uses;
    for (const Operand& operand : list_)
      uses.push_back(card.use(name, operand.argument, operand.pointer, operand.writes));
    return uses;
  }

 private:
  struct Operand {
    int argument;
    const void* pointer;
    bool writes;
  };
  std::vector<Operand> list_;
  int argument_ = 0;
};

template <class T>
T* moved(T* pointer, std::ptrdiff_t distance) {
  if (pointer == nullptr) return nullptr;
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + static_cast<std::uintptr_t>(distance));
}

/// An argument as a queued call stores it, and as a kernel that runs `distance` away gets it.
template <class A>
struct Kept {
  std::decay_t<A> value;
  void note(Operands& operands) const { operands.skip(); }
  const std::decay_t<A>& at(std::ptrdiff_t) const { return value; }
};

template <class T>
struct Kept<T*> {
  T* value;
  void note(Operands& operands) const { operands.add(value); }
  T* at(std::ptrdiff_t distance) const { return moved(value, distance); }
};

template <>
struct Kept<const random::Key&> {
  random::Key value;
  void note(Operands& operands) const { operands.add(value.base); }
  random::Key at(std::ptrdiff_t distance) const {
    random::Key key = value;
    key.base = moved(value.base, distance);
    return key;
  }
};

template <class T>
struct Kept<const kernels::Parameters<T>&> {
  std::vector<T*> value;
  std::vector<Scalar<T>*> first, second;
  std::vector<const T*> gradient;
  std::vector<std::int64_t> size;

  // Passed to a kernel for one run.
  struct Lent {
    std::vector<T*> value;
    std::vector<Scalar<T>*> first, second;
    std::vector<const T*> gradient;
    const std::vector<std::int64_t>& size;
    operator kernels::Parameters<T>() const {
      return {static_cast<std::int64_t>(size.size()),
              value.data(),
              gradient.data(),
              first.empty() ? nullptr : first.data(),
              second.empty() ? nullptr : second.data(),
              size.data()};
    }
  };

  Kept(const kernels::Parameters<T>& source) {
    const auto keep = [&](auto& kept, auto* pointers) {
      if (pointers != nullptr) kept.assign(pointers, pointers + source.count);
    };
    keep(value, source.value);
    keep(gradient, source.gradient);
    keep(first, source.first);
    keep(second, source.second);
    keep(size, source.size);
  }
  void note(Operands& operands) const {
    operands.skip();
    const auto note_all = [&](const auto& pointers) {
      for (auto* pointer : pointers) operands.add_part(pointer);
    };
    note_all(value);
    note_all(gradient);
    note_all(first);
    note_all(second);
  }
  Lent at(std::ptrdiff_t distance) const {
    Lent lent{value, first, second, gradient, size};
    const auto move_all = [&](auto& pointers) {
      for (auto*& pointer : pointers) pointer = moved(pointer, distance);
    };
    move_all(lent.value);
    move_all(lent.first);
    move_all(lent.second);
    move_all(lent.gradient);
    return lent;
  }
};

/// Labels or indices that a kernel reads; they could not be checked earlier.
struct Labels {
  const std::int64_t* values;
  std::int64_t count, bound, ignored;
  const char* what;

  void check(const char* name, std::ptrdiff_t distance) const {
    const std::int64_t* const own = moved(values, distance);
    for (std::int64_t i = 0; i < count; ++i)
      expects<NumericError>((own[i] >= 0 && own[i] < bound) || own[i] == ignored, "debug: ", name,
                            ", queued earlier, met the ", what, ' ', own[i], " at position ", i,
                            ", expected one in [0, ", bound, ')');
  }
};

template <auto slot, class Out = void*, class...>
constexpr bool divides_integers =
    (is_called<slot>("div") || is_called<slot>("fmod")) && std::is_integral_v<std::remove_pointer_t<Out>>;

/// Integer divisors, likewise.
template <class T>
struct Divisors {
  const T* values;
  kernels::Broadcast shape;

  void check(const char* name, std::ptrdiff_t distance) const {
    const T* const own = moved(values, distance);
    for (std::int64_t i = 0; i < shape.count; ++i) {
      std::int64_t place = 0;
      for (std::int64_t d = shape.rank - 1, rest = i; d >= 0; rest /= shape.size[d], --d)
        place += rest % shape.size[d] * shape.stride[1][d];
      expects<NumericError>(own[place] != T(0), "debug: ", name, ", queued earlier, divided integers by 0");
    }
  }
};

template <class... A>
struct LastOf {
  using Type = void;
};
template <class First, class... A>
struct LastOf<First, A...> : LastOf<A...> {};
template <class A>
struct LastOf<A> {
  using Type = std::decay_t<A>;
};

/// Checked before a kernel runs; null: nothing.
template <auto slot, class... A>
auto inspected_of(const A&... arguments) {
  constexpr bool labels = std::is_same_v<typename LastOf<A...>::Type, kernels::CrossEntropy>;
  constexpr bool classes = is_called<slot>("one_hot");
  constexpr bool indices = is_called<slot>("gather") || is_called<slot>("gather_backward");
  if constexpr (labels || classes || indices || divides_integers<slot, A...>) {
    const auto all = std::tie(arguments...);
    if constexpr (labels) {
      constexpr std::size_t last = sizeof...(A) - 1;
      const kernels::CrossEntropy& shape = std::get<last>(all);
      return Labels{std::get<last - 1>(all), shape.rows, shape.classes, shape.ignore_index, "label"};
    } else if constexpr (classes) {
      return Labels{std::get<1>(all), std::get<2>(all), std::get<3>(all), 0, "label"};
    } else if constexpr (indices) {
      return Labels{std::get<2>(all), std::get<3>(all), std::get<4>(all), 0, "index"};
    } else {
      return Divisors<std::remove_cvref_t<decltype(*std::get<2>(all))>>{std::get<2>(all), std::get<3>(all)};
    }
  } else {
    return nullptr;
  }
}

/// The context of a kernel: it runs on the host, alone.
Context on_host(const Context& context) {
  Context host = context;
  host.memory = &host_memory();
  host.stream = nullptr;
  host.threads = 1;
  return host;
}

using Body = std::function<void(std::ptrdiff_t distance)>;

void queue(const Context& context, const char* name, const Operands& operands, Body kernel, Body inspect = nullptr) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = Card::state(context.stream);
  const auto run = [kernel = std::move(kernel), inspect = std::move(inspect)](const Work& work, Stream& on) {
    run_kernel(work, on, kernel, inspect);
  };
  stream.card->submit(stream, std::make_shared<Work>(Work{name, operands.on(*stream.card, name), run}));
}

const Mode& kernels_of(const Context& context) {
  const std::lock_guard lock(device_mutex());
  return Card::state(context.stream).card->kernels();
}

// Compiled once for all kernels with the same arguments. No tuple of them: it would take a third of the time.
template <class... A>
void queue_call(Context& context, const char* name, kernels::Kernel<void(Context&, A...)> plain, Body inspect,
                A... arguments) {
  const auto queue_kept = [&](const Kept<A>&... kept) {
    Operands operands;
    (kept.note(operands), ...);
    queue(
        context, name, operands,
        [plain, surroundings = on_host(context), kept...](std::ptrdiff_t distance) {
          Context host = surroundings;
          plain(host, kept.at(distance)...);
        },
        std::move(inspect));
  };
  queue_kept(Kept<A>{arguments}...);
}

/// A kernel that queues the slot of the same name. `find` takes it from the mode whose kernels run.
template <auto slot, class Find, class... A>
struct Queued {
  static void call(Context& context, A... arguments) {
    [[maybe_unused]] const auto inspected = inspected_of<slot, A...>(arguments...);
    Body inspect;
    if constexpr (!std::is_null_pointer_v<std::remove_cv_t<decltype(inspected)>>)
      inspect = [inspected](std::ptrdiff_t distance) { inspected.check(slot_name<slot>.data(), distance); };
    queue_call<A...>(context, slot_name<slot>.data(), Find::in(kernels_of(context)).*slot, std::move(inspect),
                     arguments...);
  }
};

// The fill value is in host memory and is read before the call returns.
void fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  std::array<std::byte, 8> kept{};
  std::memcpy(kept.data(), value, element);
  const auto plain = kernels_of(context).movement.fill;
  Operands operands;
  operands.add(out);
  queue(context, "fill", operands, [=, surroundings = on_host(context)](std::ptrdiff_t distance) {
    Context host = surroundings;
    plain(host, moved(out, distance), n, kept.data(), element);
  });
}

template <auto slot, class Find, class Family, class... A>
void queue_slot(Family& family, kernels::Kernel<void(Context&, A...)> Family::*) {
  family.*slot = kernels::Kernel<void(Context&, A...)>(Queued<slot, Find, A...>::call);
}
// A slot that answers a question about sizes queues nothing.
template <auto slot, class Find, class Family, class Result, class... A>
void queue_slot(Family&, kernels::Kernel<Result(const Context&, A...)> Family::*) {}

template <class Find, class Family, auto... slots>
void queue_slots(Family& family, MemberList<slots...>) {
  (queue_slot<slots, Find>(family, slots), ...);
}

template <class T, auto family>
struct InTable {
  // For a mode that has the table.
  static const auto& in(const Mode& mode) {
    return mode.table<T>()->*family;  // NOLINT(clang-analyzer-core.uninitialized.UndefReturn)
  }
};
struct InMovement {
  static const kernels::Movement& in(const Mode& mode) { return mode.movement; }
};
template <auto family>
struct InMode {
  // For a mode that has it.
  static const auto& in(const Mode& mode) { return *(mode.*family); }
};

template <class T, auto family>
void queue_family(kernels::Operators<T>& table) {
  using Family = std::remove_reference_t<decltype(table.*family)>;
  if constexpr (!std::is_same_v<Family, bool>)
    queue_slots<InTable<T, family>>(table.*family, typename Family::Members{});
}

template <class T, auto... families>
void queue_table(kernels::Operators<T>& table, MemberList<families...>) {
  (queue_family<T, families>(table), ...);
}

}  // namespace

void queue_kernels(Mode& mode) {
  mode.for_each_table(
      []<class T>(kernels::Operators<T>& table) { queue_table(table, typename kernels::Operators<T>::Members{}); });
  queue_slots<InMovement>(mode.movement, kernels::Movement::Members{});
  mode.movement.fill = fill;
  const auto queue_optional = [&]<auto family>() {
    if (auto& kernels = mode.*family)
      queue_slots<InMode<family>>(*kernels, typename std::remove_cvref_t<decltype(*kernels)>::Members{});
  };
  queue_optional.template operator()<&Mode::quantized>();
  queue_optional.template operator()<&Mode::recurrent>();
  queue_optional.template operator()<&Mode::resampling>();
}

}  // namespace tern::debug
