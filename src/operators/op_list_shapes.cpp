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
  append<"reshape">(ops, reshape, {"shape"});
  append<"slice">(ops, slice, {"dim", "begin", "end", "step"});
  append<"permute">(ops, permute, {"order"});
  append<"transpose">(ops, transpose, {"a", "b"});
  append<"expand">(ops, expand, {"shape"});
  append<"flip">(ops, flip, {"dims"});
  append<"copy">(ops, copy);
  append<"cast">(ops, cast, {"dtype"}, Mixed::keeps);
  append<"cat">(ops, cat, {"dim"});
  append<"stack">(ops, stack, {"dim"});
  append<"split">(ops, split, {"sizes", "dim"});
  append<"chunk">(ops, chunk, {"count", "dim"});
  append<"unbind">(ops, unbind, {"dim"});
  append<"pad">(ops, static_cast<Filled>(pad), {"padding", "value"});
  append<"pad_mode">(ops, static_cast<Repeated>(pad), {"padding", "mode"});
  append<"tril">(ops, tril, {"diagonal"});
  append<"triu">(ops, triu, {"diagonal"});
  append<"repeat">(ops, repeat, {"times"});
  append<"tile">(ops, tile, {"times"});
  append<"roll">(ops, roll, {"shifts", "dims"});
  append<"meshgrid">(ops, meshgrid, {"indexing"});
  append<"diag">(ops, diag, {"diagonal"});
  append<"flatten">(ops, flatten, {"begin", "end"});
  append<"squeeze">(ops, squeeze, {"dims"});
  append<"unfold">(ops, unfold, {"kernel", "options"});
  append<"fold">(ops, fold, {"output", "kernel", "options"});
  append<"pixel_shuffle">(ops, pixel_shuffle, {"factor"});
  append<"pixel_unshuffle">(ops, pixel_unshuffle, {"factor"});
  append<"depth_to_space">(ops, depth_to_space, {"block"});
  append<"space_to_depth">(ops, space_to_depth, {"block"});

  append<"embedding">(ops, embedding, {}, always<Effect::reads>);
  append<"one_hot">(ops, one_hot, {"classes", "dtype"}, always<Effect::reads>);
  append<"index_select">(ops, index_select, {"dim"}, always<Effect::reads>);
  append<"gather">(ops, gather, {"dim"}, always<Effect::reads>);
  append<"scatter">(ops, scatter, {"dim"}, always<Effect::reads>);
  append<"scatter_add">(ops, scatter_add, {"dim"}, always<Effect::reads>);
  append<"gather_nd">(ops, gather_nd, {"batch_dims"}, always<Effect::reads>);
  append<"scatter_nd">(ops, scatter_nd, {"join"}, always<Effect::reads>);
  append<"scatter_reduce">(ops, scatter_reduce, {"dim", "options"}, always<Effect::reads>);
  append<"compress">(ops, compress, {"dim"}, always<Effect::reads>);
  append<"unique">(ops, unique, {"options"}, always<Effect::reads>);
  append<"masked_select">(ops, masked_select, {}, always<Effect::reads>);
  append<"nonzero">(ops, nonzero, {}, always<Effect::reads>);
  append<"argsort">(ops, argsort, {"dim", "descending"});
  append<"sort">(ops, sort, {"dim", "descending"}, always<Effect::reads>);
  append<"topk">(ops, topk, {"k", "dim", "largest"}, always<Effect::reads>);

  append<"multinomial">(ops, multinomial, {"count", "replacement", "generator"}, always<Effect::changes>);
  append<"dropout">(ops, dropout, {"probability", "training", "generator"}, [](const Attributes& attributes) {
    return attributes.get<bool>() ? Effect::changes : Effect::none;
  });
}

}  // namespace tern::operators
