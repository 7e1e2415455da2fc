#include "tern/core/tensor.hpp"

#include <ostream>

#include "tern/autograd/tape.hpp"
#include "tern/core/create.hpp"
#include "tern/operators/shape.hpp"

namespace tern {

namespace {

// Dimensions of size 1 may have any stride.
bool has_contiguous_strides(const Shape& shape, const Shape& strides) {
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

void check_inside(const Storage* storage, DType dtype, const Shape& shape, const Shape& strides, std::int64_t offset) {
  expects(storage != nullptr, "tensor: a view of no storage");
  expects<ShapeError>(shape.rank() == strides.rank(), "tensor: shape ", shape, " with strides ", strides);
  bool overflow = offset < 0, empty = false;
  std::int64_t first = offset, last = offset;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] <= 0) empty = true;  // element_count refuses a negative size
    if (empty) break;
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last);
  }
  const auto room = static_cast<std::int64_t>(storage->bytes() / size_of(dtype));
  expects<ShapeError>(empty || (!overflow && first >= 0 && last < room), "tensor: a view of shape ", shape,
                      " with strides ", strides, " from element ", offset, " on leaves its storage of ", room,
                      " elements");
}

}  // namespace

Tensor::Tensor(const Shape& shape, DType dtype) : body_(std::make_shared<Body>()) {
  const std::size_t bytes = byte_count(shape, size_of(dtype));
  body_->storage = std::make_shared<Storage>(bytes);
  body_->shape = shape;
  body_->strides = contiguous_strides(shape);
  body_->numel = static_cast<std::int64_t>(bytes / size_of(dtype));
  body_->dtype = dtype;
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, const Shape& strides,
               std::int64_t offset)
    : body_(std::make_shared<Body>()) {
  check_inside(storage.get(), dtype, shape, strides, offset);
  body_->storage = std::move(storage);
  body_->shape = shape;
  body_->strides = strides;
  body_->offset = offset;
  body_->numel = element_count(shape);
  body_->dtype = dtype;
  body_->contiguous = body_->numel == 0 || has_contiguous_strides(shape, strides);
}

void Tensor::throw_undefined(const char* use) {
  throw Error(message("tensor: ", use,
                      "() of an undefined tensor; it was never assigned, was moved from, or is a gradient that no "
                      "backward has made"));
}

const Tensor& Tensor::undefined() {
  static const Tensor none;
  return none;
}

const void* Tensor::host_pointer(DType dtype, bool writes) const {
  expects<DTypeError>(this->dtype() == dtype, "tensor: elements are ", this->dtype(), ", not ", dtype,
                      "; convert with to(...)");
  expects<ShapeError>(is_contiguous(), "tensor: shape ", shape(), " with strides ", strides(),
                      " is not contiguous; call contiguous() first");
  const void* base = writes ? body_->storage->update_host() : body_->storage->read_host();
  if (base == nullptr) return nullptr;
  return static_cast<const std::byte*>(base) + body_->offset * static_cast<std::int64_t>(size_of(dtype));
}

std::vector<double> Tensor::values() const {
  const NoGrad no_grad;
  const Device host(mode("sequential"), {.transfers = current_scope().transfers});
  const Tensor converted = operators::cast(contiguous(), DType::float64);
  const auto elements = converted.read<double>();
  return {elements.begin(), elements.end()};
}

Number Tensor::element() const {
  expects<ShapeError>(numel() == 1, "item: a tensor of shape ", shape(), " has ", numel(), " elements, not one");
  const Tensor one = detach().reshape({});
  return with_type_of(dtype(), [&]<class T>(T) {
    const T value = one.read<T>()[0];
    if constexpr (detail::is_half<T>)
      return Number(static_cast<float>(value));
    else
      return Number(value);
  });
}

Tensor& Tensor::set_requires_grad(bool value) {
  expects<DTypeError>(!value || is_floating(dtype()), "set_requires_grad: ", dtype(),
                      " takes no gradient; only floating dtypes do");
  expects<AutogradError>(is_leaf(), "set_requires_grad: this tensor is the result of an operator; detach() it first");
  if (body_->requires_grad != value) body_->storage->change_role();
  body_->requires_grad = value;
  return *this;
}

void Tensor::set_grad(Tensor gradient) {
  if (!gradient.defined()) {
    zero_grad();
    return;
  }
  expects<ShapeError>(gradient.shape() == shape() && gradient.dtype() == dtype(), "set_grad: a gradient of ",
                      gradient.dtype(), " ", gradient.shape(), " for a tensor of ", dtype(), " ", shape());
  if (detail::listener != nullptr) [[unlikely]]
    detail::listener->gradient(*this, true);
  // One with a graph or a gradient of its own could hold this tensor, which would then never be freed.
  if (gradient.requires_grad() || gradient.body_->gradient || gradient.is(*this)) gradient = gradient.detach();
  body_->gradient = std::make_unique<Tensor>(std::move(gradient));
}

Tensor Tensor::detach() const {
  if (!defined()) return {};
  auto same = std::make_shared<Body>();
  same->storage = body_->storage;
  same->shape = body_->shape;
  same->strides = body_->strides;
  same->offset = body_->offset;
  same->numel = body_->numel;
  same->dtype = body_->dtype;
  same->contiguous = body_->contiguous;
  return Tensor(std::move(same));
}

Tensor Tensor::reshape(const Shape& shape) const { return operators::reshape(*this, shape); }
Tensor Tensor::slice(std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  return operators::slice(*this, dim, begin, end, step);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const { return operators::transpose(*this, a, b); }
Tensor Tensor::permute(const std::vector<std::int64_t>& order) const { return operators::permute(*this, order); }
Tensor Tensor::expand(const Shape& shape) const { return operators::expand(*this, shape); }
Tensor Tensor::contiguous() const { return is_contiguous() ? *this : operators::copy(*this); }
Tensor Tensor::clone() const { return operators::copy(*this); }
Tensor Tensor::to(DType dtype) const { return dtype == this->dtype() ? *this : operators::cast(*this, dtype); }

Tensor Tensor::flatten(std::int64_t begin) const {
  if (rank() == 0) return reshape({1});
  const int first = normalize_dim("flatten", begin, rank());
  Shape merged(shape().begin(), shape().begin() + first);
  std::int64_t rest = 1;
  for (int i = first; i < rank(); ++i) rest *= shape()[i];
  merged.push_back(rest);
  return reshape(merged);
}

Tensor Tensor::squeeze(std::int64_t dim) const {
  const int place = normalize_dim("squeeze", dim, rank());
  expects<ShapeError>(shape()[place] == 1, "squeeze: dimension ", dim, " of ", shape(), " has size ", shape()[place],
                      ", not 1");
  Shape smaller;
  for (int i = 0; i < rank(); ++i)
    if (i != place) smaller.push_back(shape()[i]);
  return reshape(smaller);
}

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  const int place = normalize_dim("unsqueeze", dim, rank() + 1);
  Shape larger;
  for (int i = 0; i <= rank(); ++i) {
    if (i == place) larger.push_back(1);
    if (i < rank()) larger.push_back(shape()[i]);
  }
  return reshape(larger);
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return stream << "undefined tensor";
  stream << "tensor " << tensor.dtype() << ' ' << tensor.shape() << " {";
  const std::int64_t shown = std::min<std::int64_t>(tensor.numel(), 8);
  const std::vector<double> values = tensor.detach().reshape({-1}).slice(0, 0, shown).values();
  for (std::size_t i = 0; i < values.size(); ++i) stream << (i ? ", " : "") << values[i];
  return stream << (tensor.numel() > shown ? ", ...}" : "}");
}

}  // namespace tern
