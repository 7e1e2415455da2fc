#include "tern/operators/shape.hpp"

#include <algorithm>

#include "operators/layout.hpp"
#include "operators/rows.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"

namespace tern::operators {

Tensor copy(const Tensor& x) {
  if (traces()) return traced("copy", x);
  check_defined("copy", "the input", x);
  Tensor out(x.shape(), x.dtype());
  copy_elements(out, x);
  if (recording(x)) record("copy", out, {x}, [](const Tensor& grad) { return Gradients{grad}; });
  return out;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (traces()) return traced("cast", x, dtype);
  check_defined("cast", "the input", x);
  const Tensor whole = dense(x);
  Tensor out = empty_in(layout_of(whole), x.shape(), dtype);
  visit_any("cast", dtype, [&] {
    const AnyCall call;
    const std::byte* const from = call.bytes_in(whole);
    call.movement().cast(call.context(), call.bytes_out(out), dtype, from, x.dtype(), x.numel());
  });
  if (recording(x) && is_floating(dtype))
    record("cast", out, {x}, [dtype = x.dtype()](const Tensor& grad) { return Gradients{grad.to(dtype)}; });
  return out;
}

Tensor cat(const std::vector<Tensor>& given, std::int64_t dim) {
  if (traces()) return traced("cat", given, dim);
  expects<ShapeError>(!given.empty(), "cat: no tensors");
  for (const Tensor& tensor : given) check_defined("cat", "an input", tensor);
  // As in torch, [0] joins any shape, other ranks too.
  const auto is_nothing = [](const Tensor& tensor) { return tensor.shape() == Shape{0}; };
  const bool vectors = std::ranges::all_of(given, [](const Tensor& tensor) { return tensor.rank() == 1; });
  if (!vectors && std::ranges::any_of(given, is_nothing)) {
    std::vector<Tensor> rest;
    for (const Tensor& tensor : given) {
      expects<DTypeError>(tensor.dtype() == given[0].dtype(), "cat: inputs are ", given[0].dtype(), " and ",
                          tensor.dtype());
      if (!is_nothing(tensor)) rest.push_back(tensor);
    }
    return cat(rest, dim);
  }
  const std::vector<Tensor>& tensors = given;
  const Tensor& first = tensors[0];
  const int place = normalize_dim("cat", dim, first.rank());
  Shape shape = first.shape();
  std::vector<std::int64_t> sizes;
  shape[place] = 0;
  for (const Tensor& tensor : tensors) {
    expects<DTypeError>(tensor.dtype() == first.dtype(), "cat: inputs are ", first.dtype(), " and ", tensor.dtype());
    Shape expected = first.shape();
    if (tensor.rank() == first.rank()) expected[place] = tensor.shape()[place];
    expects<ShapeError>(tensor.shape() == expected, "cat: shapes ", first.shape(), " and ", tensor.shape(),
                        " differ outside dimension ", dim);
    sizes.push_back(tensor.shape()[place]);
    shape[place] += sizes.back();
  }
  const bool last =
      std::ranges::all_of(tensors, [](const Tensor& tensor) { return order_of(tensor) == Layout::channels_last; });
  Tensor out = empty_in(last ? Layout::channels_last : Layout::channels_first, shape, first.dtype());
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t size = tensor.shape()[place];
    copy_elements(slice(out, place, begin, begin + size), tensor.detach());
    begin += size;
  }
  if (recording(tensors))
    record("cat", out, tensors, [sizes, place](const Tensor& grad) { return Gradients(split(grad, sizes, place)); });
  return out;
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  if (traces()) return traced("stack", tensors, dim);
  expects<ShapeError>(!tensors.empty(), "stack: no tensors");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    check_defined("stack", "an input", tensor);
    expects<ShapeError>(tensor.shape() == tensors[0].shape(), "stack: shapes ", tensors[0].shape(), " and ",
                        tensor.shape(), " differ");
    rows.push_back(tensor.unsqueeze(normalize_dim("stack", dim, tensor.rank() + 1)));
  }
  return cat(rows, normalize_dim("stack", dim, rows[0].rank()));
}

