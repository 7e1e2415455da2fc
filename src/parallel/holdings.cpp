#include "parallel/holdings.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "autograd/place.hpp"
#include "optim/sum_of_squares.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

namespace {

/// Keyed by storage, and removed with it.
struct Entry {
  std::weak_ptr<Storage> storage;
  std::weak_ptr<const Holding> shard, stage;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const Storage*, Entry> entries;
  std::size_t swept = 64;  // number of entries at which expired ones are removed next

  void sweep() {
    if (entries.size() < swept) return;
    std::erase_if(entries, [](const auto& entry) { return entry.second.storage.expired(); });
    swept = std::max<std::size_t>(64, 2 * entries.size());
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void note_holding(const Tensor& tensor, const std::shared_ptr<const Holding>& holding) {
  if (!tensor.defined() || holding->group.size() == 1) return;
  optim::sum_over_ranks = [](const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares) {
    return sum_over_parameters(parameters, squares);
  };
  const std::shared_ptr<Storage> storage = tensor.shared_storage();
  autograd::place_taken = [](const Tensor& of, const Tensor& by) {
    const Held held = held_of(of);
    if (held.shard != nullptr) note_holding(by, held.shard);
    if (held.stage != nullptr) note_holding(by, held.stage);
  };
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.sweep();
  Entry& entry = all.entries[storage.get()];
  if (entry.storage.lock() != storage) entry = {.storage = storage, .shard = {}, .stage = {}};
  (holding->stages ? entry.stage : entry.shard) = holding;
}

Held held_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const std::shared_ptr<Storage> storage = tensor.shared_storage();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(storage.get());
  if (found == all.entries.end() || found->second.storage.lock() != storage) return {};
  return {.shard = found->second.shard.lock(), .stage = found->second.stage.lock()};
}

Tensor sum_over_parameters(const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares,
                           std::shared_ptr<const Holding> stages) {
  // The shards of each group separately, in order of first occurrence, which is the same in all ranks.
  std::vector<std::pair<Group, Tensor>> shards;
  Tensor sum;
  const auto add = [](Tensor& to, const Tensor& square) {
    if (square.defined()) to = to.defined() ? to + square : square;
  };
  std::vector<const Tensor*> whole;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Held held = held_of(parameters[i]);
    if (stages == nullptr) stages = held.stage;
    if (held.shard == nullptr) {
      whole.push_back(&squares[i]);
      continue;
    }
    const auto same = [&](const auto& known) { return &known.first.collective() == &held.shard->group.collective(); };
    auto known = std::ranges::find_if(shards, same);
    if (known == shards.end()) known = shards.insert(known, {held.shard->group, zeros({1}, DType::float64)});
    add(known->second, squares[i]);
  }
  for (const auto& [group, shard] : shards) group.all_reduce(shard);
  // A stage continues from the sum of the stages before it, so terms are added in the order of the whole net.
  const bool first = stages == nullptr || stages->group.rank() == 0;
  if (!first) {
    sum = Tensor({1}, DType::float64);
    stages->group.receive(sum, stages->group.rank() - 1);
  }
  for (const Tensor* square : whole) add(sum, *square);
  for (const auto& [group, shard] : shards) add(sum, shard);
  if (stages == nullptr) return sum;
  if (!sum.defined()) sum = zeros({1}, DType::float64);
  const int next = stages->group.rank() + 1, last = stages->group.size() - 1;
  if (next <= last) stages->group.send(sum, next);
  stages->group.broadcast(sum, last);
  return sum;
}

}  // namespace tern::parallel
