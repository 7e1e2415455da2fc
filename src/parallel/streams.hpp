#pragma once
// Where those that must draw apart begin: streams of a generator that lie so far apart, below those of other
// owners. Each has more than a training draws.

namespace tern::parallel {

constexpr int shard_streams = 48, most_shards = 1 << 12;              // of the shards of a batch, up to 2^60
constexpr int micro_batch_streams = 40, most_micro_batches = 1 << 8;  // within a shard
constexpr int rank_streams = 32;                                      // within a micro-batch, up to 256 ranks

}  // namespace tern::parallel