namespace {

// x without the elements that negative padding removes, and the remaining padding.
Tensor cropped(const Tensor& x, const std::vector<Padding>& padding, std::vector<Padding>& left) {
  Tensor out = x;
  for (const Padding& side : padding) {
    const int place = normalize_dim("pad", side.dim, x.rank());
    const std::int64_t size = out.shape()[place];
    expects<ShapeError>(side.before >= -size && side.after >= -size &&
                            std::min(side.before, std::int64_t{0}) + std::min(side.after, std::int64_t{0}) >= -size,
                        "pad: ", side.before, " before and ", side.after, " after take more than the ", size,
                        " elements of dimension ", side.dim, " of ", x.shape());
    out = slice(out, place, std::max<std::int64_t>(-side.before, 0), size + std::min<std::int64_t>(side.after, 0));
    left.push_back({place, std::max<std::int64_t>(side.before, 0), std::max<std::int64_t>(side.after, 0)});
  }
  return out;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<Padding>& padding, Number value) {
  if (traces()) return traced("pad", x, padding, value);
  check_defined("pad", "the input", x);
  if (std::ranges::any_of(padding, [](const Padding& side) { return side.before < 0 || side.after < 0; })) {
    std::vector<Padding> left;
    const Tensor part = cropped(x, padding, left);
    return pad(part, left, value);
  }
  Shape shape = x.shape(), start = Shape::filled(x.rank(), 0);
  for (const Padding& side : padding) {
    const int place = normalize_dim("pad", side.dim, x.rank());
    const bool fits = !__builtin_add_overflow(shape[place], side.before, &shape[place]) &&
                      !__builtin_add_overflow(shape[place], side.after, &shape[place]);
    expects<ShapeError>(fits, "pad: dimension ", side.dim, " of ", x.shape(), " with ", side.before, " before and ",
                        side.after, " after has more than 2^63 elements");
    start[place] += side.before;
  }
  Tensor out = empty_in(layout_of(x), shape, x.dtype());
  out.fill_(value);
  const auto inside = [start, shape = x.shape()](const Tensor& whole) {
    Tensor part = whole;
    for (int i = 0; i < shape.rank(); ++i) part = slice(part, i, start[i], start[i] + shape[i]);
    return part;
  };
  copy_elements(inside(out), x.detach());
  if (recording(x)) record("pad", out, {x}, [inside](const Tensor& grad) { return Gradients{inside(grad)}; });
  return out;
}

Tensor rows_at(const char* op, const Tensor& x, const Tensor& index) {
  check_defined(op, "the input", x);
  expects<ShapeError>(x.rank() >= 1, op, ": a number has no rows");
  const std::int64_t in_rows = x.shape()[0];
  const Tensor rows = checked_labels(op, index, in_rows, 0, "index");
  expects<NumericError>(in_rows > 0 || rows.numel() == 0, op, ": input ", x.shape(), " has no rows to take");
  Shape shape = x.shape();
  shape[0] = rows.numel();
  std::int64_t columns = 1;
  for (int i = 1; i < x.rank(); ++i) columns *= shape[i];
  const Tensor whole = x.detach().contiguous();
  Tensor out(shape, x.dtype());
  visit_any(op, x.dtype(), [&] {
    const AnyCall call;
    const std::byte* const from = call.bytes_in(
        whole, static_cast<double>(out.numel()) / static_cast<double>(std::max<std::int64_t>(x.numel(), 1)));
    const auto* const places = call.in_as<std::int64_t>(rows);
    call.movement().gather(call.context(), call.bytes_out(out), from, places, rows.numel(), in_rows,
                           columns * static_cast<std::int64_t>(size_of(x.dtype())));
  });
  if (recording(x))
    record(op, out, {x}, [op, rows = Saved(rows), in_rows](const Tensor& grad) {
      return Gradients{add_rows(op, grad, rows.get(), in_rows)};
    });
  return out;
}

Tensor add_rows(const char* op, const Tensor& x, const Tensor& index, std::int64_t out_rows) {
  const Tensor rows = checked_labels(op, index, out_rows, 0, "index"), whole = x.detach().contiguous();
  Shape shape = x.shape();
  shape[0] = out_rows;
  std::int64_t columns = 1;
  for (int i = 1; i < x.rank(); ++i) columns *= shape[i];
  Tensor out(shape, x.dtype());
  visit(op, x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().shape.gather_backward(call.context(), call.out(out), call.in(whole),
                                       call.template in_as<std::int64_t>(rows), rows.numel(), out_rows, columns);
  });
  if (recording(x))
    record(op, out, {x},
           [op, rows = Saved(rows)](const Tensor& grad) { return Gradients{rows_at(op, grad, rows.get())}; });
  return out;
}

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  if (traces()) return traced("argsort", x, dim, descending);
  check_defined("argsort", "the input", x);
  kernels::Axis axis;
  const int place = x.rank() == 0 ? -1 : normalize_dim("argsort", dim, x.rank());
  for (int i = 0; i < x.rank(); ++i) (i < place ? axis.outer : i > place ? axis.inner : axis.length) *= x.shape()[i];
  const Tensor whole = x.detach().contiguous();
  Tensor order(x.shape(), DType::int64);
  const auto slot = [](const auto& table) -> decltype((table.shape.argsort)) { return table.shape.argsort; };
  visit("argsort", x.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.template out_as<std::int64_t>(order), call.in(whole), axis, descending);
  });
  return order;
}

Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype) {
  if (traces()) return traced("one_hot", labels, classes, dtype);
  expects<ShapeError>(classes >= 1, "one_hot: ", classes, " classes, expected at least 1");
  const Tensor rows = checked_labels("one_hot", labels, classes, 0);
  Tensor out({rows.numel(), classes}, dtype);
  visit("one_hot", dtype, [&]<class T>() {
    const Call<T> call;
    call.table().shape.one_hot(call.context(), call.out(out), call.template in_as<std::int64_t>(rows), rows.numel(),
                               classes);
  });
  return out;
}

