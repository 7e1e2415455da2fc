#include "operators/op_function.hpp"
#include "operators/op_list.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/patches.hpp"
#include "tern/operators/scattering.hpp"

namespace tern::operators {

namespace {

using Filled = Tensor (*)(const Tensor&, const std::vector<Padding>&, Number);
using Repeated = Tensor (*)(const Tensor&, const std::vector<Padding>&, PadMode);

}  // namespace

void append_shapes(OpList& ops) {
  ops.push_back(make_op("reshape", reshape, {"shape"}));
  ops.push_back(make_op("slice", slice, {"dim", "begin", "end", "step"}));
  ops.push_back(make_op("permute", permute, {"order"}));
  ops.push_back(make_op("transpose", transpose, {"a", "b"}));
  ops.push_back(make_op("expand", expand, {"shape"}));
  ops.push_back(make_op("flip", flip, {"dims"}));
  ops.push_back(make_op("copy", copy));
  ops.push_back(make_op("cast", cast, {"dtype"}, Mixed::keeps));
  ops.push_back(make_op("cat", cat, {"dim"}));
  ops.push_back(make_op("stack", stack, {"dim"}));
  ops.push_back(make_op("split", split, {"sizes", "dim"}));
  ops.push_back(make_op("chunk", chunk, {"count", "dim"}));
  ops.push_back(make_op("unbind", unbind, {"dim"}));
  ops.push_back(make_op("pad", static_cast<Filled>(pad), {"padding", "value"}));
  ops.push_back(make_op("pad_mode", static_cast<Repeated>(pad), {"padding", "mode"}));
  ops.push_back(make_op("tril", tril, {"diagonal"}));
  ops.push_back(make_op("triu", triu, {"diagonal"}));
  ops.push_back(make_op("repeat", repeat, {"times"}));
  ops.push_back(make_op("tile", tile, {"times"}));
  ops.push_back(make_op("roll", roll, {"shifts", "dims"}));
  ops.push_back(make_op("meshgrid", meshgrid, {"indexing"}));
  ops.push_back(make_op("diag", diag, {"diagonal"}));
  ops.push_back(make_op("flatten", flatten, {"begin", "end"}));
  ops.push_back(make_op("squeeze", squeeze, {"dims"}));
  ops.push_back(make_op("unfold", unfold, {"kernel", "options"}));
  ops.push_back(make_op("fold", fold, {"output", "kernel", "options"}));
  ops.push_back(make_op("pixel_shuffle", pixel_shuffle, {"factor"}));
  ops.push_back(make_op("pixel_unshuffle", pixel_unshuffle, {"factor"}));
  ops.push_back(make_op("depth_to_space", depth_to_space, {"block"}));
  ops.push_back(make_op("space_to_depth", space_to_depth, {"block"}));

  ops.push_back(make_op("embedding", embedding, {}, always<Effect::reads>));
  ops.push_back(make_op("one_hot", one_hot, {"classes", "dtype"}, always<Effect::reads>));
  ops.push_back(make_op("index_select", index_select, {"dim"}, always<Effect::reads>));
  ops.push_back(make_op("gather", gather, {"dim"}, always<Effect::reads>));
  ops.push_back(make_op("scatter", scatter, {"dim"}, always<Effect::reads>));
  ops.push_back(make_op("scatter_add", scatter_add, {"dim"}, always<Effect::reads>));
  ops.push_back(make_op("gather_nd", gather_nd, {"batch_dims"}, always<Effect::reads>));
  ops.push_back(make_op("scatter_nd", scatter_nd, {"join"}, always<Effect::reads>));
  ops.push_back(make_op("scatter_reduce", scatter_reduce, {"dim", "options"}, always<Effect::reads>));
  ops.push_back(make_op("compress", compress, {"dim"}, always<Effect::reads>));
  ops.push_back(make_op("unique", unique, {"options"}, always<Effect::reads>));
  ops.push_back(make_op("masked_select", masked_select, {}, always<Effect::reads>));
  ops.push_back(make_op("nonzero", nonzero, {}, always<Effect::reads>));
  ops.push_back(make_op("argsort", argsort, {"dim", "descending"}));
  ops.push_back(make_op("sort", sort, {"dim", "descending"}, always<Effect::reads>));
  ops.push_back(make_op("topk", topk, {"k", "dim", "largest"}, always<Effect::reads>));

  ops.push_back(make_op("multinomial", multinomial, {"count", "replacement", "generator"}, always<Effect::changes>));
  ops.push_back(make_op("dropout", dropout, {"probability", "training", "generator"}, [](const Attributes& attributes) {
    return attributes.get<bool>() ? Effect::changes : Effect::none;
  }));
}

}  // namespace tern::operators
