// The methods of Tensor that are operators.

#include "tern/operators/operators.hpp"

namespace tern {

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

Tensor Tensor::operator[](std::int64_t i) const {
  expects<ShapeError>(rank() > 0, "tensor: [", i, "] of a tensor without dimensions; item() is its number");
  const std::int64_t size = shape()[0], row = i < 0 ? i + size : i;
  expects<ShapeError>(row >= 0 && row < size, "tensor: [", i, "] is outside the ", size, " parts of ", shape());
  return slice(0, row, row + 1).squeeze(0);
}
Tensor::Rows Tensor::begin() const {
  expects<ShapeError>(rank() > 0, "tensor: a tensor without dimensions has no parts to walk over");
  return {*this, 0};
}
Tensor::Rows Tensor::end() const { return {*this, rank() > 0 ? shape()[0] : 0}; }

Tensor Tensor::t() const {
  expects<ShapeError>(rank() <= 2, "t: ", shape(), " is not a matrix; transpose(a, b) takes any two dimensions");
  return rank() == 2 ? transpose(0, 1) : *this;
}

Tensor Tensor::flatten(std::int64_t begin) const { return operators::flatten(*this, begin); }

Tensor Tensor::squeeze() const {
  Shape smaller;
  for (const std::int64_t size : shape())
    if (size != 1) smaller.push_back(size);
  return reshape(smaller);
}

Tensor Tensor::squeeze(std::int64_t dim) const { return operators::squeeze(*this, dim); }

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  const int place = normalize_dim("unsqueeze", dim, rank() + 1);
  Shape larger;
  for (int i = 0; i <= rank(); ++i) {
    if (i == place) larger.push_back(1);
    if (i < rank()) larger.push_back(shape()[i]);
  }
  return reshape(larger);
}

Tensor Tensor::sum(const Dims& dims, bool keep_dims) const { return operators::sum(*this, dims, keep_dims); }
Tensor Tensor::mean(const Dims& dims, bool keep_dims) const { return operators::mean(*this, dims, keep_dims); }
Tensor Tensor::var(const Dims& dims, std::int64_t correction, bool keep_dims) const {
  return operators::var(*this, dims, correction, keep_dims);
}
Tensor Tensor::std(const Dims& dims, std::int64_t correction, bool keep_dims) const {
  return operators::std(*this, dims, correction, keep_dims);
}
Tensor Tensor::max(const Dims& dims, bool keep_dims) const { return operators::max(*this, dims, keep_dims); }
Tensor Tensor::min(const Dims& dims, bool keep_dims) const { return operators::min(*this, dims, keep_dims); }
Tensor Tensor::prod(const Dims& dims, bool keep_dims) const { return operators::prod(*this, dims, keep_dims); }
Tensor Tensor::norm(double order, const Dims& dims, bool keep_dims) const {
  return operators::norm(*this, order, dims, keep_dims);
}
Tensor Tensor::any(const Dims& dims, bool keep_dims) const { return operators::any(*this, dims, keep_dims); }
Tensor Tensor::all(const Dims& dims, bool keep_dims) const { return operators::all(*this, dims, keep_dims); }
Tensor Tensor::argmax(std::int64_t dim, bool keep_dims) const { return operators::argmax(*this, dim, keep_dims); }
Tensor Tensor::argmin(std::int64_t dim, bool keep_dims) const { return operators::argmin(*this, dim, keep_dims); }
Tensor Tensor::argsort(std::int64_t dim, bool descending) const { return operators::argsort(*this, dim, descending); }
Tensor Tensor::cumsum(std::int64_t dim) const { return operators::cumsum(*this, dim); }
Tensor Tensor::matmul(const Tensor& other) const { return operators::matmul(*this, other); }
Tensor Tensor::relu() const { return operators::relu(*this); }
Tensor Tensor::sigmoid() const { return operators::sigmoid(*this); }
Tensor Tensor::tanh() const { return operators::tanh(*this); }
Tensor Tensor::softmax(std::int64_t dim) const { return operators::softmax(*this, dim); }
Tensor Tensor::log_softmax(std::int64_t dim) const { return operators::log_softmax(*this, dim); }
Tensor Tensor::exp() const { return operators::exp(*this); }
Tensor Tensor::log() const { return operators::log(*this); }
Tensor Tensor::sqrt() const { return operators::sqrt(*this); }
Tensor Tensor::square() const { return operators::square(*this); }
Tensor Tensor::abs() const { return operators::abs(*this); }
Tensor Tensor::pow(double exponent) const { return operators::pow(*this, exponent); }
Tensor Tensor::clamp(double low, double high) const { return operators::clamp(*this, low, high); }
Tensor Tensor::masked_fill(const Tensor& mask, double value) const {
  return operators::masked_fill(*this, mask, value);
}
Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return operators::index_select(*this, dim, index);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const { return operators::gather(*this, dim, index); }
Tensor Tensor::flip(const Dims& dims) const { return operators::flip(*this, dims); }

}  // namespace tern
