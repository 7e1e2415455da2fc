#include "tern/parallel/data_parallel.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "parallel/buckets.hpp"
#include "parallel/filled.hpp"
#include "parallel/replicas.hpp"
#include "parallel/streams.hpp"
#include "parallel/tree.hpp"
#include "run/recording.hpp"
#include "tensor/shard_streams.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/observer.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/shape.hpp"
#include "tern/parallel/batch_norm.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> gradients;
  gradients.reserve(tensors.size());
  for (const Tensor& tensor : tensors) gradients.push_back(tensor.grad());
  return gradients;
}

std::vector<Tensor> gradients_of(const Bucket& bucket, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> gradients;
  gradients.reserve(bucket.members.size());
  for (const std::size_t i : bucket.members) gradients.push_back(tensors[i].grad());
  return gradients;
}

}  // namespace

struct DataParallel::Body {
  Group group;     // for texts
  Group elements;  // for tensors on devices
  DataParallelOptions options;
  data::Share share;
  std::vector<nn::NamedTensor> whole;          // the parameters that are equal in all ranks
  std::vector<char> trained;                   // which of them require a gradient
  std::vector<Tensor> parameters, statistics;  // the trained ones, whose gradients are summed; floating buffers
  std::string apart;                           // the first parameter of which each rank has its own shard
  std::string joint;                           // a module that sums over all ranks
  std::vector<Bucket> buckets;
  std::vector<Bucket> statistics_buckets;
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>>
      agreements;  // what all ranks agreed on, by this rank's values

  Body(const Group& ranks, const nn::Module& module, const DataParallelOptions& chosen)
      : group(ranks),
        elements(on_devices(ranks)),
        options(chosen),
        share{.rank = ranks.rank(), .ranks = ranks.size(), .shards = chosen.shards} {
    share.check("DataParallel");
    expects<ShapeError>(share.count() <= most_shards, "DataParallel: ", share.count(), " shards, at most ",
                        most_shards);
    expects<ShapeError>(options.bucket_bytes > 0, "DataParallel: buckets of ", options.bucket_bytes, " bytes");
    expects<DTypeError>(options.wire == DType::float32 || options.wire == DType::bfloat16,
                        "DataParallel: gradients travel as float32 or bfloat16, not ", options.wire);
    expects(options.wire == DType::float32 || !fixed(), "DataParallel: ", share.shards,
            " shards have the same sum for any number of ranks, and as ", options.wire,
            " they would not: what is rounded depends on who holds which; take float32, or shards = 0");
    std::vector<nn::NamedTensor> all = module.named_parameters();
    const std::size_t count = all.size();
    for (nn::NamedTensor& named : module.named_buffers()) all.push_back(std::move(named));
    const SplitShards split = split_shards(module);
    check_same(group, all, split);
    const std::vector<char> others = held_apart(group, all, split);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Tensor& tensor = all[i].tensor;
      if (others[i] != 0) {
        if (apart.empty()) apart = all[i].name;
        continue;
      }
      elements.broadcast(tensor);
      if (i >= count && is_floating(tensor.dtype())) statistics.push_back(tensor);
      if (i < count) whole.push_back(all[i]);
    }
    choose(taking_gradients());
    expects(share.shards <= 1 || apart.empty(), "DataParallel: every rank has another shard of ", apart,
            ", which needs all of a batch at once, and ", share.shards,
            " shards are computed one after another; take shards = 0");
    module.visit([&](const std::string& path, const nn::Module& child) {
      if (dynamic_cast<const BatchNorm2d*>(&child) == nullptr) return;
      if (joint.empty()) joint = message(path, ", ", child.describe());
      expects(share.shards <= 1, "DataParallel: ", path, ", ", child.describe(), ", needs all of a batch at once, and ",
              share.shards, " shards are computed one after another; give it nn::BatchNorm2d, or shards = 0");
    });
    statistics_buckets = make_buckets(statistics, options.bucket_bytes);
  }

  std::vector<char> taking_gradients() const {
    std::vector<char> taking;
    for (const nn::NamedTensor& named : whole) taking.push_back(named.tensor.requires_grad() ? 1 : 0);
    return taking;
  }

  void choose(std::vector<char> taking) {
    trained = std::move(taking);
    parameters.clear();
    for (std::size_t i = 0; i < whole.size(); ++i)
      if (trained[i] != 0) parameters.push_back(whole[i].tensor);
    expects(!parameters.empty(),
            "DataParallel: the module has no parameter that takes a gradient and is whole in every rank");
    buckets = make_buckets(parameters, options.bucket_bytes);
  }

  /// Takes over what was frozen or unfrozen since the last backward, equally in all ranks.
  void look_again() {
    std::vector<char> taking = taking_gradients();
    if (taking == trained) return;
    std::string text;
    for (std::size_t i = 0; i < whole.size(); ++i)
      text += message(whole[i].name, taking[i] != 0 ? " to train" : " frozen", '\n');
    group.check_same("DataParallel", text);
    choose(std::move(taking));
  }

  void remember(const std::vector<std::int64_t>& words, const std::vector<std::int64_t>& agreed) {
    constexpr std::size_t most = 256;
    if (agreements.size() >= most) agreements.clear();
    const auto [known, fresh] = agreements.emplace(words, agreed);
    if (!fresh && known->second != agreed) known->second.clear();  // the same words mean one or the other
  }
  std::vector<std::int64_t> agreed_before(const std::vector<std::int64_t>& words) const {
    const auto known = agreements.find(words);
    expects<ParallelError>(known != agreements.end() && !known->second.empty(),
                           "DataParallel: the ranks have not agreed on which parameters this step uses, which they "
                           "cannot do while it is recorded; let every call use the same ones, or take no Step");
    return known->second;
  }

  void check(std::int64_t batch) const {
    expects<ShapeError>(batch >= 1, "DataParallel: a batch of ", batch, " examples");
    expects<ShapeError>(apart.empty() || batch % share.ranks == 0, "DataParallel: a batch of ", batch,
                        " examples is not divided equally among ", share.ranks, " ranks, as ", apart,
                        " needs, of which each has a shard; take a multiple, and LoaderOptions::drop_last");
    expects<ShapeError>(joint.empty() || batch >= share.ranks, "DataParallel: a batch of ", batch,
                        " examples leaves some of ", share.ranks, " ranks without any, and ", joint,
                        ", needs some of every rank; take a larger batch, and LoaderOptions::drop_last");
  }

  DType wire(const Bucket& bucket) const { return bucket.dtype == DType::float32 ? options.wire : bucket.dtype; }
  bool fixed() const { return options.shards > 0; }
  /// Whether a bucket's gradients are summed in place: not if they travel in another dtype, nor if each would go
  /// through the host separately.
  bool in_place(const Bucket& bucket) const {
    return !fixed() && wire(bucket) == bucket.dtype &&
           (!elements.on_host() || current_scope().mode->memory->host_accessible());
  }
  bool alone() const { return group.size() == 1 && share.count() == 1; }
};

