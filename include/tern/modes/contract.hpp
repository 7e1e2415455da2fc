#pragma once
// The contract between the library and a mode in another shared library, as a compile-time number: a hash over the
// name, type and position of every slot of the dispatch table and of every member of the shared structs. It starts at
// Mode and follows members and signatures, so nothing has to be listed here. A struct with no `Members`, or with an
// incomplete one, does not compile.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <version>

#include "tern/modes/mode.hpp"

namespace tern::contract {

/// The slots of Memory's virtual table, in order.
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

 private:
  constexpr void step(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }  // FNV-1a
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// The type's name as the compiler writes it. Both sides use compilers of one family.
template <class T>
constexpr std::string_view type_name() {
  return __PRETTY_FUNCTION__;
}
template <auto value>
constexpr std::string_view value_name() {
  return __PRETTY_FUNCTION__;
}

/// Types of other libraries, and our own types that are only passed through: their name and size represent them.
template <class T>
inline constexpr bool opaque =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::byte> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, std::atomic<int>> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// The hash of everything about T that both sides rely on. It recurses into the members of a struct, the parameters of
/// a function and the target of a pointer. Each type is its own constant, so none is computed twice and none exceeds a
/// compiler's limit for one constant.
template <class T>
struct Layout;
template <class T>
inline constexpr std::uint64_t layout_of = Layout<T>::number();

/// The kind of T, then the hashes of its parts.
template <class... Parts>
constexpr std::uint64_t layout_from(std::string_view kind) {
  Hash hash;
  hash.add(kind);
  (hash.add(layout_of<Parts>), ...);
  return hash.value();
}

template <class T, class Member>
std::type_identity<Member> member_type(Member T::*);

template <class T, auto... members>
constexpr std::uint64_t layout_of_members(MemberList<members...>) {
  Hash hash;
  std::size_t end = 0;
  const auto add = [&]<auto member>(MemberList<member>) {
    using Member = typename decltype(member_type(member))::type;
    hash.add(value_name<member>());
    hash.add(layout_of<Member>);
    end = (end + alignof(Member) - 1) / alignof(Member) * alignof(Member);
    hash.add(end);
    end += sizeof(Member);
  };
  (add(MemberList<members>{}), ...);
  hash.add(sizeof(T));
  // If the size differs, the struct has a member that its Members does not list.
  if ((end + alignof(T) - 1) / alignof(T) * alignof(T) != sizeof(T)) throw "Members lacks a member";
  return hash.value();
}

template <class Enumeration>
constexpr std::uint64_t layout_of_values() {
  Hash hash;
  hash.add(sizeof(Enumeration));
  [&]<std::size_t... i>(std::index_sequence<i...>) { (hash.add(value_name<static_cast<Enumeration>(i)>()), ...); }
  (std::make_index_sequence<16>{});
  return hash.value();
}

/// The virtual functions of an interface, in order.
template <auto... calls>
constexpr std::uint64_t layout_of_calls(MemberList<calls...>) {
  Hash hash;
  ((hash.add(value_name<calls>()), hash.add(type_name<decltype(calls)>())), ...);
  return hash.value();
}

template <class T>
struct Layout {
  static constexpr std::uint64_t number() {
    if constexpr (requires { typename T::Members; }) {
      return layout_of_members<T>(typename T::Members{});
    } else if constexpr (std::is_enum_v<T> && !opaque<T>) {
      return layout_of_values<T>();
    } else {
      static_assert(opaque<T>, "a type of the contract lacks its Members");
      Hash hash;
      hash.add(type_name<T>());
      hash.add(sizeof(T));
      return hash.value();
    }
  }
};
template <>
struct Layout<void> {
  static constexpr std::uint64_t number() { return layout_from<>("void"); }
};
template <class T>
struct Layout<const T> {
  static constexpr std::uint64_t number() { return layout_from<T>("const"); }
};
template <class T>
struct Layout<T*> {
  static constexpr std::uint64_t number() { return layout_from<T>("pointer"); }
};
template <class T>
struct Layout<T&> {
  static constexpr std::uint64_t number() { return layout_from<T>("reference"); }
};
template <class T, std::size_t n>
struct Layout<T[n]> {
  static constexpr std::uint64_t number() { return layout_from<T>("array") * (2 * n + 1); }
};
template <class T, std::size_t n>
struct Layout<std::array<T, n>> : Layout<T[n]> {};
template <class T>
struct Layout<std::optional<T>> {
  static constexpr std::uint64_t number() { return layout_from<T>("optional"); }
};
template <class T>
struct Layout<std::vector<T>> {
  static constexpr std::uint64_t number() { return layout_from<T>("vector"); }
};
template <class T>
struct Layout<std::span<T>> {
  static constexpr std::uint64_t number() { return layout_from<T>("span"); }
};
template <class Result, class... Arguments>
struct Layout<Result(Arguments...)> {
  static constexpr std::uint64_t number() { return layout_from<Result, Arguments...>("function"); }
};
template <class Result, class... Arguments>
struct Layout<Result(Arguments...) noexcept> {
  static constexpr std::uint64_t number() { return layout_from<Result, Arguments...>("noexcept function"); }
};
template <class Signature>
struct Layout<kernels::Kernel<Signature>> : Layout<Signature> {};
template <>
struct Layout<Memory> {
  static constexpr std::uint64_t number() {
    Hash hash;
    hash.add(layout_of_calls(MemoryCalls{}));
    hash.add(layout_of<MemoryStatistics>);
    hash.add(sizeof(Memory));
    return hash.value();
  }
};

/// The standard library whose strings and exceptions both sides share.
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
  hash.add(layout_of<DType>);
  hash.add(layout_of<Mode>);
  return hash.value();
}

}  // namespace tern::contract
