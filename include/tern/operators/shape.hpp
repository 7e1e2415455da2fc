#pragma once

#include <limits>

#include "tern/core/member_list.hpp"
#include "tern/tensor/create.hpp"

namespace tern::operators {

// Views: no element moves, any dtype. The members of Tensor call them.
Tensor reshape(const Tensor& x, const Shape& shape);  ///< One size may be -1, which is then computed. Copies if it
                                                      ///< must.
/// Elements [begin, end) of one dimension, every `step`-th. Negative positions count from the end, and positions
/// outside are left out, as in Python. A negative step counts down from `begin` to above `end` and copies. A step of 0
/// is a ShapeError.
Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1);
Tensor permute(const Tensor& x, const std::vector<std::int64_t>& order);  ///< Dimension i is x's order[i].
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);        ///< Two dimensions exchanged.
/// -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);

/// A copy with the named dimensions, each once, or all of them reversed. Any dtype.
Tensor flip(const Tensor& x, const Dims& dims);
/// A contiguous copy, any dtype.
Tensor copy(const Tensor& x);
/// Converts elements between any two dtypes (kernels/movement.hpp states the rules); recorded between floating dtypes.
Tensor cast(const Tensor& x, DType dtype);
/// Joins tensors along `dim`; the other sizes must be equal. Tensors of shape [0] are skipped. Any dtype.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Stacks tensors of one shape along a new dimension `dim`.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Views of consecutive slices along `dim`, of these `sizes`, which add up to the dimension.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim);
/// Views of at most `count` consecutive slices along `dim`, all of one size except the last, which may be smaller. A
/// dimension of size 0 is one slice.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);
/// Views of all slices along `dim`, without that dimension: stack(unbind(x, dim), dim) has x's elements.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);

/// Number of elements to add before and after one dimension.
struct Padding {
  std::int64_t dim = 0, before = 0, after = 0;

  using Members = MemberList<&Padding::dim, &Padding::before, &Padding::after>;
};
/// Pads x with `value`; negative numbers remove elements, as in torch. Any dtype.
Tensor pad(const Tensor& x, const std::vector<Padding>& padding, Number value = 0);

/// What surrounds x.
enum class PadMode : std::uint8_t {
  reflect,    ///< its mirror image without the edge: c b | a b c | b a; at most size - 1 elements
  replicate,  ///< its edge: a a | a b c | c c
  circular,   ///< its other end: b c | a b c | a b; at most size elements
};
/// Pads x with its own elements, one dimension after another. Any dtype. Throws ShapeError if there are too few.
Tensor pad(const Tensor& x, const std::vector<Padding>& padding, PadMode mode);

/// Rows of weight [n, width] selected by indices of any shape, int64 or int32: result [..., width]. It is
/// index_select(weight, 0, ...) for an index of one dimension.
Tensor embedding(const Tensor& weight, const Tensor& indices);
/// x [..., rows, columns] where column - row <= diagonal (triu: >= diagonal), 0 elsewhere. Any dtype.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);  ///< See tril.
/// [n, classes] float32 (or float64): 1 at each label, else 0. labels [n] int64.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype = DType::float32);

/// x repeated times[i] times along dimension i; extra numbers add new leading dimensions. Any dtype, as for the
/// functions below. Throws ShapeError for negative numbers or fewer numbers than dimensions.
Tensor repeat(const Tensor& x, const Shape& times);
/// The same, but missing numbers count as 1.
Tensor tile(const Tensor& x, const Shape& times);
/// Moves element i of dimension dims[k] to i + shifts[k]; what leaves at one end returns at the other. Without dims,
/// with one shift, x is rolled as one row of elements.
Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const Dims& dims = {});
/// How meshgrid orders the first two dimensions.
enum class Meshgrid : std::uint8_t {
  ij,  ///< like the indices of a matrix
  xy,  ///< with the first two exchanged
};
/// The coordinates of each of n tensors [size_k] (or numbers) over the grid [size_1, ..., size_n], as expanded views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Meshgrid indexing = Meshgrid::ij);
/// For a vector, the matrix that has it on a diagonal (above the main one if positive) and 0 elsewhere; for a matrix, a
/// copy of that diagonal.
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/// Merges the dimensions from `begin` to `end`, inclusive, into one; a view if strides allow it.
Tensor flatten(const Tensor& x, std::int64_t begin = 0, std::int64_t end = -1);
/// Removes the named dimensions, which must have size 1 (torch ignores others); a view.
Tensor squeeze(const Tensor& x, const Dims& dims);

/// Draws `count` positions from each row of weights [classes] or [rows, classes], which need not add up to 1: int64
/// [count] or [rows, count]. Without `replacement` no position occurs twice. Waits for the device. Throws NumericError
/// for a weight that is negative or not finite, for a row of zeros and, without replacement, for fewer than `count`
/// positive weights.
Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false,
                   Generator& generator = default_generator());
/// Zeroes each element with `probability` and scales the others by 1 / (1 - probability); returns x itself unless
/// `training`. The mask is a function of (seed, stream, element), the same in every mode.
Tensor dropout(const Tensor& x, double probability, bool training, Generator& generator = default_generator());

}  // namespace tern::operators