/// One backward of all ranks: this rank's shards, and the sums over all.
struct DataParallel::Pass {
  Pass(Body& owner, Holdings held)
      : body(owner),
        holdings(std::move(held)),
        progress(body.buckets, body.parameters),
        gradients(body.buckets.size()),
        used(body.parameters.size()),
        packs(body.buckets.size()),
        idle(std::ranges::any_of(holdings, [](const std::vector<int>& shards) { return shards.empty(); })) {}

  Body& body;
  const Holdings holdings;  // for each rank, the shards that hold examples
  Progress progress;
  std::vector<Partial> gradients;              // of each packed bucket
  std::vector<std::vector<Tensor>> sums = {};  // of the first buckets: those of the members
  std::vector<char> used, packs;               // which parameters have a gradient; which buckets contain this shard's
  const bool idle;                             // some rank has no examples
  Reduction reduction = Reduction::sum;

  const std::vector<int>& own() const { return holdings[static_cast<std::size_t>(body.group.rank())]; }

  void pack(std::size_t bucket, int shard) {
    if (std::exchange(packs[bucket], 1) != 0) return;
    const Bucket& members = body.buckets[bucket];
    const std::vector<Tensor> values = gradients_of(members, body.parameters);
    for (std::size_t place = 0; place < values.size(); ++place)
      if (values[place].defined()) used[members.members[place]] = 1;
    if (!body.in_place(members)) gradients[bucket].add(shard, packed(members, body.parameters, values));
  }

