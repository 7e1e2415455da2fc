#pragma once
// Helpers for a mode that computes a few operators itself and borrows all others.

#include <array>
#include <bit>
#include <string>
#include <utility>

#include "tern/modes/contract.hpp"

namespace tern {

namespace detail {

template <class Struct, auto... members>
void make_absent(Struct& table, MemberList<members...>);

template <class Signature>
void make_absent(kernels::Kernel<Signature>& slot) {
  slot = kernels::absent;
}
inline void make_absent(bool& flag) { flag = false; }
template <class Struct>
void make_absent(Struct& table) {
  make_absent(table, typename Struct::Members{});
}
template <class Struct, auto... members>
void make_absent(Struct& table, MemberList<members...>) {
  (make_absent(table.*members), ...);
}

/// A table in which every slot is absent.
template <class Table>
Table absent_table() {
  auto table = std::bit_cast<Table>(std::array<std::byte, sizeof(Table)>{});
  make_absent(table);
  return table;
}

}  // namespace detail

/// A mode on `memory` that borrows every operator from the mode named `inner`. Fill slots and name their operators in
/// `own`:
///
///     static constexpr const char* own[] = {"linear"};
///     Mode mine = borrowing_mode("mine", "an array of multipliers", memory, "vectorized");
///     mine.operators.dot.linear = my_linear;
///     mine.own = own;
inline Mode borrowing_mode(std::string name, std::string description, Memory& memory, const char* inner) {
  return {.name = std::move(name),
          .description = std::move(description),
          .memory = &memory,
          .operators = detail::absent_table<kernels::Operators<float>>(),
          .float64 = detail::absent_table<kernels::Operators<double>>(),
          .movement = detail::absent_table<kernels::Movement>(),
          .inner = inner};
}

}  // namespace tern
