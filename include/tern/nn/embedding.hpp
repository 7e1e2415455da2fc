#pragma once

#include "tern/nn/module.hpp"

namespace tern::nn {

/// operators::embedding: rows of weight [count, width], selected by int64 indices of any shape. Initial weights are
/// normal with deviation 1, as torch's.
class Embedding : public Module {
 public:
  /// Throws ShapeError unless both sizes are positive, DTypeError unless `dtype` is floating.
  Embedding(std::int64_t count, std::int64_t width, DType dtype = DType::float32,
            Generator& generator = default_generator());
  Tensor forward(const Tensor& indices) const override;
  std::string describe() const override { return message("Embedding(", weight_->size(0), ", ", weight_->size(1), ")"); }
  const Tensor& weight() const { return weight_; }

 private:
  Parameter weight_;
};

}  // namespace tern::nn
