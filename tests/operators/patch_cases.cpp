// Windows as columns and back, and blocks of pixels as channels and back.

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/patches.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Use {
  Shape x;  // the image
  Pair kernel;
  op::UnfoldOptions options = {};

  std::int64_t count(int dim) const {
    const bool high = dim == 2;
    const auto side = [&](Pair pair) { return high ? pair.h : pair.w; };
    return (x[dim] + 2 * side(options.padding) - side(options.dilation) * (side(kernel) - 1) - 1) /
               side(options.stride) +
           1;
  }
  Shape columns() const { return {x[0], x[1] * kernel.h * kernel.w, count(2) * count(3)}; }
  // The pixel of an element of the columns; may be outside.
  Shape pixel(const Shape& at) const {
    const std::int64_t tap = at[1] % (kernel.h * kernel.w), window = at[2];
    return {at[0], at[1] / (kernel.h * kernel.w),
            window / count(3) * options.stride.h - options.padding.h + tap / kernel.w * options.dilation.h,
            window % count(3) * options.stride.w - options.padding.w + tap % kernel.w * options.dilation.w};
  }
  bool inside(const Shape& pixel) const { return pixel[2] >= 0 && pixel[2] < x[2] && pixel[3] >= 0 && pixel[3] < x[3]; }
};

const std::vector<Use>& uses() {
  static const std::vector<Use> all{{{1, 1, 1, 1}, 1},
                                    {{2, 3, 5, 6}, 3},
                                    {{2, 2, 4, 6}, 2, {.stride = 2}},
                                    {{1, 2, 5, 7}, {3, 2}, {.padding = {1, 0}, .stride = {2, 3}}},
                                    {{1, 2, 7, 8}, {2, 3}, {.dilation = {3, 2}, .padding = 1, .stride = {1, 2}}},
                                    {{0, 2, 4, 4}, 2},
                                    {{1, 1, 6, 6}, 2, {.stride = 4}}};
  return all;
}

Operator unfold() {
  Operator op = movement("unfold");
  for (const Use& use : uses())
    op.samples.push_back(moving(
        message(use.x, " in ", use.columns()), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return std::vector{op::unfold(in[0], use.kernel, use.options)}; },
        [use](const std::vector<Array>& in) {
          Array out(use.columns());
          for_each_position(out.shape, [&](const Shape& at) {
            const Shape pixel = use.pixel(at);
            out.at(at) = use.inside(pixel) ? in[0].at(pixel) : 0;
          });
          return std::vector{out};
        }));
  op.refuses("two dimensions", Kind::shape, {"[4,4]"}, [] { op::unfold(ones({4, 4}), 2); });
  op.refuses("a large kernel", Kind::shape, {"5"}, [] { op::unfold(ones({1, 1, 4, 4}), 5); });
  return op;
}

Operator fold() {
  Operator op{.name = "fold"};
  for (const Use& use : uses())
    op.samples.push_back({.name = message(use.columns(), " to ", use.x),
                          .arguments = {uniform(use.columns())},
                          .call =
                              [use](const std::vector<Tensor>& in) {
                                return std::vector{op::fold(in[0], {use.x[2], use.x[3]}, use.kernel, use.options)};
                              },
                          .reference =
                              [use](const std::vector<Array>& in) {
                                Array out(use.x);
                                for_each_position(in[0].shape, [&](const Shape& at) {
                                  const Shape pixel = use.pixel(at);
                                  if (use.inside(pixel)) out.at(pixel) += in[0].at(at);
                                });
                                return std::vector{out};
                              },
                          .terms = static_cast<double>(use.kernel.h * use.kernel.w)});
  op.refuses("another number of windows", Kind::shape, {"[1,4,8]", "9"}, [] { op::fold(ones({1, 4, 8}), 4, 2); });
  op.refuses("another number of taps", Kind::shape, {"[1,5,9]", "4"}, [] { op::fold(ones({1, 5, 9}), 4, 2); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::fold(ones({1, 4, 9}, DType::int32), 4, 2); });
  return op;
}

// The channel of the small image and the pixel of its block, for a pixel of the large image [.., C, H, W].
Shape in_channels(const Shape& at, std::int64_t block, std::int64_t channels, bool outside) {
  const int rank = at.rank();
  const std::int64_t c = at[rank - 3], place = at[rank - 2] % block * block + at[rank - 1] % block;
  Shape result(at.begin(), at.end() - 3);
  result.push_back(outside ? c * block * block + place : place * channels + c);
  result.push_back(at[rank - 2] / block);
  result.push_back(at[rank - 1] / block);
  return result;
}

Operator blocks(const char* name, Tensor (*call)(const Tensor&, std::int64_t), bool outside, bool back) {
  Operator op = movement(name);
  struct Sides {
    Shape large;
    std::int64_t block;
  };
  std::vector<Sides> all{{{1, 1, 2, 2}, 2}, {{2, 3, 4, 6}, 2}, {{1, 2, 9, 6}, 3}, {{2, 3, 4, 5}, 1}, {{0, 1, 2, 2}, 2}};
  all.push_back({{3, 4, 2}, 2});
  all.push_back({{2, 2, 3, 4, 2}, 2});
  for (const auto& [large, block] : all) {
    const int rank = large.rank();
    const std::int64_t channels = large[rank - 3];
    Shape small = large;
    small[rank - 3] *= block * block;
    small[rank - 2] /= block;
    small[rank - 1] /= block;
    op.samples.push_back(moving(
        message(large, " by ", block), {any_values(back ? large : small)},
        [call, block = block](const std::vector<Tensor>& in) { return std::vector{call(in[0], block)}; },
        [=, large = large, block = block](const std::vector<Array>& in) {
          Array out(back ? small : large);
          for_each_position(large, [&](const Shape& at) {
            const Shape channel = in_channels(at, block, channels, outside);
            if (back)
              out.at(channel) = in[0].at(at);
            else
              out.at(at) = in[0].at(channel);
          });
          return std::vector{out};
        }));
  }
  op.refuses("no multiple", Kind::shape, {"[1,3,3,3]", "multiple"}, [call] { call(ones({1, 3, 3, 3}), 2); });
  op.refuses("one dimension", Kind::shape, {"[4]"}, [call] { call(ones({4}), 2); });
  op.refuses("a block of 0", Kind::shape, {"0"}, [call] { call(ones({1, 4, 4, 4}), 0); });
  return op;
}

}  // namespace

std::vector<Operator> patch_cases() {
  return {unfold(),
          fold(),
          blocks("pixel_shuffle", op::pixel_shuffle, true, false),
          blocks("pixel_unshuffle", op::pixel_unshuffle, true, true),
          blocks("depth_to_space", op::depth_to_space, false, false),
          blocks("space_to_depth", op::space_to_depth, false, true)};
}

}  // namespace tern::testing
