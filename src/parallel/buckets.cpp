#include "parallel/buckets.hpp"

#include "parallel/filled.hpp"
#include "tern/operators/shape.hpp"

namespace tern::parallel {

std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const DType dtype = sum_dtype(tensors[i].dtype());
    const auto room = [&](const Bucket& bucket) {
      return bucket.dtype == dtype &&
             (bucket.count + tensors[i].numel()) * static_cast<std::int64_t>(size_of(dtype)) <= bytes;
    };
    if (buckets.empty() || !room(buckets.back())) buckets.push_back({.dtype = dtype});
    buckets.back().members.push_back(i);
    buckets.back().count += tensors[i].numel();
  }
  return buckets;
}

Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors, const std::vector<Tensor>& values) {
  std::vector<Tensor> parts;
  for (const std::size_t i : bucket.members)
    parts.push_back(values[i].defined() ? values[i].detach().reshape({tensors[i].numel()}).to(bucket.dtype)
                                        : filled({tensors[i].numel()}, 0, bucket.dtype));
  return operators::cat(parts, 0);
}

std::vector<Tensor> unpacked(const Bucket& bucket, const std::vector<Tensor>& tensors, const Tensor& flat) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::size_t i : bucket.members) {
    const std::int64_t end = begin + tensors[i].numel();
    parts.push_back(flat.slice(0, begin, end).reshape(tensors[i].shape()).to(tensors[i].dtype()));
    begin = end;
  }
  return parts;
}

Progress::Progress(const std::vector<Bucket>& buckets, const std::vector<Tensor>& tensors) {
  for (const Bucket& bucket : buckets) {
    for (const std::size_t i : bucket.members) bucket_of_[tensors[i].body()] = missing_.size();
    missing_.push_back(bucket.members.size());
  }
}

int Progress::complete(const Tensor& leaf) {
  const auto found = bucket_of_.find(leaf.body());
  if (found == bucket_of_.end() || --missing_[found->second] > 0) return -1;
  return static_cast<int>(found->second);
}

}  // namespace tern::parallel
