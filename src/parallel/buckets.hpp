#pragma once
// The parameters of a module in pieces of a size that is worth sending, the last layer's first: backward completes them
// in this order.

#include <unordered_map>
#include <vector>

#include "tern/nn/module.hpp"

namespace tern::parallel {

/// Tensors that are sent as one.
struct Bucket {
  std::vector<std::size_t> members = {};  // numbers of the tensors
  std::int64_t count = 0;                 // elements of all
  DType dtype = DType::float32;           // of the sum
};

/// Float32 sums, float64 for float64.
inline DType sum_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

/// About `bytes` in each; a tensor that is larger goes alone. The first layers, which are complete last and whose sum
/// nothing hides, have a small one of their own where there are several.
std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::int64_t bytes);

/// What each member of a bucket has (undefined: zeros) behind one another.
Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors, const std::vector<Tensor>& values);
/// The tensors of a bucket themselves.
Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors);
/// Views of the elements of each, in their dtype.
std::vector<Tensor> unpacked(const Bucket& bucket, const std::vector<Tensor>& tensors, const Tensor& flat);

/// Which buckets a backward has completed.
class Progress {
 public:
  Progress(const std::vector<Bucket>& buckets, const std::vector<Tensor>& tensors);
  /// The gradient of the leaf is complete; returns the bucket that is complete with it, or -1.
  int complete(const Tensor& leaf);

 private:
  std::unordered_map<const Tensor::Body*, std::size_t> bucket_of_;
  std::vector<std::size_t> missing_;
};

}  // namespace tern::parallel
