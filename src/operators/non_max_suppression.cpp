#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/sampling.hpp"

namespace tern::operators {

namespace {

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double common = height * width;
  return common / (a.area() + b.area() - common);
}

}  // namespace

Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, const NonMaxSuppressionOptions& options) {
  if (traces()) return traced("non_max_suppression", boxes, scores, options);
  constexpr const char* op = "non_max_suppression";
  check_dtypes(op, boxes, scores);
  check_floating(op, "the boxes", boxes);
  const bool fits = boxes.rank() == 3 && scores.rank() == 3 && boxes.size(2) == 4 && boxes.size(0) == scores.size(0) &&
                    boxes.size(1) == scores.size(2);
  expects<ShapeError>(fits, op, ": boxes ", boxes.shape(), " and scores ", scores.shape(),
                      ", expected [N, B, 4] and [N, C, B]");
  const std::int64_t images = boxes.size(0), classes = scores.size(1), count = boxes.size(1);
  const std::vector<double> corners = boxes.to(DType::float64).to_vector<double>(),
                            values = scores.to(DType::float64).to_vector<double>();
  std::vector<std::int64_t> found;
  for (std::int64_t image = 0; image < images; ++image) {
    std::vector<Box> all;
    for (std::int64_t i = 0; i < count; ++i) {
      const double* const four = corners.data() + (image * count + i) * 4;
      if (options.centres)
        all.push_back({four[1] - four[3] / 2, four[0] - four[2] / 2, four[1] + four[3] / 2, four[0] + four[2] / 2});
      else
        all.push_back({std::min(four[0], four[2]), std::min(four[1], four[3]), std::max(four[0], four[2]),
                       std::max(four[1], four[3])});
    }
    for (std::int64_t of_class = 0; of_class < classes; ++of_class) {
      const double* const own = values.data() + (image * classes + of_class) * count;
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i)
        if (!std::isnan(own[i]) && (!options.score || own[i] > *options.score)) order.push_back(i);
      std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return own[a] > own[b]; });
      std::vector<std::int64_t> kept;
      for (const std::int64_t i : order) {
        if (static_cast<std::int64_t>(kept.size()) >= options.most) break;
        const bool clear = std::ranges::all_of(kept, [&](std::int64_t j) {
          return overlap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(j)]) <= options.iou;
        });
        if (!clear) continue;
        kept.push_back(i);
        found.insert(found.end(), {image, of_class, i});
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(found.size() / 3);
  return tensor(found, {rows, 3});
}

}  // namespace tern::operators
