#include "tern/parallel/layout.hpp"

#include <algorithm>

#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

/// Block `rank` of a dimension.
Tensor block(const Group& group, const Tensor& x, std::int64_t dim) {
  const std::int64_t size = x.size(dim) / group.size(), begin = size * group.rank();
  return x.slice(dim, begin, begin + size);
}

/// [..., ranks f] -> [ranks, ..., f], with the dimensions between merged: each rank's part is contiguous.
Tensor cut_features(const Tensor& x, std::int64_t ranks) {
  const std::int64_t features = x.size(-1);
  return x.reshape({x.numel() / std::max<std::int64_t>(features, 1), ranks, features / ranks}).permute({1, 0, 2});
}

/// [ranks, ..., f] -> `shape`, whose last dimension is ranks f.
Tensor join_features(const Tensor& x, std::int64_t ranks, const Shape& shape) {
  const std::int64_t features = shape[shape.rank() - 1] / ranks;
  const std::int64_t row = std::max<std::int64_t>(ranks * features, 1);
  return x.reshape({ranks, x.numel() / row, features}).permute({1, 0, 2}).reshape(shape);
}

Shape resized(Shape shape, int dim, std::int64_t size) {
  shape[dim] = size;
  return shape;
}

Tensor to_whole(const Group& group, const Tensor& x, Layout from) {
  if (from == Layout::whole) return x;
  if (from == Layout::rows) return group.all_gather(x);
  if (from == Layout::features) {
    const int last = x.rank() - 1;
    return join_features(group.all_gather(x.unsqueeze(0)), group.size(),
                         resized(x.shape(), last, x.size(last) * group.size()));
  }
  Tensor sum = x.clone();
  group.all_reduce(sum);
  return sum;
}

Tensor to_rows(const Group& group, const Tensor& x, Layout from) {
  if (from == Layout::whole) return block(group, x, 0);
  if (from == Layout::partial) return group.reduce_scatter(x);
  const int last = x.rank() - 1;
  const Shape rows = resized(x.shape(), 0, x.size(0) / group.size());
  return join_features(group.all_to_all(x), group.size(), resized(rows, last, x.size(last) * group.size()));
}

Tensor to_features(const Group& group, const Tensor& x, Layout from) {
  const int last = x.rank() - 1;
  if (from == Layout::whole) return block(group, x, last);
  const Shape features = resized(x.shape(), last, x.size(last) / group.size());
  const Tensor cut = cut_features(x, group.size());
  if (from == Layout::partial) return group.reduce_scatter(cut).reshape(features);
  return group.all_to_all(cut).reshape(resized(features, 0, x.size(0) * group.size()));
}

Tensor moved(const Group& group, const Tensor& x, Layout from, Layout to) {
  const NoGrad no_grad;
  Tensor input = x.detach();
  if (from == to) return input;
  if (to == Layout::rows) return to_rows(group, input, from);
  if (to == Layout::features) return to_features(group, input, from);
  return to_whole(group, input, from);
}

/// The layout of a tensor's gradient.
Layout gradient_of(Layout layout) {
  return layout == Layout::copies ? Layout::partial : layout == Layout::partial ? Layout::whole : layout;
}

void check(const Group& group, const Tensor& x, Layout from, Layout to) {
  expects(from != Layout::copies && to != Layout::partial,
          "exchange: Layout::copies is a target only, and Layout::partial a source only");
  const bool crosses =
      (from == Layout::rows && to == Layout::features) || (from == Layout::features && to == Layout::rows);
  expects<ShapeError>(x.rank() >= (crosses                                        ? 2
                                   : to == Layout::rows || to == Layout::features ? 1
                                                                                  : 0),
                      "exchange: ", x.shape(), " has too few dimensions to be divided");
  if (from == to) return;
  const auto divides = [&](int dim, const char* what) {
    expects<ShapeError>(x.size(dim) % group.size() == 0, "exchange: the ", x.size(dim), ' ', what, " of ", x.shape(),
                        " are not divided equally among ", group.size(), " ranks");
  };
  if (to == Layout::rows) divides(0, "rows");
  if (to == Layout::features) divides(x.rank() - 1, "features");
}

}  // namespace

Tensor exchange(const Group& group, const Tensor& x, Layout from, Layout to) {
  check(group, x, from, to);
  if (group.size() == 1 || from == to) return x;
  Tensor y = moved(group, x, from, to);
  if (autograd::recording(x))
    autograd::record("exchange", y, {x}, [group, from, to](const Tensor& grad) {
      return autograd::Gradients{moved(group, grad, gradient_of(to), gradient_of(from))};
    });
  return y;
}

}  // namespace tern::parallel
