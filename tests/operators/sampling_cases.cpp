// Elements between those of a grid, element by element.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "operators/sampling.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/sampling.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::Around;
using op::Resize;

struct GridUse {
  const char* name;
  Shape x, grid;
  op::GridSampleOptions options = {};
};

double mirrored(double x, double low, double high) {
  if (low >= high) return 0;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return x;
}

// The element at a whole position, with what lies around.
double element_at(const GridUse& use, const Array& x, const Shape& image, const std::vector<double>& at) {
  Shape position = image;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const auto last = static_cast<double>(use.x[static_cast<int>(d) + 2] - 1);
    double place = at[d];
    if (use.options.padding == Around::zeros && (place < 0 || place > last)) return 0;
    if (use.options.padding == Around::reflection)
      place = mirrored(place, use.options.align_corners ? 0 : -0.5, use.options.align_corners ? last : last + 0.5);
    position.push_back(static_cast<std::int64_t>(std::min(std::max(place, 0.0), last)));
  }
  return x.at(position);
}

double between(const GridUse& use, const Array& x, const Shape& image, const std::vector<double>& places,
               std::vector<double> at = {}) {
  if (at.size() == places.size()) return element_at(use, x, image, at);
  const double place = places[at.size()], left = std::floor(place);
  double sum = 0;
  const bool cubic = use.options.mode == Resize::cubic;
  for (double index = left - 1; index <= left + 2; ++index) {
    const double t = std::abs(index - place), weight = cubic ? cubic_weight(t, -0.75) : std::max(0.0, 1 - t);
    at.push_back(index);
    if (weight != 0) sum += weight * between(use, x, image, places, at);
    at.pop_back();
  }
  return sum;
}

Array sampled(const GridUse& use, const Array& x, const Array& grid) {
  Shape shape{use.x[0], use.x[1]};
  for (int dim = 1; dim < use.grid.rank() - 1; ++dim) shape.push_back(use.grid[dim]);
  Array out(shape);
  const std::int64_t dimensions = use.grid.back();
  for_each_position(shape, [&](const Shape& to) {
    std::vector<double> places;
    for (std::int64_t d = 0; d < dimensions; ++d) {
      Shape at{to[0]};
      for (int dim = 2; dim < to.rank(); ++dim) at.push_back(to[dim]);
      at.push_back(dimensions - 1 - d);
      const auto size = static_cast<double>(use.x[static_cast<int>(d) + 2]);
      double place =
          use.options.align_corners ? (grid.at(at) + 1) / 2 * (size - 1) : ((grid.at(at) + 1) * size - 1) / 2;
      if (use.options.mode != Resize::cubic) {
        if (use.options.padding == Around::reflection)
          place =
              mirrored(place, use.options.align_corners ? 0 : -0.5, use.options.align_corners ? size - 1 : size - 0.5);
        if (use.options.padding != Around::zeros) place = std::min(std::max(place, 0.0), size - 1);
      }
      places.push_back(use.options.mode == Resize::nearest ? std::nearbyint(place) : place);
    }
    out.at(to) = use.options.mode == Resize::nearest ? element_at(use, x, {to[0], to[1]}, places)
                                                     : between(use, x, {to[0], to[1]}, places);
  });
  return out;
}

Operator grid_sample() {
  Operator op{.name = "grid_sample", .ulps = 32};
  for (const Resize mode : {Resize::linear, Resize::nearest, Resize::cubic})
    for (const Around around : {Around::zeros, Around::border, Around::reflection})
      for (const bool corners : {false, true})
        for (const GridUse& use : {GridUse{"images", {2, 3, 4, 5}, {2, 3, 4, 2}}, GridUse{"rows", {2, 2, 6}, {2, 5, 1}},
                                   GridUse{"volumes", {1, 2, 3, 2, 4}, {1, 2, 2, 3, 3}}}) {
          GridUse one = use;
          one.options = {mode, around, corners};
          op.samples.push_back(
              {.name = message(use.name, ' ', static_cast<int>(mode), static_cast<int>(around), corners),
               .arguments = {uniform(use.x), uniform(use.grid, -1.7, 1.7)},
               .call =
                   [one](const std::vector<Tensor>& in) {
                     return std::vector{op::grid_sample(in[0], in[1], one.options)};
                   },
               .reference = [one](const std::vector<Array>& in) { return std::vector{sampled(one, in[0], in[1])}; },
               // A step of the difference may cross an element's centre, or the edge.
               .smooth = mode == Resize::cubic,
               .terms = 16,
               .gradient_terms = 256,
               .large_arguments = 0});
          // What is beside the edge in float64 may be on it in 16 bits.
          if (mode == Resize::nearest)
            op.samples.back().arguments[1] = constant(listed(use.grid, {-0.77, 0.13, 0.61, -0.31, 1.4, -1.3, 0.93}));
        }
  op.refuses("a grid of another number of images", Kind::shape, {"[3,2,2,2]", "[2,1,4,4]"}, [] {
    op::grid_sample(ones({2, 1, 4, 4}), ones({3, 2, 2, 2}));
  });
  op.refuses("a grid of three coordinates", Kind::shape, {"[2,2,2,3]"}, [] {
    op::grid_sample(ones({2, 1, 4, 4}), ones({2, 2, 2, 3}));
  });
  op.refuses("an empty image", Kind::shape, {"[2,1,0,4]"}, [] {
    op::grid_sample(ones({2, 1, 0, 4}), ones({2, 2, 2, 2}));
  });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::grid_sample(ones({2, 1, 4, 4}), ones({2, 2, 2, 2}, DType::float64));
  });
  return op;
}