  /// The sums of a bucket's gradients; for buckets summed in place, call it after `join`.
  std::vector<Tensor> summed(std::size_t number) const {
    const Bucket& bucket = body.buckets[number];
    if (!body.in_place(bucket))
      return unpacked(bucket, body.parameters, sum(bucket, gradients[number], body.wire(bucket), reduction));
    std::vector<Tensor> values = gradients_of(bucket, body.parameters);
    for (std::size_t place = 0; place < values.size(); ++place)
      values[place] = values[place].defined() ? values[place].contiguous().to(bucket.dtype)
                                              : filled(body.parameters[bucket.members[place]].shape(), 0, bucket.dtype);
    body.elements.begin_all_reduce(values, reduction);
    return values;
  }

  Tensor sum(const Bucket& bucket, const Partial& partial, DType wire, Reduction how) const {
    const Tensor like({bucket.count}, bucket.dtype);
    if (body.fixed() || wire != bucket.dtype) {
      const Tensor sum = sum_over(body.elements, body.share.count(), holdings, partial, like, wire);
      return how == Reduction::mean ? sum / body.share.ranks : sum;
    }
    Tensor sum = partial.values().empty() ? filled(like.shape(), 0, like.dtype()) : partial.values()[0];
    body.elements.begin_all_reduce(sum, how);
    return sum;
  }

  // Every rank sums the buckets in order.
  void sum_ready() {
    while (sums.size() < packs.size() && packs[sums.size()] != 0) sums.push_back(summed(sums.size()));
  }

  /// The backward of one shard with a weight (undefined: 1); during the last one, completed buckets are summed.
  void differentiate(const Tensor& loss, const Tensor& weight, int shard, bool last) {
    BackwardOptions options;
    if (last)
      options.complete = [&](const Tensor& leaf) {
        const int bucket = progress.complete(leaf);
        if (bucket < 0) return;
        pack(static_cast<std::size_t>(bucket), shard);
        sum_ready();
      };
    weight.defined() ? loss.backward(weight, options) : loss.backward(options);
    for (std::size_t i = 0; i < packs.size(); ++i) pack(i, shard);
    if (last) return;
    std::ranges::fill(packs, 0);
    for (Tensor& tensor : body.parameters) tensor.zero_grad();
  }

  /// The elementwise maximum over the ranks. A replay exchanges nothing, so when a Step records on devices, it takes
  /// what the ranks agreed on in its first run; a rank without examples adopts the others' values.
  std::vector<std::int64_t> agree(const std::vector<std::int64_t>& words) const {
    if (idle || body.elements.on_host()) return largest(words);
    if (Recording* const run = Recording::running(); run != nullptr)
      run->joins({&body.group.collective(), [group = body.group](bool own) {
                    const Tensor all = tensor(std::vector{std::int32_t{own}}, {1});
                    group.all_reduce(all, Reduction::min);
                    return all.item<std::int32_t>() != 0;
                  }});
    if (Recording::current() != nullptr) return body.agreed_before(words);
    const Unobserved hidden;  // not part of what a replay repeats
    std::vector<std::int64_t> agreed = largest(words);
    body.remember(words, agreed);
    return agreed;
  }
  std::vector<std::int64_t> largest(const std::vector<std::int64_t>& words) const {
    Tensor all = tensor(words, {static_cast<std::int64_t>(words.size())});
    body.group.all_reduce(all, Reduction::max);
    return all.to_vector<std::int64_t>();
  }

  /// Sums the remaining buckets, and adds each parameter's gradient to the one it had `before`.
  void finish(const std::vector<Tensor>& before, const std::vector<std::int64_t>& agreed) {
    std::ranges::fill(packs, 1);
    sum_ready();
    body.elements.join();
    for (std::size_t bucket = 0; bucket < sums.size(); ++bucket) {
      for (std::size_t place = 0; place < sums[bucket].size(); ++place) {
        const std::size_t i = body.buckets[bucket].members[place];
        Tensor& parameter = body.parameters[i];
        const Tensor sum = sums[bucket][place].to(parameter.dtype());
        if (agreed[i] != 0 && !before[i].defined() && sum.is(parameter.grad())) continue;
        if (agreed[i] != 0)
          parameter.set_grad(before[i].defined() ? before[i] + sum : sum);
        else if (before[i].defined())
          parameter.set_grad(before[i]);
        else
          parameter.zero_grad();
      }
    }
  }

