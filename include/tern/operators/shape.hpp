#pragma once

#include <limits>

#include "tern/tensor/create.hpp"

namespace tern::operators {

// Views: no element moves, any dtype. The members of Tensor call these.
Tensor reshape(const Tensor& x, const Shape& shape);  ///< One size may be -1: it is computed. Copies if it must.
/// Elements [begin, end) of one dimension, every `step`-th; negative positions count from the end, and what lies
/// outside is left out, as in Python. With a negative step, from `begin` down to above `end`: a copy. A step of 0 is a
/// ShapeError.
Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1);
Tensor permute(const Tensor& x, const std::vector<std::int64_t>& order);  ///< Dimension i is x's order[i].
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);        ///< Two dimensions exchanged.
/// -1 leaves a size as it is.
Tensor expand(const Tensor& x, const Shape& shape);

/// A copy in the reverse order along the dimensions named, each once, or all. Any dtype.
Tensor flip(const Tensor& x, const Dims& dims);
/// A contiguous copy, any dtype.
Tensor copy(const Tensor& x);
/// Converted elements, any dtype to any dtype (kernels/movement.hpp has the rules); recorded between floating dtypes.
Tensor cast(const Tensor& x, DType dtype);
/// Joins tensors along `dim`; the other sizes are equal, or the shape is [0]: such a tensor is left out. Any dtype.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// A new dimension `dim` that holds the tensors of one shape.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Views of `sizes` consecutive parts along `dim`; the sizes add up to the dimension.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim);
/// Views of at most `count` consecutive parts along `dim`, equally large but for the last, which may be smaller. A
/// dimension of size 0 is one part.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);
/// Views of all parts along `dim`, which is gone: stack(unbind(x, dim), dim) has x's elements.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);

/// Elements added before and after one dimension.
struct Padding {
  std::int64_t dim = 0, before = 0, after = 0;
};
/// Surrounds x with `value`; a negative number takes elements away, as in torch. Any dtype.
Tensor pad(const Tensor& x, const std::vector<Padding>& padding, Number value = 0);

/// What stands around x.
enum class PadMode : std::uint8_t {
  reflect,    ///< its mirror image without the edge: c b | a b c | b a; at most size - 1 elements
  replicate,  ///< its edge: a a | a b c | c c
  circular,   ///< its other end: b c | a b c | a b; at most size elements
};
/// Surrounds x with its own elements, one dimension after the other. Any dtype. More than there are is a ShapeError.
Tensor pad(const Tensor& x, const std::vector<Padding>& padding, PadMode mode);

/// Rows of weight [n, width] by indices of any shape, int64 or int32: result [..., width]. index_select(weight, 0, ...)
/// with an index of one dimension.
Tensor embedding(const Tensor& weight, const Tensor& indices);
/// x [..., rows, columns] where column - row <= diagonal (triu: >= diagonal), 0 elsewhere. Any dtype.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);  ///< See tril.
/// [n, classes] float32 (or float64): 1 at each label, else 0. labels [n] int64.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype = DType::float32);

/// x written times[i] times along dimension i; more numbers than dimensions begin with new ones. Any dtype, as the
/// following are. Negative numbers, and fewer than there are dimensions, are a ShapeError.
Tensor repeat(const Tensor& x, const Shape& times);
/// The same, but missing numbers are 1.
Tensor tile(const Tensor& x, const Shape& times);
/// Element i of dimension dims[k] goes to i + shifts[k], and what leaves at one end comes back at the other. Without
/// dims, of one shift, x is rolled as one row of elements.
Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const Dims& dims = {});
/// How meshgrid counts.
enum class Meshgrid : std::uint8_t {
  ij,  ///< as indices of a matrix
  xy,  ///< with the first two exchanged
};
/// Of each of n tensors [size_k] (or a number) its coordinates over the grid [size_1, ..., size_n]: expanded views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Meshgrid indexing = Meshgrid::ij);
/// Of a vector the matrix with it on a diagonal (above the main one where positive), else 0; of a matrix that diagonal,
/// a copy.
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/// Dimensions from `begin` to `end` (which counts in) merged into one: a view where the strides allow it.
Tensor flatten(const Tensor& x, std::int64_t begin = 0, std::int64_t end = -1);
/// Without the dimensions named, which have size 1 (torch leaves others as they are): a view.
Tensor squeeze(const Tensor& x, const Dims& dims);

/// `count` positions drawn from each row of weights [classes] or [rows, classes], which need not add up to 1: int64
/// [count] or [rows, count]. Without `replacement` no position comes twice. Waits for the device. A NumericError for a
/// weight that is negative or not finite, a row of zeros, and without replacement for fewer weights above 0 than
/// `count`.
Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false,
                   Generator& generator = default_generator());
/// Zeroes each element with `probability` and scales the others by 1 / (1 - probability); x itself unless `training`.
/// The mask is a function of (seed, stream, element): the same in every mode.
Tensor dropout(const Tensor& x, double probability, bool training, Generator& generator = default_generator());

}  // namespace tern::operators
