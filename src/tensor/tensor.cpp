#include "tern/tensor/tensor.hpp"

#include "tensor/places.hpp"
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
  expects(storage != nullptr, "tensor: a view without storage");
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
  body_->numel = element_count(shape);
  body_->offset = body_->numel == 0 ? 0 : offset;  // no kernel gets an address outside the storage
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

namespace {

// The first elements in row-major order.
std::vector<double> leading_values(const Tensor& tensor, std::int64_t count) {
  const void* const base = tensor.storage().read_host();
  std::vector<double> result;
  if (count == 0) return result;
  result.reserve(static_cast<std::size_t>(count));
  with_type_of(tensor.dtype(), [&]<class T>(T) {
    const T* const first = static_cast<const T*>(base) + tensor.offset();
    for_each_place(tensor, count, [&](std::int64_t place) { result.push_back(convert<double>(first[place])); });
  });
  return result;
}

}  // namespace

std::vector<double> Tensor::values() const { return leading_values(*this, numel()); }

Number Tensor::element() const {
  expects<ShapeError>(numel() == 1, "item: a tensor of shape ", shape(), " has ", numel(), " elements, not one");
  return with_type_of(dtype(), [&]<class T>(T) {
    const T value = static_cast<const T*>(body_->storage->read_host())[offset()];
    if constexpr (detail::is_half<T>)
      return Number(static_cast<float>(value));
    else
      return Number(value);
  });
}

Tensor& Tensor::set_requires_grad(bool value) {
  expects<DTypeError>(!value || is_floating(dtype()), "set_requires_grad: ", dtype(),
                      " cannot require a gradient; only floating dtypes can");
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
  if (detail::observer != nullptr) [[unlikely]]
    tell([&](Observer& observer) { observer.gradient(*this, true); });
  // A gradient with its own graph or gradient could hold this tensor, which would then never be freed.
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

}  // namespace tern
