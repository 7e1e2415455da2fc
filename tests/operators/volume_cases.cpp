// Pools of volumes and rows, and pools by a power, over each window by its definition.

#include <algorithm>
#include <array>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/sequences.hpp"
#include "tern/operators/volumes.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Windows of three dimensions; those of fewer have 1 elsewhere.
struct Window {
  const char* name;
  Shape x;  // [N, C, D, H, W]
  Triple kernel, stride = 1, padding = 0, end = 0, dilation = 1;
  bool ceil_mode = false;
};

std::array<std::int64_t, 3> sizes(Triple of) { return {of.d, of.h, of.w}; }

std::int64_t count_of(const Window& window, std::size_t d) {
  const std::int64_t size = window.x[static_cast<int>(d) + 2], stride = sizes(window.stride)[d],
                     before = sizes(window.padding)[d];
  const std::int64_t room =
      size + before + sizes(window.end)[d] - sizes(window.dilation)[d] * (sizes(window.kernel)[d] - 1) - 1;
  std::int64_t count = (room + (window.ceil_mode ? stride - 1 : 0)) / stride + 1;
  while (window.ceil_mode && (count - 1) * stride >= size + before) --count;
  return count;
}

Shape output_of(const Window& window) {
  return {window.x[0], window.x[1], count_of(window, 0), count_of(window, 1), count_of(window, 2)};
}

// Calls body(place, inside x, inside x and its padding) for every position of a window.
template <class Body>
void for_each_tap(const Window& window, const Shape& out, Body body) {
  for_each_position({window.kernel.d, window.kernel.h, window.kernel.w}, [&](const Shape& tap) {
    Shape at{out[0], out[1]};
    bool inside = true, padded = true;
    for (int dim = 0; dim < 3; ++dim) {
      const auto d = static_cast<std::size_t>(dim);
      const std::int64_t place =
          out[dim + 2] * sizes(window.stride)[d] - sizes(window.padding)[d] + tap[dim] * sizes(window.dilation)[d];
      inside = inside && place >= 0 && place < window.x[dim + 2];
      padded = padded && place < window.x[dim + 2] + sizes(window.end)[d];
      at.push_back(place);
    }
    body(at, inside, padded);
  });
}

std::vector<Array> largest(const Window& window, const Array& x) {
  Array y(output_of(window)), index(output_of(window), 0, DType::int64);
  for_each_position(y.shape, [&](const Shape& out) {
    double best = -infinity;
    bool found = false;
    for_each_tap(window, out, [&](const Shape& at, bool inside, bool) {
      if (!inside || (found && !(x.at(at) > best))) return;
      found = true;
      best = x.at(at);
      index.at(out) = static_cast<double>((at[2] * window.x[3] + at[3]) * window.x[4] + at[4]);
    });
    y.at(out) = best;
  });
  return {y, index};
}

Array average(const Window& window, const Array& x, bool count_padding) {
  Array y(output_of(window));
  for_each_position(y.shape, [&](const Shape& out) {
    double sum = 0, count = 0;
    for_each_tap(window, out, [&](const Shape& at, bool inside, bool padded) {
      sum += inside ? x.at(at) : 0;
      count += count_padding ? padded : inside;
    });
    y.at(out) = sum / count;
  });
  return y;
}

Array power(const Window& window, const Array& x, double order) {
  Array y(output_of(window));
  for_each_position(y.shape, [&](const Shape& out) {
    double sum = 0;
    for_each_tap(window, out,
                 [&](const Shape& at, bool inside, bool) { sum += inside ? std::pow(std::abs(x.at(at)), order) : 0; });
    y.at(out) = std::pow(sum, 1 / order);
  });
  return y;
}

