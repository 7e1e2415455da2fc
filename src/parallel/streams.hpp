#pragma once
// The first streams of everything that must draw separately, far enough apart in one generator and below those of other
// users. Each has more streams than a training draws.

namespace tern::parallel {

constexpr int shard_streams = 48, most_shards = 1 << 12;              // for the shards of a batch, up to 2^60
constexpr int micro_batch_streams = 40, most_micro_batches = 1 << 8;  // within a shard
constexpr int rank_streams = 32;                                      // within a micro-batch, up to 256 ranks

}  // namespace tern::parallel
