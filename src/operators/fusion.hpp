#pragma once
// Which neighbouring operators one kernel computes: the table that graphs and nn::Sequential ask.

#include <optional>

#include "tern/operators/op.hpp"

namespace tern::operators {

/// The operator that computes `next` of the result of `first`, where `next` reads it as its input number `position`.
/// Its inputs are those of `first`, filled up with undefined ones to `inputs`, and then the others of `next`.
struct Fused {
  OpForm form;
  std::size_t inputs = 0;
  bool exact = true;  ///< has the bits of the two in turn; else it rounds once where they round twice
};
std::optional<Fused> fused(const OpForm& first, const OpForm& next, std::size_t position);

/// Whether some operator computes `next` of its own result.
bool fuses_behind(const OpForm& next);

/// Whether fusing adds another input of `next`, which must have the shape of the result of `first` then.
bool fuses_second_input(const OpForm& next);

}  // namespace tern::operators
