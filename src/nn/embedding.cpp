#include "tern/nn/embedding.hpp"

#include "tern/operators/shape.hpp"

namespace tern::nn {

namespace {

Tensor start(std::int64_t count, std::int64_t width, DType dtype, Generator& generator) {
  expects<ShapeError>(count > 0 && width > 0, "Embedding: ", count, " rows of ", width, "; both are positive");
  return randn({count, width}, generator, 0, 1, dtype);
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, DType dtype, Generator& generator)
    : weight_(parameter("weight", start(count, width, dtype, generator))) {}

Tensor Embedding::forward(const Tensor& indices) const { return operators::embedding(weight_, indices); }

}  // namespace tern::nn