// Four numbers (x1, y1, x2, y2) for each box, some of them beside the image, one empty.
const std::vector<double>& corners() {
  static const std::vector<double> all{0.5, 1.25, 6.75, 5.5, -2, -1.5, 3.25, 4,    4.5,  2.25,
                                       11,  9.5,  3,    3,   3,  3,    1.5,  0.75, 2.25, 6.25};
  return all;
}

// Their own dtype, whatever that of the case.
Argument boxes_of(const Shape& shape, const std::vector<double>& elements) {
  Argument boxes = constant(listed(shape, elements));
  boxes.dtype = DType::float32;
  return boxes;
}

Array aligned(const Shape& x, const std::vector<Array>& in, Pair output, const op::RoiAlignOptions& o) {
  const std::int64_t boxes = in[1].shape[0];
  Array out({boxes, x[1], output.h, output.w});
  const double offset = o.aligned ? 0.5 : 0;
  for_each_position(out.shape, [&](const Shape& at) {
    const auto corner = [&](std::int64_t i) { return in[1].at({at[0], i}) * o.spatial_scale - offset; };
    double width = corner(2) - corner(0), height = corner(3) - corner(1);
    if (!o.aligned) width = std::max(width, 1.0), height = std::max(height, 1.0);
    const double bin_h = height / static_cast<double>(output.h), bin_w = width / static_cast<double>(output.w);
    const double high = o.sampling_ratio > 0 ? static_cast<double>(o.sampling_ratio) : std::ceil(bin_h),
                 wide = o.sampling_ratio > 0 ? static_cast<double>(o.sampling_ratio) : std::ceil(bin_w);
    double sum = 0, largest = -1e300;
    for (double i = 0; i < high; ++i)
      for (double j = 0; j < wide; ++j) {
        double y = corner(1) + static_cast<double>(at[2]) * bin_h + (i + 0.5) * bin_h / high;
        double z = corner(0) + static_cast<double>(at[3]) * bin_w + (j + 0.5) * bin_w / wide;
        const auto h = static_cast<double>(x[2]), w = static_cast<double>(x[3]);
        const bool beside = y < -1 || y > h || z < -1 || z > w;
        y = std::min(std::max(y, 0.0), h - 1), z = std::min(std::max(z, 0.0), w - 1);
        for (const double row : {std::floor(y), std::floor(y) + 1})
          for (const double column : {std::floor(z), std::floor(z) + 1}) {
            const double weight = (1 - std::abs(row - y)) * (1 - std::abs(column - z));
            const auto image = static_cast<std::int64_t>(in[2][at[0]]);
            const double value = beside
                                     ? 0
                                     : weight * in[0].at({image, at[1], static_cast<std::int64_t>(std::min(row, h - 1)),
                                                          static_cast<std::int64_t>(std::min(column, w - 1))});
            sum += value;
            largest = std::max(largest, value);
          }
      }
    out.at(at) = o.max ? (high * wide > 0 ? largest : 0) : sum / std::max(high * wide, 1.0);
  });
  return out;
}