  /// Begins the sums over the shards of the buffers that they computed.
  std::vector<Tensor> sums_of(const std::vector<Partial>& statistics) const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < statistics.size(); ++i)
      result.push_back(sum(body.statistics_buckets[i], statistics[i], body.statistics_buckets[i].dtype, reduction));
    return result;
  }
  /// Begins replacing the buffers, which forward has updated, by their means over the ranks. Complete after `join`.
  void begin_means() const {
    std::map<DType, std::vector<Tensor>> of_dtype;
    for (const Tensor& tensor : body.statistics) of_dtype[tensor.dtype()].push_back(tensor);
    for (const auto& [dtype, tensors] : of_dtype) body.elements.begin_all_reduce(tensors, Reduction::mean);
  }
  /// Writes the buffers.
  void settle(const std::vector<Tensor>& statistics) const {
    for (std::size_t bucket = 0; bucket < statistics.size(); ++bucket) {
      const Bucket& members = body.statistics_buckets[bucket];
      const std::vector<Tensor> means = unpacked(members, body.statistics, statistics[bucket]);
      for (std::size_t place = 0; place < means.size(); ++place)
        Tensor(body.statistics[members.members[place]]).copy_(means[place]);
    }
  }

  ShardLoss run(std::int64_t batch, const std::function<ShardLoss(const data::Rows&)>& loss_of);
};

ShardLoss DataParallel::Pass::run(std::int64_t batch, const std::function<ShardLoss(const data::Rows&)>& loss_of) {
  const std::vector<Tensor> before = gradients_of(body.parameters);
  for (Tensor& tensor : body.parameters) tensor.zero_grad();
  Partial figures;
  Tensor all;  // the sum of the figures
  std::int64_t count = 1;
  // On devices nothing needs to be agreed first, and backward hides the exchange. The loss alone is no reason to
  // convert it.
  const bool early = !body.fixed() && !body.elements.on_host() && !idle;
  // If all ranks have equally many rows, the mean of gradients and buffers equals the weighted sum at no cost.
  // Gradients of a rank's own shard have no mean.
  const bool even = early && batch % body.share.ranks == 0, mean = even && body.apart.empty();
  if (mean) reduction = Reduction::mean;
  std::vector<Tensor> fresh;
  if (!even)
    for (const Tensor& tensor : body.statistics) fresh.push_back(tensor.clone());
  std::vector<Partial> statistics(even ? 0 : body.statistics_buckets.size());
  std::int64_t kind = -1;  // the dtype of the loss; 16 bits are too few for it
  DType precision = early ? sum_dtype(body.parameters[0].dtype()) : DType::float64;
  Generator& generator = default_generator();
  const std::uint64_t start = generator.position();
  std::optional<std::uint64_t> draws;
  for (const int shard : own()) {
    const data::Rows rows = body.share.shard(batch, shard);
    if (shard != own().front())
      for (std::size_t i = 0; i < fresh.size(); ++i) body.statistics[i].copy_(fresh[i]);
    ShardStreams::place(generator, start);
    const ShardLoss found = [&] {
      const ShardStreams apart(static_cast<std::uint64_t>(shard) << shard_streams);
      return loss_of(rows);
    }();
    expects<ShapeError>(found.loss.defined() && found.loss.numel() == 1,
                        "DataParallel: the loss of a shard must be one number, the mean over its examples");
    const std::uint64_t drawn = generator.position() - start;
    expects(!draws || *draws == drawn, "DataParallel: a shard of the batch draws ", drawn,
            " streams of random numbers, another one ", draws.value_or(0), "; every shard must draw equally often");
    draws = drawn;
    kind = static_cast<std::int64_t>(scalar_of(found.loss.dtype()));
    const double weight = static_cast<double>(rows.size()) / static_cast<double>(batch);
    if (found.sums.defined()) precision = DType::float64;
    Tensor numbers = found.loss.detach().reshape({1}).to(precision) * weight;
    if (found.sums.defined())
      numbers = operators::cat({numbers, found.sums.detach().reshape({found.sums.numel()}).to(DType::float64)}, 0);
    count = numbers.numel();
    figures.add(shard, numbers);
    if (early) all = sum({.count = count, .dtype = precision}, figures, precision, Reduction::sum);
    if (even) begin_means();
    differentiate(found.loss, mean ? Tensor() : filled(found.loss.shape(), weight, found.loss.dtype()), shard,
                  shard == own().back());
    for (std::size_t i = 0; i < statistics.size(); ++i)
      statistics[i].add(shard, packed(body.statistics_buckets[i], body.statistics) * weight);
  }
  if (early && !all.defined()) all = sum({.count = count, .dtype = precision}, figures, precision, Reduction::sum);
  std::vector<std::int64_t> words(used.begin(), used.end());
  words.push_back(static_cast<std::int64_t>(draws.value_or(0)));
  words.push_back(kind);
  words.push_back(count);
  // Every rank sums its buckets before it communicates further.
  std::ranges::fill(packs, 1);
  sum_ready();
  const std::vector<std::int64_t> agreed = agree(words);
  count = agreed.back();
  const std::vector<Tensor> settled = sums_of(statistics);
  if (!early) all = sum({.count = count, .dtype = precision}, figures, precision, Reduction::sum);
  finish(before, agreed);
  settle(settled);
  ShardStreams::place(generator, start + static_cast<std::uint64_t>(agreed[used.size()]));
  return {all.slice(0, 0, 1).reshape({}).to(static_cast<DType>(agreed[used.size() + 1])),
          count > 1 ? all.slice(0, 1, count) : Tensor()};
}

