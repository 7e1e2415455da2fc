#pragma once

#include "tern/nn/module.hpp"
#include "tern/operators/resizing.hpp"
#include "tern/operators/shape.hpp"

namespace tern::nn {

/// Merges the dimensions from `begin` to `end` into one.
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t begin = 1, std::int64_t end = -1) : begin_(begin), end_(end) {}
  Tensor forward(const Tensor& x) const override { return operators::flatten(x, begin_, end_); }
  std::string describe() const override { return "Flatten()"; }

 private:
  std::int64_t begin_, end_;
};

using operators::InterpolateOptions;
using operators::Interpolation;
using operators::Scale;

/// operators::interpolate_by for x [N, C, H, W]: `scale` times its height and width.
class Upsample : public Module {
 public:
  explicit Upsample(Scale scale, const InterpolateOptions& options = {}) : scale_(scale), options_(options) {
    expects<ShapeError>(scale.h > 0 && scale.w > 0, "Upsample: a scale of ", scale.h, 'x', scale.w);
  }
  Tensor forward(const Tensor& x) const override {
    expects<ShapeError>(x.rank() == 4, "Upsample: input is ", x.shape(), ", expected [N,C,H,W]");
    return operators::interpolate_by(x, scale_, options_);
  }
  std::string describe() const override { return message("Upsample(", scale_.h, 'x', scale_.w, ")"); }

 private:
  Scale scale_;
  InterpolateOptions options_;
};

/// operators::dropout in training, drawing from the calling thread's default_generator(); nothing in evaluation.
class Dropout : public Module {
 public:
  explicit Dropout(double probability = 0.5) : probability_(probability) {
    expects(probability >= 0 && probability <= 1, "Dropout: the probability is in [0, 1], not ", probability);
  }
  Tensor forward(const Tensor& x) const override { return operators::dropout(x, probability_, training()); }
  std::string describe() const override { return message("Dropout(", probability_, ")"); }

 private:
  double probability_;
};

}  // namespace tern::nn
