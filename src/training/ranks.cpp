#include "training/ranks.hpp"

#include <algorithm>

#include "parallel/holdings.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/tensor/create.hpp"

namespace tern::training {

namespace {

using parallel::Group;
using parallel::Layout;

void add(std::vector<Group>& groups, const Group& group) {
  const auto same = [&](const Group& known) { return &known.collective() == &group.collective(); };
  if (group.size() > 1 && std::ranges::none_of(groups, same)) groups.push_back(group);
}

/// This rank's shard of a whole tensor. A tensor that cannot be divided is returned as it is, and load_state reports
/// its shape.
Tensor cut(const Tensor& whole, const parallel::SplitShard& shard) {
  if (!whole.defined() || whole.rank() == 0) return whole;
  const std::int64_t size = whole.size(shard.layout == Layout::rows ? 0 : -1);
  return size % shard.group.size() == 0 ? exchange(shard.group, whole, Layout::whole, shard.layout) : whole;
}

}  // namespace

Ranks::Ranks(const nn::Module& net, const optim::Optimizer& optimizer, const Group& group)
    : first_(group.rank() == 0), shards_(parallel::split_shards(net)) {
  const nn::State state = net.state();
  for (const auto& [name, shard] : shards_) {
    const Tensor& tensor = state.at(name);
    by_storage_.emplace(tensor.shared_storage().get(), shard);
    add(model_, parallel::held_of(tensor).shard->words);
  }
  groups_ = model_;
  add(groups_, group);
  std::vector<Tensor> all = net.parameters();
  all.insert(all.end(), optimizer.parameters().begin(), optimizer.parameters().end());
  for (const Tensor& tensor : all)
    expects(parallel::held_of(tensor).stage == nullptr,
            "Trainer: the network is one stage of a parallel::Pipeline; train it in a loop of your own with "
            "Pipeline::backward, and save Pipeline::whole_state()");
}

bool Ranks::writes() const {
  return first_ && std::ranges::all_of(model_, [](const Group& group) { return group.rank() == 0; });
}

bool Ranks::any(const std::vector<Group>& groups, bool own) {
  for (const Group& group : groups) {
    const Tensor word = scalar(static_cast<std::int32_t>(own));
    group.all_reduce(word, parallel::Reduction::max);
    own = word.item<std::int32_t>() != 0;
  }
  return own;
}

void Ranks::check_same(const std::string& what, const std::string& text) const {
  for (const Group& group : groups_) group.check_same(what, text);
}

const parallel::SplitShard* Ranks::shard_of(const Tensor& parameter) const {
  if (!parameter.defined()) return nullptr;
  const auto found = by_storage_.find(parameter.shared_storage().get());
  return found == by_storage_.end() ? nullptr : &found->second;
}

nn::State Ranks::whole(nn::State state) const {
  const NoGrad no_grad;
  for (auto& [name, tensor] : state)
    if (const auto shard = shards_.find(name); shard != shards_.end())
      tensor = exchange(shard->second.group, tensor, shard->second.layout, Layout::whole);
  return state;
}

nn::State Ranks::own(nn::State state) const {
  const NoGrad no_grad;
  for (auto& [name, tensor] : state)
    if (const auto shard = shards_.find(name); shard != shards_.end()) tensor = cut(tensor, shard->second);
  return state;
}

nn::State Ranks::whole(const optim::Optimizer& optimizer) const {
  const NoGrad no_grad;
  nn::State state = optimizer.state();
  if (divided())
    for (auto& [name, tensor] : state)
      if (const auto* shard = shard_of(optimizer.owner_of(name)))
        tensor = exchange(shard->group, tensor, shard->layout, Layout::whole);
  return state;
}

nn::State Ranks::own(const optim::Optimizer& optimizer, nn::State state) const {
  const NoGrad no_grad;
  if (divided())
    for (auto& [name, tensor] : state)
      if (const auto* shard = shard_of(optimizer.owner_of(name))) tensor = cut(tensor, *shard);
  return state;
}

}  // namespace tern::training
