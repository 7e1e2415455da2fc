// Splits a tensor into all of its slices: views, whose gradients are joined once.

#include <algorithm>

#include "operators/support.hpp"
#include "operators/traced.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// Views only, recorded as one operator.
template <class Cut, class Join>
std::vector<Tensor> parts_of(const char* op, const Tensor& x, Cut cut, Join join) {
  std::vector<Tensor> parts = cut(x.detach());
  if (recording(x) && !parts.empty()) {
    std::vector<Shape> shapes;
    for (const Tensor& part : parts) shapes.push_back(part.shape());
    autograd::record_all(op, parts, x, [shapes = std::move(shapes), dtype = x.dtype(), join](const Gradients& grads) {
      Gradients all = grads;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (!all[i].defined()) {  // this slice does not lead to the loss
          all[i] = Tensor(Shape{}, dtype);
          all[i] = all[i].fill_(0).expand(shapes[i]);
        }
      return join(all);
    });
  }
  return parts;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  if (traces()) return traced<std::vector<Tensor>>("split", x, sizes, dim);
  check_defined("split", "the input", x);
  const int place = normalize_dim("split", dim, x.rank());
  std::int64_t total = 0;
  for (std::int64_t size : sizes) {
    expects<ShapeError>(size >= 0, "split: size ", size, " is negative");
    expects<ShapeError>(!__builtin_add_overflow(total, size, &total), "split: the sizes add up to more than 2^63");
  }
  expects<ShapeError>(total == x.shape()[place], "split: the sizes add up to ", total, ", dimension ", dim, " of ",
                      x.shape(), " has ", x.shape()[place]);
  const auto cut = [&](const Tensor& whole) {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (std::int64_t size : sizes) {
      parts.push_back(slice(whole, place, begin, begin + size));
      begin += size;
    }
    return parts;
  };
  return parts_of("split", x, cut, [place](const Gradients& grads) { return cat(grads, place); });
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim) {
  if (traces()) return traced<std::vector<Tensor>>("chunk", x, count, dim);
  check_defined("chunk", "the input", x);
  expects<ShapeError>(count >= 1, "chunk: ", count, " parts, expected at least 1");
  const std::int64_t total = x.shape()[normalize_dim("chunk", dim, x.rank())];
  const std::int64_t size = std::max<std::int64_t>(1, total / count + (total % count != 0));
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < total; begin += size) sizes.push_back(std::min(size, total - begin));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, dim);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim) {
  if (traces()) return traced<std::vector<Tensor>>("unbind", x, dim);
  check_defined("unbind", "the input", x);
  expects<ShapeError>(x.rank() > 0, "unbind: a number has no parts");
  const int place = normalize_dim("unbind", dim, x.rank());
  const auto cut = [&](const Tensor& whole) {
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; i < x.shape()[place]; ++i) parts.push_back(slice(whole, place, i, i + 1).squeeze(place));
    return parts;
  };
  return parts_of("unbind", x, cut, [place](const Gradients& grads) { return stack(grads, place); });
}

}  // namespace tern::operators
