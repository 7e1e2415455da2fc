#pragma once

#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// A sum of products in Einstein's notation, as torch.einsum: "bik,bkj->bij" names each dimension of each tensor by a
/// letter, and sums over the letters that the result lacks. Without "->" the result has the letters that occur once, in
/// alphabetical order. "..." are further dimensions, which broadcast; a letter twice in one tensor is its diagonal;
/// spaces do not count. Tensors are contracted from left to right, floating ones as matrix products. Integers, too.
/// Throws ShapeError for an equation that cannot be read or does not fit the tensors.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors);

}  // namespace tern::operators
