// Views share storage, so no element moves; their gradients are views or copies of the gradient.

#include <algorithm>
#include <limits>

#include "operators/support.hpp"
#include "operators/traced.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

Tensor view(const Tensor& x, const Shape& shape, const Shape& strides, std::int64_t offset) {
  return {x.shared_storage(), x.dtype(), shape, strides, offset};
}

// Replaces one size of -1 by the computed one.
Shape completed(const Tensor& x, const Shape& shape) {
  Shape result = shape;
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      expects<ShapeError>(unknown < 0, "reshape: ", shape, " leaves two sizes open; at most one may be -1");
      unknown = i;
    } else {
      expects<ShapeError>(shape[i] >= 0, "reshape: size ", shape[i], " in ", shape, " is negative");
      known = element_count(Shape{known, shape[i]});
    }
  }
  if (unknown >= 0) {
    expects<ShapeError>(known > 0 && x.numel() % known == 0, "reshape: ", x.shape(), " has ", x.numel(),
                        " elements, which ", shape, " cannot hold");
    result[unknown] = x.numel() / known;
  }
  expects<ShapeError>(element_count(result) == x.numel(), "reshape: ", x.shape(), " has ", x.numel(), " elements, ",
                      shape, " ", element_count(result));
  return result;
}

// The strides that show x's elements in `shape`, or false if a copy is needed.
bool reshaped_strides(const Tensor& x, const Shape& shape, Shape& strides) {
  strides = contiguous_strides(shape);
  if (x.is_contiguous()) return true;
  // Walks both shapes from the end in groups of equal element counts; within a group x must be one run. Sizes of 1 do
  // not affect the order.
  Shape sizes, steps;
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] != 1) {
      sizes.push_back(x.shape()[i]);
      steps.push_back(x.strides()[i]);
    }
  int from = sizes.rank() - 1, to = shape.rank() - 1;
  while (from >= 0) {
    std::int64_t have = sizes[from], want = 1;
    const std::int64_t step = steps[from];
    while (want != have) {
      if (want < have) {
        strides[to] = step * want;
        want *= shape[to--];
      } else {
        if (--from < 0 || steps[from] != step * have) return false;
        have *= sizes[from];
      }
    }
    --from;
  }
  return true;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (traces()) return traced("reshape", x, shape);
  check_defined("reshape", "the input", x);
  const Shape full = completed(x, shape);
  Shape strides;
  const bool shows = reshaped_strides(x, full, strides);
  Tensor out = shows ? view(x, full, strides, x.offset()) : view(copy(x.detach()), full, contiguous_strides(full), 0);
  if (recording(x)) {
    const auto back = [shape = x.shape()](const Tensor& grad) { return Gradients{reshape(grad, shape)}; };
    shows ? autograd::record_view("reshape", out, x, back) : record("reshape", out, {x}, back);
  }
  return out;
}

Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (traces()) return traced("slice", x, dim, begin, end, step);
  check_defined("slice", "the input", x);
  const int place = normalize_dim("slice", dim, x.rank());
  const std::int64_t size = x.shape()[place];
  expects<ShapeError>(step != 0, "slice: step 0 never ends");
  // As in Python: positions outside are left out.
  const auto inside = [size](std::int64_t position, std::int64_t least, std::int64_t most) {
    return std::clamp(position < 0 ? position + size : position, least, most);
  };
  if (step < 0) {
    const std::int64_t from = inside(begin, -1, size - 1), to = end < -size ? -1 : inside(end, -1, size - 1);
    const std::int64_t stride = step == std::numeric_limits<std::int64_t>::min() ? size + 1 : -step;
    return flip(slice(x, place, from - (from > to ? (from - to - 1) / stride * stride : 0), from + (from > to), stride),
                place);
  }
  const std::int64_t first = inside(begin, 0, size), last = std::max(first, inside(end, 0, size));
  Shape shape = x.shape(), strides = x.strides();
  const std::int64_t count = first == last ? 0 : (last - first - 1) / step + 1;
  shape[place] = count;
  if (count > 1) strides[place] *= step;  // otherwise the step leads nowhere and may be huge
  Tensor out = view(x, shape, strides, count == 0 ? x.offset() : x.offset() + first * x.strides()[place]);
  if (recording(x)) {
    autograd::Part part{shape, contiguous_strides(x.shape()), 0};
    if (count > 0) part.offset = first * part.strides[place];
    if (count > 1) part.strides[place] *= step;
    autograd::record_part("slice", out, x, part);
  }
  return out;
}

