#pragma once

#include <optional>
#include <vector>

#include "tern/core/member_list.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Gathering and scattering by whole positions, and what becomes of several elements for one place. Indices are int64 or
// int32; negative ones count from the end. Values may have any dtype unless stated otherwise; floating ones have
// gradients.

/// How elements for one place are joined.
enum class Scatter : std::uint8_t {
  none,  ///< the last one wins
  add,
  mul,
  max,
  min
};

/// result[b..., i..., rest] = x[b..., index[b..., i..., 0], ..., index[b..., i..., k - 1], rest]: the last dimension of
/// `index` names the first k dimensions after `batch_dims` common ones, as ONNX's GatherND.
Tensor gather_nd(const Tensor& x, const Tensor& index, std::int64_t batch_dims = 0);
/// A copy of x with result[index[i..., 0], ..., index[i..., k - 1]] = source[i...], or joined with what is there, as
/// ONNX's ScatterND. source has the shape index.shape[:-1] + x.shape[k:].
Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& source, Scatter join = Scatter::none);

struct ScatterReduceOptions {
  Scatter join = Scatter::add;
  bool include_self = true;  ///< x's element counts too; without it, only where no source goes

  using Members = MemberList<&ScatterReduceOptions::join, &ScatterReduceOptions::include_self>;
};
/// scatter, with the elements for one place joined with each other and with x's, as torch.scatter_reduce and ONNX's
/// ScatterElements. The gradient of max and min goes in equal shares to all elements that are the result. Numbers but
/// bool.
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                      const ScatterReduceOptions& options = {});

/// The slices of x along `dim` (of x as one row if absent) where `condition` [n] (bool) is true, as ONNX's Compress; a
/// shorter condition counts as false beyond its end. Waits for the device.
Tensor compress(const Tensor& x, const Tensor& condition, std::optional<std::int64_t> dim = {});

struct UniqueOptions {
  std::optional<std::int64_t> dim = {};  ///< compare slices along it; elements if absent
  bool sorted = true;                    ///< in ascending order, else in that of their first appearance

  using Members = MemberList<&UniqueOptions::dim, &UniqueOptions::sorted>;
};
/// The different elements (or slices) of x; the position of the first of each [n]; for each of x the position among
/// them; how often each occurs [n]. The last three are int64 and the results have no gradient. Waits for the device.
std::vector<Tensor> unique(const Tensor& x, const UniqueOptions& options = {});

}  // namespace tern::operators