const std::vector<Window>& volumes() {
  static const std::vector<Window> all{{"one", {1, 1, 1, 1, 1}, 1},
                                       {"2x2x2", {2, 3, 4, 6, 8}, 2, 2},
                                       {"with a rest", {1, 2, 5, 7, 9}, 2, 2},
                                       {"padded", {2, 2, 5, 6, 5}, 3, 2, 1, 1},
                                       {"unlike sides", {1, 2, 6, 5, 8}, {1, 3, 2}, {2, 1, 3}, {0, 1, 1}, {0, 1, 1}},
                                       {"padded unequally", {1, 2, 5, 4, 6}, 3, 2, {1, 0, 1}, {0, 1, 1}},
                                       {"ceil", {1, 2, 6, 7, 8}, 3, 2, 0, 0, 1, true},
                                       {"ceil, padded", {1, 2, 6, 5, 8}, 3, 2, 1, 1, 1, true},
                                       {"no volumes", {0, 2, 4, 4, 4}, 2, 2}};
  return all;
}

const std::vector<Window>& rows() {
  static const std::vector<Window> all{{"one", {1, 1, 1, 1, 1}, 1},
                                       {"pairs", {2, 3, 1, 1, 9}, {1, 1, 2}, {1, 1, 2}},
                                       {"padded", {2, 2, 1, 1, 12}, {1, 1, 5}, {1, 1, 3}, {0, 0, 2}, {0, 0, 2}},
                                       {"padded at the end", {1, 2, 1, 1, 8}, {1, 1, 3}, {1, 1, 2}, 0, {0, 0, 1}},
                                       {"ceil", {1, 2, 1, 1, 10}, {1, 1, 3}, {1, 1, 3}, 0, 0, 1, true}};
  return all;
}

Window dilated(Window window, Triple dilation) {
  window.name = "dilated";
  window.dilation = dilation;
  return window;
}

Array shaped(const Array& from, const Shape& shape) {
  Array result = from;
  result.shape = shape;
  return result;
}
Shape row_of(const Shape& s) { return {s[0], s[1], s[4]}; }
Shape plane_of(const Shape& s) { return {s[0], s[1], s[3], s[4]}; }

using Convert = Shape (*)(const Shape&);
Shape itself(const Shape& shape) { return shape; }

Sample sample(const Window& window, Convert convert, bool ties, Call call,
              const std::function<std::vector<Array>(const Array&)>& reference, bool smooth = true) {
  const double taps = static_cast<double>(window.kernel.d * window.kernel.h * window.kernel.w);
  return {.name = window.name,
          .arguments = {ties ? distinct(convert(window.x)) : uniform(convert(window.x), 0.25, 1.25)},
          .call = std::move(call),
          .reference =
              [window, convert, reference](const std::vector<Array>& in) {
                std::vector<Array> results = reference(shaped(in[0], window.x));
                for (Array& each : results) each.shape = convert(each.shape);
                return results;
              },
          .gradient_outputs = 1,
          .smooth = smooth,
          .terms = taps,
          .gradient_terms = taps};
}

Operator max_pool3d(bool with_indices) {
  Operator op{.name = with_indices ? "max_pool3d_with_indices" : "max_pool3d"};
  std::vector<Window> windows = volumes();
  windows.push_back(dilated({"", {1, 2, 7, 8, 9}, 3, {1, 2, 2}}, {3, 2, 1}));
  for (const Window& w : windows)
    op.samples.push_back(sample(
        w, itself, true,
        [w, with_indices](const std::vector<Tensor>& in) {
          const op::MaxPool3dOptions options{.stride = w.stride,
                                             .padding = w.padding,
                                             .dilation = w.dilation,
                                             .end_padding = w.end,
                                             .ceil_mode = w.ceil_mode};
          if (!with_indices) return std::vector{op::max_pool3d(in[0], w.kernel, options)};
          const op::Pooled both = op::max_pool3d_with_indices(in[0], w.kernel, options);
          return std::vector{both.values, both.indices};
        },
        [w, with_indices](const Array& x) {
          std::vector<Array> both = largest(w, x);
          if (!with_indices) both.pop_back();
          return both;
        }));
  const auto call = [with_indices](const Tensor& x, Triple kernel, const op::MaxPool3dOptions& options) {
    with_indices ? op::max_pool3d_with_indices(x, kernel, options).values : op::max_pool3d(x, kernel, options);
  };
  op.refuses(
      "two dimensions", Kind::shape, {"[4,4]"},
      [call] {
        call(ones({4, 4}), 2, {});
      },
      "max_pool3d");
  op.refuses(
      "a large kernel", Kind::shape, {"5"},
      [call] {
        call(ones({1, 1, 4, 4, 4}), 5, {});
      },
      "max_pool2d");
  op.refuses(
      "integers", Kind::dtype, {"int32"},
      [call] {
        call(ones({1, 1, 4, 4, 4}, DType::int32), 2, {});
      },
      "max_pool3d");
  return op;
}

