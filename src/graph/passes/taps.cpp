// Rows and columns of a kernel that reach no element of the image at any position add zeros. DeepLab's dilations of 24
// and 36 over 14 x 14 positions are such: of 3 x 3 taps one is left.

#include "graph/passes/constants.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/shape.hpp"

namespace tern::graph {

namespace {

/// One dimension of a convolution, and the taps [begin, end) that reach the image.
struct Along {
  std::int64_t image, taps, stride, dilation, padding, end_padding;
  std::int64_t begin = 0, end = 0;

  std::int64_t positions() const { return (image + padding + end_padding - dilation * (taps - 1) - 1) / stride + 1; }
  void find() {
    const std::int64_t last = (positions() - 1) * stride - padding;
    end = taps;
    while (begin < taps && last + begin * dilation < 0) ++begin;
    while (end > begin && (end - 1) * dilation - padding >= image) --end;
  }
  /// The same with those taps alone; false where the paddings would be negative.
  bool cut() {
    const std::int64_t count = positions();
    padding -= begin * dilation;
    taps = end - begin;
    end_padding = (count - 1) * stride + 1 + dilation * (taps - 1) - image - padding;
    if (end_padding < 0 && end_padding > -stride) end_padding = 0;  // the last rows were not reached before either
    if (taps == 1) dilation = 1;
    return taps > 0 && padding >= 0 && end_padding >= 0;
  }
};

bool trim(Structure& structure, Node& node) {
  const auto& options = node.attributes.get<operators::Conv2dOptions>();
  const Value &x = structure.values[node.inputs[0]], &weight = structure.values[node.inputs[1]];
  if (!node.by_batch.empty() || options.same_padding || weight.kind != Kind::constant || x.shape.size() != 4)
    return false;
  if (x.shape[2].each != 0 || x.shape[3].each != 0) return false;
  const Pair end = options.end_padding.value_or(options.padding);
  Along rows{x.shape[2].fixed, weight.tensor.size(2), options.stride.h, options.dilation.h, options.padding.h, end.h};
  Along columns{x.shape[3].fixed,   weight.tensor.size(3), options.stride.w,
                options.dilation.w, options.padding.w,     end.w};
  rows.find();
  columns.find();
  if (rows.end - rows.begin == rows.taps && columns.end - columns.begin == columns.taps) return false;
  const Tensor kept =
      operators::slice(operators::slice(weight.tensor, 2, rows.begin, rows.end), 3, columns.begin, columns.end)
          .contiguous();
  if (!rows.cut() || !columns.cut()) return false;
  operators::Conv2dOptions changed = options;
  changed.padding = {rows.padding, columns.padding};
  changed.dilation = {rows.dilation, columns.dilation};
  changed.end_padding.reset();
  const Pair behind{rows.end_padding, columns.end_padding};
  if (behind.h != changed.padding.h || behind.w != changed.padding.w) changed.end_padding = behind;
  node.attributes = node.attributes.with(changed);
  node.inputs[1] = add_constant(structure, node, "weight", kept);
  return true;
}

}  // namespace

void trim_taps(Structure& structure) {
  const NoGrad no_grad;
  bool changes = false;
  for (Node& node : structure.nodes)
    if (node.op->name() == "conv2d" || node.op->name() == "conv2d_add") changes |= trim(structure, node);
  if (changes) remove_dead(structure);
}

}  // namespace tern::graph