DataParallel::DataParallel(const Group& group, const nn::Module& module, const DataParallelOptions& options)
    : body_(std::make_shared<Body>(group, module, options)) {}

ShardLoss DataParallel::backward(std::int64_t batch, const std::function<ShardLoss(const data::Rows& rows)>& loss_of) {
  Body& body = *body_;
  body.check(batch);
  body.look_again();
  if (body.alone()) {
    const ShardLoss whole = loss_of({0, batch});
    whole.loss.backward();
    return {whole.loss.detach(), whole.sums.defined() ? whole.sums.detach().to(DType::float64) : Tensor()};
  }
  Holdings holdings;
  for (int rank = 0; rank < body.share.ranks; ++rank) {
    const data::Share share{rank, body.share.ranks, body.share.shards};
    std::vector<int>& shards = holdings.emplace_back();
    for (int shard = share.first(); shard < share.last(); ++shard)
      if (share.shard(batch, shard).size() > 0) shards.push_back(shard);
  }
  return Pass(*body_, std::move(holdings)).run(batch, loss_of);
}

void DataParallel::backward(const Tensor& loss) {
  expects(loss.defined(), "DataParallel: the loss is undefined");
  average_behind(loss);
}

void DataParallel::average() { average_behind({}); }

// After the backward of a loss, or of none.
void DataParallel::average_behind(const Tensor& loss) {
  Body& body = *body_;
  expects(!body.fixed(), "DataParallel: with a fixed number of shards, backward(batch, loss_of) cuts the batch");
  expects(body.apart.empty(), "DataParallel: the gradient of ", body.apart,
          " is not averaged over the ranks, of which each has a shard; backward(batch, loss_of) weighs it");
  if (body.alone()) return loss.defined() ? loss.backward() : void();
  body.look_again();
  Holdings holdings;
  for (int rank = 0; rank < body.share.ranks; ++rank) holdings.push_back({rank});
  Pass pass(body, std::move(holdings));
  pass.reduction = Reduction::mean;
  const int rank = body.group.rank();
  if (loss.defined()) pass.differentiate(loss, filled(loss.shape(), 1, loss.dtype()), rank, true);
  for (std::size_t i = 0; i < body.buckets.size(); ++i) pass.pack(i, rank);
  const std::vector<std::int64_t> words(pass.used.begin(), pass.used.end());
  pass.finish(std::vector<Tensor>(body.parameters.size()), pass.agree(words));
  std::vector<Partial> statistics(body.statistics_buckets.size());
  for (std::size_t i = 0; i < statistics.size(); ++i)
    statistics[i].add(rank, packed(body.statistics_buckets[i], body.statistics));
  const std::vector<Tensor> settled = pass.sums_of(statistics);
  body.elements.join();
  pass.settle(settled);
}

void DataParallel::check(std::int64_t batch) const { body_->check(batch); }

bool DataParallel::divides() const { return !body_->apart.empty(); }

const data::Share& DataParallel::share() const { return body_->share; }
std::size_t DataParallel::buckets() const { return body_->buckets.size(); }

}  // namespace tern::parallel
