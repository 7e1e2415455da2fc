#include "tern/parallel/split.hpp"

#include "nn/layer.hpp"
#include "parallel/holdings.hpp"
#include "parallel/split_shards.hpp"
#include "parallel/streams.hpp"
#include "tensor/shard_streams.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/dot.hpp"

namespace tern::parallel {

namespace {

/// This rank's shard of a tensor of the whole layer, copied.
Tensor shard_of(const char* layer, const Group& group, const Tensor& whole, Layout layout, nn::Start start) {
  const int dim = layout == Layout::rows ? 0 : whole.rank() - 1;
  expects<ShapeError>(whole.size(dim) % group.size() == 0, layer, ": ", whole.size(dim),
                      layout == Layout::rows ? " outputs" : " inputs", " are not divided equally among ", group.size(),
                      " ranks; take a multiple of their number");
  if (start != nn::Start::none) return exchange(group, whole, Layout::whole, layout).clone();
  Shape shape = whole.shape();
  shape[dim] /= group.size();
  return Tensor(shape, whole.dtype());
}

void check_layouts(const char* layer, Layout input, Layout output) {
  for (const Layout layout : {input, output})
    expects(layout != Layout::copies && layout != Layout::partial, layer,
            ": inputs and outputs are whole, rows or features");
}

std::string words(const char* layer, const Group& group, std::int64_t in, std::int64_t out, const Tensor& bias) {
  return message(layer, '(', in, ", ", out, bias.defined() ? "" : ", no bias", ", of ", group.size(), " ranks)");
}

}  // namespace

SplitModule::SplitModule(const Group& group)
    : group_(on_devices(group)), holding_(std::make_shared<const Holding>(Holding{.group = group_, .words = group})) {}

nn::Parameter SplitModule::parameter(const std::string& name, Tensor tensor, Layout held) {
  if (held != Layout::whole) note_holding(tensor, holding_);
  return nn::Module::parameter(name, std::move(tensor));
}

// Each rank draws all initial values of the whole layer and keeps its own, so every generator advances as for the whole
// layer.

ColumnLinear::ColumnLinear(const Group& ranks, std::int64_t in, std::int64_t out, const ColumnLinearOptions& options,
                           Generator& generator)
    : SplitModule(ranks),
      input_(options.input),
      output_(options.output),
      weight_(parameter("weight",
                        shard_of("ColumnLinear", ranks,
                                 nn::start_weight("ColumnLinear", {out, in}, options.dtype, options.start, generator),
                                 Layout::rows, options.start),
                        Layout::rows)),
      bias_(parameter("bias",
                      !options.bias
                          ? Tensor()
                          : shard_of("ColumnLinear", ranks,
                                     nn::start_bias(Tensor({out, in}, options.dtype), options.start, generator),
                                     Layout::rows, options.start),
                      Layout::rows)) {
  check_layouts("ColumnLinear", input_, output_);
}

Tensor ColumnLinear::forward(const Tensor& x) const {
  const Tensor copy = exchange(group(), x, input_, Layout::copies);
  return exchange(group(), operators::linear(copy, weight_, bias_), Layout::features, output_);
}

std::string ColumnLinear::describe() const {
  return words("ColumnLinear", group(), weight_->size(1), weight_->size(0) * group().size(), bias_);
}

RowLinear::RowLinear(const Group& ranks, std::int64_t in, std::int64_t out, const RowLinearOptions& options,
                     Generator& generator)
    : SplitModule(ranks),
      input_(options.input),
      output_(options.output),
      weight_(parameter("weight",
                        shard_of("RowLinear", ranks,
                                 nn::start_weight("RowLinear", {out, in}, options.dtype, options.start, generator),
                                 Layout::features, options.start),
                        Layout::features)),
      bias_(parameter("bias", !options.bias
                                  ? Tensor()
                                  : nn::start_bias(Tensor({out, in}, options.dtype), options.start, generator))) {
  check_layouts("RowLinear", input_, output_);
}

Tensor RowLinear::forward(const Tensor& x) const {
  const Tensor terms = operators::linear(exchange(group(), x, input_, Layout::features), weight_);
  Tensor y = exchange(group(), terms, Layout::partial, output_);
  if (!bias_->defined()) return y;
  return y + (output_ == Layout::features ? exchange(group(), bias_, Layout::whole, Layout::features) : bias_);
}

std::string RowLinear::describe() const {
  return words("RowLinear", group(), weight_->size(1) * group().size(), weight_->size(0), bias_);
}

Tensor Dropout::forward(const Tensor& x) const {
  const ShardStreams apart(static_cast<std::uint64_t>(rank_) << rank_streams);
  return nn::Dropout::forward(x);
}

std::map<std::string, SplitShard> split_shards(const nn::Module& module) {
  std::map<std::string, SplitShard> shards;
  module.visit([&](const std::string& path, const nn::Module& below) {
    const auto* const split = dynamic_cast<const SplitModule*>(&below);
    if (split == nullptr || split->group().size() == 1) return;
    for (const auto& [name, tensor] : below.state())
      if (const Layout layout = split->layout(name); layout != Layout::whole) {
        note_holding(tensor, split->holding_);
        shards.emplace(message(path, path.empty() ? "" : ".", name), SplitShard{split->group(), layout});
      }
  });
  return shards;
}

nn::State whole_state(const nn::Module& module) {
  const NoGrad no_grad;
  nn::State state = module.state();
  for (const auto& [name, shard] : split_shards(module)) {
    Tensor& tensor = state.at(name);
    tensor = exchange(shard.group, tensor, shard.layout, Layout::whole);
  }
  return state;
}

void load_whole_state(nn::Module& module, const nn::State& state, const nn::LoadOptions& options) {
  const NoGrad no_grad;
  nn::State own = state;
  for (const auto& [name, shard] : split_shards(module)) {
    const auto found = own.find(name);
    if (found == own.end() || !found->second.defined() || found->second.rank() == 0) continue;
    Tensor& whole = found->second;
    // A tensor that cannot be divided has another shape than the module's, and load_state reports it.
    const std::int64_t size = whole.size(shard.layout == Layout::rows ? 0 : -1);
    if (size % shard.group.size() == 0) whole = exchange(shard.group, whole, Layout::whole, shard.layout);
  }
  module.load_state(own, options);
}

}  // namespace tern::parallel