namespace {

Tensor masked(const Tensor& x, double probability, const random::Key& key) {
  const Tensor whole = x.detach().contiguous();
  Tensor out(x.shape(), x.dtype());
  visit("dropout", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().shape.dropout(call.context(), call.out(out), call.in(whole), x.numel(), probability, key);
  });
  return out;
}

}  // namespace

Tensor dropout(const Tensor& x, double probability, bool training, Generator& generator) {
  if (traces()) return traced("dropout", x, probability, training, generator);
  check_defined("dropout", "the input", x);
  expects<NumericError>(probability >= 0 && probability <= 1, "dropout: probability ", probability,
                        " is outside [0, 1]");
  if (!training) return x;
  const random::Key key = draw(generator);
  Tensor out = masked(x, probability, key);
  if (recording(x))
    record("dropout", out, {x},
           [probability, key](const Tensor& grad) { return Gradients{masked(grad, probability, key)}; });
  return out;
}

}  // namespace tern::operators

namespace tern {

namespace {

// Refuses a write that would change a graph unnoticed, or write one element of `target` twice.
void check_writable(const char* op, const Tensor& target) {
  expects<AutogradError>(!(target.requires_grad() && autograd::enabled()), op,
                         ": this tensor requires a gradient; change it under NoGrad");
  expects<ShapeError>(!operators::may_overlap(target), op, ": elements of this view of shape ", target.shape(),
                      " with strides ", target.strides(), " share their places; clone() it first");
}

}  // namespace

Tensor& Tensor::fill_(Number value) {
  check_writable("fill_", *this);
  if (numel() == 0) return *this;
  Tensor one = full(Shape{}, value, dtype());
  if (!is_contiguous() || static_cast<std::size_t>(numel()) * size_of(dtype()) != storage().bytes()) {
    operators::copy_elements(*this, one.expand(shape()));
    return *this;
  }
  operators::visit_any("fill", dtype(), [&] {
    const operators::AnyCall call;
    call.movement().fill(call.context(), call.bytes_out(*this), numel(), one.storage().read_host(), size_of(dtype()));
  });
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source) {
  check_writable("copy_", *this);
  operators::check_defined("copy_", "the source", source);
  expects<AutogradError>(!(source.requires_grad() && autograd::enabled()),
                         "copy_: the source requires a gradient, which a change in place does not pass on; detach() "
                         "it, or copy under NoGrad");
  expects<ShapeError>(source.rank() <= rank() && broadcast("copy_", source.shape(), shape()) == shape(),
                      "copy_: a source of shape ", source.shape(), " does not broadcast to ", shape());
  Tensor converted = source.detach().to(dtype());
  const Tensor spread = converted.shape() == shape() ? converted : converted.expand(shape());
  // Copying a tensor onto an overlapping view of itself would read elements that it has just written.
  operators::copy_elements(*this, &spread.storage() == &storage() ? spread.clone() : spread);
  return *this;
}

}  // namespace tern