Operator roi_align() {
  Operator op{.name = "roi_align", .ulps = 16};
  for (const bool max : {false, true})
    for (const bool is_aligned : {true, false})
      for (const std::int64_t ratio : {0, 1, 2, 3})
        for (const double scale : {1.0, 0.5}) {
          const op::RoiAlignOptions options{scale, ratio, is_aligned, max};
          const Shape x{2, 3, 7, 9};
          const Pair output{2, 3};
          op.samples.push_back(
              {.name = message(max ? "max " : "mean ", is_aligned ? "aligned " : "", ratio, " by ", scale),
               .arguments = {uniform(x), boxes_of({5, 4}, corners()), labels({5}, 2)},
               .call =
                   [options, output](const std::vector<Tensor>& in) {
                     return std::vector{op::roi_align(in[0], in[1], in[2], output, options)};
                   },
               .reference = [x, output, options](
                                const std::vector<Array>& in) { return std::vector{aligned(x, in, output, options)}; },
               .smooth = !max,
               .terms = 64,
               .gradient_terms = 256,
               .large_arguments = 0});
        }
  op.samples.push_back(
      {.name = "no boxes",
       .arguments = {uniform({1, 2, 3, 3}), boxes_of({0, 4}, {0}), labels({0}, 1)},
       .call = [](const std::vector<Tensor>& in) { return std::vector{op::roi_align(in[0], in[1], in[2], 2)}; },
       .reference =
           [](const std::vector<Array>&) {
             return std::vector{Array({0, 2, 2, 2})};
           }});
  const auto call = [](const Shape& boxes, const std::vector<std::int64_t>& images) {
    return [=] {
      op::roi_align(ones({2, 1, 4, 4}), ones(boxes), tensor(images, {static_cast<std::int64_t>(images.size())}), 2);
    };
  };
  op.refuses("three corners", Kind::shape, {"[2,3]"}, call({2, 3}, {0, 1}));
  op.refuses("fewer images", Kind::shape, {"1 images", "2 boxes"}, call({2, 4}, {0}));
  op.refuses("an image outside", Kind::numeric, {"2"}, call({2, 4}, {0, 2}));
  return op;
}

Operator suppression() {
  Operator op{.name = "non_max_suppression"};
  struct Use {
    std::string name;
    op::NonMaxSuppressionOptions options;
  };
  for (const Use& use :
       {Use{"all", {}}, Use{"overlapping by half", {.iou = 0.5}}, Use{"two of each", {.most = 2, .iou = 0.25}},
        Use{"none", {.most = 0, .iou = 0.5}}, Use{"good ones", {.iou = 0.5, .score = 0.5}},
        Use{"by centres", {.iou = 0.3, .centres = true}}})
    op.samples.push_back(
        {.name = use.name,
         .arguments = {uniform({2, 12, 4}, 0.1, 2), uniform({2, 3, 12}, 0, 1)},
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::non_max_suppression(in[0], in[1], use.options)};
             },
         .reference =
             [use](const std::vector<Array>& in) {
               const auto range = [&](const Shape& box, int side) {
                 const double a = in[0].at({box[0], box[1], side}), b = in[0].at({box[0], box[1], side + 2});
                 if (use.options.centres) return std::pair{a - b / 2, a + b / 2};
                 return std::pair{std::min(a, b), std::max(a, b)};
               };
               const auto length = [](const std::pair<double, double>& of) { return of.second - of.first; };
               const auto iou = [&](const Shape& a, const Shape& b) {
                 double common = 1, first = 1, second = 1;
                 for (const int side : {0, 1}) {
                   const auto one = range(a, side), other = range(b, side);
                   common *= std::max(0.0, std::min(one.second, other.second) - std::max(one.first, other.first));
                   first *= length(one), second *= length(other);
                 }
                 return common / (first + second - common);
               };
               std::vector<double> found;
               for (std::int64_t n = 0; n < 2; ++n)
                 for (std::int64_t c = 0; c < 3; ++c) {
                   std::vector<std::int64_t> left(12), kept;
                   std::iota(left.begin(), left.end(), 0);
                   while (!left.empty() && static_cast<std::int64_t>(kept.size()) < use.options.most) {
                     const auto best = std::ranges::max_element(left, {}, [&](std::int64_t i) {
                       return in[1].at({n, c, i});
                     });
                     const std::int64_t i = *best;
                     left.erase(best);
                     if (use.options.score && in[1].at({n, c, i}) <= *use.options.score) break;
                     kept.push_back(i);
                     for (const std::int64_t number : {n, c, i}) found.push_back(static_cast<double>(number));
                     std::erase_if(left, [&](std::int64_t j) { return iou({n, i}, {n, j}) > use.options.iou; });
                   }
                 }
               Array out({static_cast<std::int64_t>(found.size()) / 3, 3}, found);
               out.dtype = DType::int64;
               return std::vector{out};
             },
         .gradient = false,
         .exact = true});
  op.refuses("another number of boxes", Kind::shape, {"[1,3,4]", "[1,2,5]"}, [] {
    op::non_max_suppression(ones({1, 3, 4}), ones({1, 2, 5}));
  });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::non_max_suppression(ones({1, 3, 4}), ones({1, 2, 3}, DType::float64));
  });
  return op;
}

}  // namespace

std::vector<Operator> sampling_cases() { return {resize_operator(), grid_sample(), roi_align(), suppression()}; }

}  // namespace tern::testing