Tensor permute(const Tensor& x, const std::vector<std::int64_t>& order) {
  if (traces()) return traced("permute", x, order);
  check_defined("permute", "the input", x);
  expects<ShapeError>(static_cast<int>(order.size()) == x.rank(), "permute: ", order.size(),
                      " places for a tensor of shape ", x.shape());
  Shape shape, strides;
  std::vector<std::int64_t> back(order.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int from = normalize_dim("permute", order[i], x.rank());
    expects<ShapeError>(back[from] < 0, "permute: dimension ", order[i], " is named twice");
    back[from] = static_cast<std::int64_t>(i);
    shape.push_back(x.shape()[from]);
    strides.push_back(x.strides()[from]);
  }
  Tensor out = view(x, shape, strides, x.offset());
  if (recording(x))
    autograd::record_view("permute", out, x, [back](const Tensor& grad) { return Gradients{permute(grad, back)}; });
  return out;
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  if (traces()) return traced("transpose", x, a, b);
  check_defined("transpose", "the input", x);
  std::vector<std::int64_t> order(x.rank());
  for (int i = 0; i < x.rank(); ++i) order[i] = i;
  const int from = dim_of("transpose", a, x.rank()), to = dim_of("transpose", b, x.rank());
  if (from != to) std::swap(order[from], order[to]);
  return permute(x, order);
}

Tensor flip(const Tensor& x, const Dims& dims) {
  if (traces()) return traced("flip", x, dims);
  check_defined("flip", "the input", x);
  Shape strides = x.strides();
  std::int64_t offset = x.offset();
  Shape flipped = Shape::filled(x.rank(), 0);
  for (int i = 0; dims.empty() && i < x.rank(); ++i) flipped[i] = 1;
  for (const std::int64_t dim : dims) {
    const int place = dim_of("flip", dim, x.rank());
    if (x.rank() == 0) continue;
    expects<ShapeError>(flipped[place] == 0, "flip: dimension ", dim, " is named twice");
    flipped[place] = 1;
  }
  for (int i = 0; i < x.rank(); ++i)
    if (flipped[i] != 0 && x.shape()[i] > 1) {
      offset += (x.shape()[i] - 1) * strides[i];
      strides[i] = -strides[i];
    }
  Tensor out(x.shape(), x.dtype());
  if (x.numel() > 0) copy_elements(out, view(x, x.shape(), strides, offset));
  if (recording(x)) record("flip", out, {x}, [dims](const Tensor& grad) { return Gradients{flip(grad, dims)}; });
  return out;
}

Tensor expand(const Tensor& x, const Shape& open) {
  if (traces()) return traced("expand", x, open);
  check_defined("expand", "the input", x);
  Shape shape = open;
  for (int i = 0; i < shape.rank(); ++i) {
    const int own = i - (shape.rank() - x.rank());
    if (shape[i] == -1 && own >= 0) shape[i] = x.shape()[own];
  }
  expects<ShapeError>(shape.rank() >= x.rank() && broadcast("expand", x.shape(), shape) == shape, "expand: ", x.shape(),
                      " does not broadcast to ", shape);
  Shape strides = shape;
  const int lead = shape.rank() - x.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    const bool repeats = i < lead || (x.shape()[i - lead] == 1 && shape[i] != 1);
    strides[i] = repeats ? 0 : x.strides()[i - lead];
  }
  Tensor out = view(x, shape, strides, x.offset());
  if (recording(x))
    record("expand", out, {x}, [from = x.shape()](const Tensor& grad) { return Gradients{sum_to(grad, from)}; });
  return out;
}

}  // namespace tern::operators