Operator avg_pool3d() {
  Operator op{.name = "avg_pool3d"};
  for (const bool count_padding : {true, false})
    for (const Window& w : volumes()) {
      op.samples.push_back(sample(
          w, itself, false,
          [w, count_padding](const std::vector<Tensor>& in) {
            return std::vector{op::avg_pool3d(in[0], w.kernel,
                                              {.stride = w.stride,
                                               .padding = w.padding,
                                               .end_padding = w.end,
                                               .ceil_mode = w.ceil_mode,
                                               .count_include_pad = count_padding})};
          },
          [w, count_padding](const Array& x) { return std::vector{average(w, x, count_padding)}; }));
      if (!count_padding) op.samples.back().name += " without padding";
    }
  op.refuses("two dimensions", Kind::shape, {"[4,4]"}, [] { op::avg_pool3d(ones({4, 4}), 2); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::avg_pool3d(ones({1, 1, 4, 4, 4}, DType::int32), 2); });
  return op;
}

// Means over [floor(i size / count), ceil((i + 1) size / count)) along each dimension.
Array adaptive(const Array& x, Triple output) {
  Array y({x.shape[0], x.shape[1], output.d, output.h, output.w});
  for_each_position(y.shape, [&](const Shape& out) {
    Shape begin, extent;
    for (int dim = 2; dim < 5; ++dim) {
      const std::int64_t from = out[dim] * x.shape[dim] / y.shape[dim];
      begin.push_back(from);
      extent.push_back(((out[dim] + 1) * x.shape[dim] + y.shape[dim] - 1) / y.shape[dim] - from);
    }
    for_each_position(extent, [&](const Shape& at) {
      y.at(out) += x.at({out[0], out[1], begin[0] + at[0], begin[1] + at[1], begin[2] + at[2]}) /
                   static_cast<double>(element_count(extent));
    });
  });
  return y;
}

Operator adaptive_avg_pool(bool of_rows) {
  Operator op{.name = of_rows ? "adaptive_avg_pool1d" : "adaptive_avg_pool3d"};
  struct Use {
    Shape x;
    Triple output;
  };
  const std::vector<Use> uses =
      of_rows ? std::vector<Use>{{{2, 3, 1, 1, 7}, {1, 1, 3}}, {{1, 2, 1, 1, 4}, {1, 1, 6}}, {{1, 1, 1, 1, 9}, 1}}
              : std::vector<Use>{{{2, 3, 4, 5, 6}, 1}, {{1, 2, 5, 6, 7}, {2, 3, 4}}, {{1, 2, 3, 2, 4}, {3, 4, 2}}};
  for (const Use& use : uses)
    op.samples.push_back(sample(
        {"", use.x, {use.x[2], use.x[3], use.x[4]}}, of_rows ? row_of : itself, false,
        [use, of_rows](const std::vector<Tensor>& in) {
          return std::vector{of_rows ? op::adaptive_avg_pool1d(in[0], use.output.w)
                                     : op::adaptive_avg_pool3d(in[0], use.output)};
        },
        [use](const Array& x) { return std::vector{adaptive(x, use.output)}; }));
  for (std::size_t i = 0; i < uses.size(); ++i) op.samples[i].name = message(uses[i].x, " to ", uses[i].output.w);
  op.refuses("two dimensions", Kind::shape, {"[4,4,4,4,4,4]"}, [of_rows] {
    const Tensor x = ones({4, 4, 4, 4, 4, 4});
    of_rows ? op::adaptive_avg_pool1d(x, 2) : op::adaptive_avg_pool3d(x, 2);
  });
  return op;
}

