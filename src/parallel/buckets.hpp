#pragma once
// The parameters of a module in buckets worth sending, the last layer's first: backward completes them in this order.

#include <unordered_map>
#include <vector>

#include "tern/nn/module.hpp"

namespace tern::parallel {

/// Tensors that are sent together.
struct Bucket {
  std::vector<std::size_t> members = {};  // numbers of the tensors
  std::int64_t count = 0;                 // total number of elements
  DType dtype = DType::float32;           // of the sum
};

/// Sums are float32; float64 for float64.
inline DType sum_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

/// Buckets of about `bytes`; a larger tensor goes alone. If there are several buckets, the first layers, which are
/// complete last and whose sum nothing hides, get a small one of their own.
std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::int64_t bytes);

/// The tensors of a bucket's members (undefined: zeros), concatenated.
Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors, const std::vector<Tensor>& values);
/// The tensors of a bucket, concatenated.
Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors);
/// Views of each member's elements, in its dtype.
std::vector<Tensor> unpacked(const Bucket& bucket, const std::vector<Tensor>& tensors, const Tensor& flat);

/// Tracks which buckets a backward has completed.
class Progress {
 public:
  Progress(const std::vector<Bucket>& buckets, const std::vector<Tensor>& tensors);
  /// Notes that the leaf's gradient is complete; returns the bucket that this completes, or -1.
  int complete(const Tensor& leaf);

 private:
  std::unordered_map<const Tensor::Body*, std::size_t> bucket_of_;
  std::vector<std::size_t> missing_;
};

}  // namespace tern::parallel
