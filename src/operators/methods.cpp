// The methods of Tensor that are operators.

#include "tern/operators/shape.hpp"

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

}  // namespace tern
