#pragma once
// The contract between the library and a mode in a shared library of its own, as a number taken at compile time: a hash
// over the name, type and place of every slot of the dispatch table and of every member of the structs that both sides
// see. A change of one of them changes the number; a member that is forgotten here does not compile.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <version>

#include "tern/modes/mode.hpp"

namespace tern::contract {

/// The slots of Memory's virtual table, in their order.
using MemoryCalls =
    MemberList<&Memory::name, &Memory::host_accessible, &Memory::allocate, &Memory::release, &Memory::copy_in,
               &Memory::copy_out, &Memory::copy, &Memory::copy_from, &Memory::stream, &Memory::order, &Memory::finish,
               &Memory::synchronize, &Memory::statistics, &Memory::reset_peak, &Memory::trim, &Memory::set_limit>;

class Hash {
 public:
  constexpr void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    step(0);
  }
  constexpr void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) step(number >> (8 * i) & 255);
  }
  constexpr std::uint64_t value() const { return value_; }
  static constexpr std::uint64_t of(std::string_view text) {
    Hash hash;
    hash.add(text);
    return hash.value();
  }

 private:
  constexpr void step(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }  // FNV-1a
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// As the compiler writes them: both sides are of one compiler family.
template <class T>
constexpr std::string_view type_name() {
  return {__PRETTY_FUNCTION__, sizeof __PRETTY_FUNCTION__ - 1};
}
template <auto value>
constexpr std::string_view value_name() {
  return {__PRETTY_FUNCTION__, sizeof __PRETTY_FUNCTION__ - 1};
}

/// Variables: each is computed once, and in fewer steps than a compiler grants one constant.
template <class T>
inline constexpr std::uint64_t type_hash = Hash::of(type_name<T>());
template <auto value>
inline constexpr std::uint64_t value_hash = Hash::of(value_name<value>());

template <class T, class Member>
std::type_identity<Member> member_type(Member T::*);

template <class T, auto... members>
constexpr void add_members(Hash& hash, MemberList<members...>) {
  std::size_t end = 0;
  const auto add = [&]<auto member>(MemberList<member>) {
    using Member = typename decltype(member_type(member))::type;
    hash.add(value_hash<member>);
    hash.add(type_hash<Member>);
    end = (end + alignof(Member) - 1) / alignof(Member) * alignof(Member);
    hash.add(end);
    end += sizeof(Member);
  };
  (add(MemberList<members>{}), ...);
  hash.add(sizeof(T));
  // A struct of another size has a member that its Members does not list.
  if ((end + alignof(T) - 1) / alignof(T) * alignof(T) != sizeof(T)) throw "Members lacks a member";
}

template <class T>
constexpr std::uint64_t hash_of_struct() {
  Hash hash;
  add_members<T>(hash, typename T::Members{});
  return hash.value();
}
template <class T>
inline constexpr std::uint64_t struct_hash = hash_of_struct<T>();

template <class... Structs>
constexpr void add_structs(Hash& hash) {
  (hash.add(struct_hash<Structs>), ...);
}

template <class Enumeration>
constexpr void add_values(Hash& hash) {
  const auto add = [&]<std::size_t... i>(std::index_sequence<i...>) {
    (hash.add(value_hash<static_cast<Enumeration>(i)>), ...);
  };
  add(std::make_index_sequence<16>{});
}

template <class T>
constexpr void add_table(Hash& hash) {
  using namespace kernels;
  add_structs<Parameters<T>, Arithmetic<T>, Dot<T>, Conv<T>, Activations<T>, Pooling<T>, Reduction<T>, Loss<T>,
              Normalization<T>, kernels::Shape<T>, Update<T>, Operators<T>>(hash);
}

template <class T>
constexpr void add_integer_table(Hash& hash) {
  using namespace kernels;
  add_structs<IntegerArithmetic<T>, IntegerReduction<T>, IntegerShape<T>, Operators<T>>(hash);
}

/// The standard library whose strings and exceptions the two sides share.
constexpr std::string_view standard_library() {
#if defined(_LIBCPP_VERSION)
  return "libc++";
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
  return "libstdc++";
#else
  return "libstdc++ with its old strings";
#endif
}
constexpr std::string_view compiler() {
#if defined(__clang__)
  return "clang";
#else
  return "g++";
#endif
}

constexpr std::uint64_t number() {
  Hash hash;
  hash.add(standard_library());
  hash.add(compiler());
  hash.add(sizeof(void*));
  hash.add(sizeof(std::string));
  const auto add_calls = [&]<auto... calls>(MemberList<calls...>) {
    ((hash.add(value_hash<calls>), hash.add(type_hash<decltype(calls)>)), ...);
  };
  add_calls(MemoryCalls{});
  hash.add(sizeof(Memory));
  add_values<DType>(hash);
  add_values<Precision>(hash);
  add_values<kernels::Activation>(hash);
  add_values<kernels::Layout>(hash);
  add_values<kernels::Reduce>(hash);
  using namespace kernels;
  add_structs<Context, MemoryStatistics, Decision, Algorithms, random::Key, Axis, Broadcast, Conv2d, Matmul, Linear,
              CrossEntropy, Strided, LocalResponseNorm, BatchNorm, Pool2d, AdaptivePool2d, Sgd, Adam, Movement, Capture,
              Timer, Places, Mode>(hash);
  for_each_compute_type([&]<class T>() { add_table<T>(hash); });
  for_each_integer_type([&]<class T>() { add_integer_table<T>(hash); });
  return hash.value();
}

}  // namespace tern::contract