Operator pool1d(const char* name, bool averages, bool with_indices) {
  Operator op{.name = name};
  std::vector<Window> windows = rows();
  if (!averages) windows.push_back(dilated({"", {2, 2, 1, 1, 11}, {1, 1, 3}, {1, 1, 2}}, {1, 1, 3}));
  for (const Window& w : windows)
    op.samples.push_back(sample(
        w, row_of, !averages,
        [w, averages, with_indices](const std::vector<Tensor>& in) {
          const op::Pool1dOptions options{.stride = w.stride.w,
                                          .padding = w.padding.w,
                                          .end_padding = w.end.w,
                                          .dilation = w.dilation.w,
                                          .ceil_mode = w.ceil_mode};
          if (averages) return std::vector{op::avg_pool1d(in[0], w.kernel.w, options)};
          if (!with_indices) return std::vector{op::max_pool1d(in[0], w.kernel.w, options)};
          const op::Pooled both = op::max_pool1d_with_indices(in[0], w.kernel.w, options);
          return std::vector{both.values, both.indices};
        },
        [w, averages, with_indices](const Array& x) {
          if (averages) return std::vector{average(w, x, true)};
          std::vector<Array> both = largest(w, x);
          if (!with_indices) both.pop_back();
          return both;
        }));
  op.refuses("four dimensions", Kind::shape, {"[1,2,3,4]"}, [averages, with_indices] {
    const Tensor x = ones({1, 2, 3, 4});
    averages ? op::avg_pool1d(x, 2) : with_indices ? op::max_pool1d_with_indices(x, 2).values : op::max_pool1d(x, 2);
  });
  if (averages)
    op.refuses("a dilation", Kind::shape, {"2"}, [] { op::avg_pool1d(ones({1, 1, 5}), 2, {.dilation = 2}); });
  return op;
}

Operator lp_pool2d() {
  Operator op{.name = "lp_pool2d", .ulps = 12};
  const std::vector<Window> windows{{"pairs", {2, 3, 1, 6, 8}, {1, 2, 2}, {1, 2, 2}},
                                    {"padded", {1, 2, 1, 7, 6}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {0, 1, 1}},
                                    {"unequally", {1, 2, 1, 6, 6}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {0, 0, 1}},
                                    {"ceil", {1, 2, 1, 8, 7}, {1, 3, 3}, {1, 2, 2}, 0, 0, 1, true},
                                    dilated({"", {1, 2, 1, 8, 9}, {1, 2, 3}, {1, 1, 2}}, {1, 3, 2})};
  for (const double order : {1.0, 2.0, 3.0})
    for (const Window& w : windows) {
      op.samples.push_back(sample(
          w, plane_of, false,
          [w, order](const std::vector<Tensor>& in) {
            return std::vector{op::lp_pool2d(in[0], order, {w.kernel.h, w.kernel.w},
                                             {.stride = Pair(w.stride.h, w.stride.w),
                                              .padding = {w.padding.h, w.padding.w},
                                              .dilation = {w.dilation.h, w.dilation.w},
                                              .end_padding = Pair(w.end.h, w.end.w),
                                              .ceil_mode = w.ceil_mode})};
          },
          [w, order](const Array& x) { return std::vector{power(w, x, order)}; }));
      op.samples.back().name += message(" of order ", order);
    }
  Sample zeros = op.samples[5];
  zeros.name = "a window of zeros";
  zeros.arguments[0] = listed(zeros.arguments[0].shape, {0, 0});
  zeros.smooth = false;
  op.samples.push_back(zeros);
  op.refuses("order 0", Kind::numeric, {"order 0"}, [] { op::lp_pool2d(ones({1, 1, 4, 4}), 0, 2); });
  op.refuses("two dimensions", Kind::shape, {"[4,4]"}, [] { op::lp_pool2d(ones({4, 4}), 2, 2); });
  return op;
}

}  // namespace

std::vector<Operator> volume_cases() {
  std::vector<Operator> all;
  all.push_back(max_pool3d(false));
  all.push_back(max_pool3d(true));
  all.push_back(avg_pool3d());
  all.push_back(adaptive_avg_pool(false));
  all.push_back(adaptive_avg_pool(true));
  all.push_back(pool1d("max_pool1d", false, false));
  all.push_back(pool1d("max_pool1d_with_indices", false, true));
  all.push_back(pool1d("avg_pool1d", true, false));
  all.push_back(lp_pool2d());
  return all;
}

}  // namespace tern::testing
