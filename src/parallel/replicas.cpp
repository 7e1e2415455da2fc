#include "parallel/replicas.hpp"

#include <set>
#include <sstream>
#include <string>

#include "tern/core/error.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

void check_same(const Group& group, const std::vector<nn::NamedTensor>& tensors, const SplitShards& shards) {
  std::vector<std::string> own;
  own.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto shard = shards.find(name);
    const std::string split = shard == shards.end() ? "" : message(", a shard of ", shard->second.group.size());
    own.push_back(
        message(name, ' ', tensor.dtype(), ' ', tensor.shape(), split, tensor.requires_grad() ? " to train" : ""));
  }
  std::string all;
  for (const std::string& line : own) all += line + '\n';
  std::istringstream first(group.broadcast(all));
  std::size_t i = 0;
  for (std::string line; std::getline(first, line); ++i)
    expects<ParallelError>(i < own.size() && own[i] == line, "DataParallel: rank 0 has ", line, ", rank ", group.rank(),
                           " has ", i < own.size() ? own[i] : "no more");
  expects<ParallelError>(i == own.size(), "DataParallel: rank ", group.rank(), " has ", i < own.size() ? own[i] : "",
                         ", rank 0 no more");
}

std::vector<char> held_apart(const Group& group, const std::vector<nn::NamedTensor>& tensors,
                             const SplitShards& shards) {
  std::vector<char> apart(tensors.size());
  if (shards.empty()) return apart;
  std::vector<std::int64_t> own;
  for (const auto& [name, tensor] : tensors) {
    const auto shard = shards.find(name);
    own.push_back(shard == shards.end() ? -1 : shard->second.group.rank());
  }
  const auto count = static_cast<std::int64_t>(own.size());
  const std::vector<std::int64_t> all = group.all_gather(tensor(own, {count})).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::set<std::int64_t> different;
    for (std::size_t place = i; place < all.size(); place += own.size()) different.insert(all[place]);
    const auto ranks = static_cast<std::size_t>(group.size());
    expects<ParallelError>(different.size() == 1 || different.size() == ranks, "DataParallel: some of the ", ranks,
                           " ranks have the same shard of ", tensors[i].name,
                           " and some another; give it the ranks of a Mesh's `data` group, which have the same");
    apart[i] = ranks > 1 && different.size() == ranks;
  }
  return apart;
}

}  // namespace tern::parallel
