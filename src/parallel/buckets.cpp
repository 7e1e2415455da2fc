#include "parallel/buckets.hpp"

#include <utility>

#include "parallel/filled.hpp"
#include "tern/operators/shape.hpp"

namespace tern::parallel {

std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  const auto bytes_of = [](std::int64_t count, DType dtype) {
    return count * static_cast<std::int64_t>(size_of(dtype));
  };
  const auto close = [&] {
    if (!open.members.empty()) buckets.push_back(std::exchange(open, {}));
  };
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const DType dtype = sum_dtype(tensors[i].dtype());
    const std::int64_t count = tensors[i].numel();
    // Meanwhile the open bucket waits for smaller tensors.
    if (bytes_of(count, dtype) > bytes) {
      buckets.push_back({.members = {i}, .count = count, .dtype = dtype});
      continue;
    }
    if (dtype != open.dtype || bytes_of(open.count + count, dtype) > bytes) close();
    open.members.push_back(i);
    open.count += count;
    open.dtype = dtype;
  }
  // The last bucket is split where a small rest remains, if there is other work to hide the first part.
  std::size_t kept = open.members.size();
  std::int64_t tail = 0;
  while (kept > 0 && bytes_of(tail + tensors[open.members[kept - 1]].numel(), open.dtype) <= bytes / 8)
    tail += tensors[open.members[--kept]].numel();
  if (kept > 0 && tail > 0 && (!buckets.empty() || bytes_of(open.count - tail, open.dtype) > bytes / 8)) {
    const auto cut = open.members.begin() + static_cast<std::ptrdiff_t>(kept);
    const Bucket last{.members = {cut, open.members.end()}, .count = tail, .dtype = open.dtype};
    open.members.erase(cut, open.members.end());
    open.count -= tail;
    close();
    open = last;
  }
  close();
  return buckets;
}

Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors, const std::vector<Tensor>& values) {
  std::vector<Tensor> pieces;
  for (std::size_t place = 0; place < values.size(); ++place) {
    const std::int64_t count = tensors[bucket.members[place]].numel();
    pieces.push_back(values[place].defined() ? values[place].detach().reshape({count}).to(bucket.dtype)
                                             : filled({count}, 0, bucket.dtype));
  }
  return operators::cat(pieces, 0);
}

Tensor packed(const Bucket& bucket, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> values;
  for (const std::size_t i : bucket.members) values.push_back(tensors[i]);
  return packed(bucket, tensors, values);
}

std::vector<Tensor> unpacked(const Bucket& bucket, const std::vector<Tensor>& tensors, const Tensor& flat) {
  std::vector<Tensor> pieces;
  std::int64_t begin = 0;
  for (const std::size_t i : bucket.members) {
    const std::int64_t end = begin + tensors[i].numel();
    pieces.push_back(flat.slice(0, begin, end).reshape(tensors[i].shape()).to(tensors[i].dtype()));
    begin = end;
  }
  return pieces;
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
