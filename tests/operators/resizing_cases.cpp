// Images of another size: interpolate, the surroundings of pad, conv_transpose2d; and conv1d.

#include <algorithm>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Source {
  std::int64_t left, right;
  double share;  // of the right one
};

// Where position i of `out` comes from, along a side of `in`.
Source source(const op::InterpolateOptions& options, std::int64_t i, std::int64_t out, std::int64_t in) {
  if (options.mode == op::Interpolation::nearest) return {i * in / out, i * in / out, 0};
  const double at =
      options.align_corners
          ? (out > 1 ? static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1) : 0)
          : std::max((static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5, 0.0);
  const auto left = std::min(static_cast<std::int64_t>(at), in - 1);
  return {left, std::min(left + 1, in - 1), at - static_cast<double>(left)};
}

Operator interpolate() {
  Operator op{.name = "interpolate", .ulps = 8};
  struct Use {
    Shape x;
    Pair output;
  };
  const op::InterpolateOptions modes[]{
      {}, {.mode = op::Interpolation::bilinear}, {.mode = op::Interpolation::bilinear, .align_corners = true}};
  constexpr const char* names[]{"nearest", "bilinear", "bilinear with aligned corners"};
  for (int mode = 0; mode < 3; ++mode)
    for (const Use& use : {Use{{1, 1, 3, 3}, {7, 7}}, Use{{2, 3, 5, 4}, {10, 8}}, Use{{2, 2, 9, 7}, {4, 3}},
                           Use{{1, 2, 6, 5}, {6, 9}}, Use{{1, 1, 1, 4}, {3, 1}}, Use{{2, 1, 4, 4}, {4, 4}}}) {
      const op::InterpolateOptions options = modes[mode];
      const bool exact = mode == 0;
      op.samples.push_back({.name = message(names[mode], ' ', use.x, " to ", use.output.h, 'x', use.output.w),
                            .arguments = {uniform(use.x)},
                            .call =
                                [use, options](const std::vector<Tensor>& in) {
                                  return std::vector{op::interpolate(in[0], use.output, options)};
                                },
                            .reference =
                                [use, options](const std::vector<Array>& in) {
                                  Array out({use.x[0], use.x[1], use.output.h, use.output.w});
                                  for_each_position(out.shape, [&](const Shape& at) {
                                    const Source h = source(options, at[2], use.output.h, use.x[2]),
                                                 w = source(options, at[3], use.output.w, use.x[3]);
                                    const auto row = [&](std::int64_t y) {
                                      return (1 - w.share) * in[0].at({at[0], at[1], y, w.left}) +
                                             w.share * in[0].at({at[0], at[1], y, w.right});
                                    };
                                    out.at(at) = (1 - h.share) * row(h.left) + h.share * row(h.right);
                                  });
                                  return std::vector{out};
                                },
                            .exact = exact,
                            .terms = exact ? 1.0 : 4.0,
                            .gradient_terms = 64});
    }
  op.refuses("three dimensions", Kind::shape, {"[2,3,4]"}, [] { op::interpolate(ones({2, 3, 4}), 2); });
  op.refuses("a size of 0", Kind::shape, {"0"}, [] { op::interpolate(ones({1, 1, 2, 2}), {0, 3}); });
  op.refuses("a size that no image has", Kind::shape, {"9223372036854775807x2"}, [] {
    op::interpolate(ones({1, 1, 2, 2}), {std::numeric_limits<std::int64_t>::max(), 2});
  });
  op.refuses("no image", Kind::shape, {"[1,1,0,2]"}, [] { op::interpolate(ones({1, 1, 0, 2}), 3); });
  op.refuses("integers", Kind::dtype, {"uint8"}, [] { op::interpolate(ones({1, 1, 2, 2}, DType::uint8), 3); });
  return op;
}

Operator pad(const char* name, op::PadMode mode) {
  Operator op = movement(name);
  using Padding = std::vector<op::Padding>;
  for (const auto& [shape, padding] : {std::pair<Shape, Padding>{{5}, {{0, 2, 3}}},
                                       {{5}, {{0, 4, 0}}},
                                       {{3, 4}, {{1, 2, 1}, {0, 1, 2}}},
                                       {{2, 3, 4}, {{-1, 3, 3}}},
                                       {{1, 2, 3, 4}, {{2, 1, 2}, {3, 2, 1}}},
                                       {{0, 4}, {{1, 1, 1}}},
                                       {{4, 3}, {}}})
    op.samples.push_back(moving(
        message(shape, " in ", padding.size(), " dimensions",
                padding.empty() ? "" : message(" by ", padding[0].before)),
        {any_values(shape)},
        [padding = padding, mode](const std::vector<Tensor>& in) { return std::vector{op::pad(in[0], padding, mode)}; },
        [padding = padding, mode](const std::vector<Array>& in) {
          Array out = in[0];
          for (const op::Padding& side : padding) {
            const int dim = static_cast<int>(side.dim < 0 ? side.dim + out.shape.rank() : side.dim);
            const std::int64_t size = out.shape[dim];
            Shape larger = out.shape;
            larger[dim] += side.before + side.after;
            out = picked(out, larger, [&](Shape at) {
              std::int64_t i = at[dim] - side.before;
              if (mode == op::PadMode::replicate) i = std::clamp<std::int64_t>(i, 0, size - 1);
              if (mode == op::PadMode::circular) i = (i + size) % size;
              if (mode == op::PadMode::reflect) i = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
              at[dim] = i;
              return at;
            });
          }
          return std::vector{out};
        }));
  op.refuses("less than nothing", Kind::shape, {"-1"}, [mode] { op::pad(ones({3}), {{0, -1, 0}}, mode); });
  op.refuses("a dimension outside", Kind::shape, {"1"}, [mode] { op::pad(ones({3}), {{1, 1, 0}}, mode); });
  op.refuses("around nothing", Kind::shape, {"[0]"}, [mode] { op::pad(ones({0}), {{0, 1, 0}}, mode); });
  if (mode != op::PadMode::replicate)
    op.refuses("more than there is", Kind::shape, {"4", "[3]"}, [mode] { op::pad(ones({3}), {{0, 0, 4}}, mode); });
  return op;
}

}  // namespace

std::vector<Operator> resizing_cases() {
  std::vector<Operator> all;
  all.push_back(interpolate());
  all.push_back(pad("pad/reflect", op::PadMode::reflect));
  all.push_back(pad("pad/replicate", op::PadMode::replicate));
  all.push_back(pad("pad/circular", op::PadMode::circular));
  return all;
}

}  // namespace tern::testing
