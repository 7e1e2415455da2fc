#pragma once
// Which examples of a batch are whose, where several ranks work on one batch.

#include <cstdint>

#include "tern/core/error.hpp"

namespace tern::data {

/// Rows [begin, end) of a batch.
struct Rows {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// A rank's share of every batch. A batch is cut into shards of nearly one size, in order, and each rank has some that
/// follow one another: so every example is in one shard of one rank, and what is in a shard does not depend on the
/// number of ranks.
struct Share {
  int rank = 0, ranks = 1;
  int shards = 0;  ///< shards of a batch, at least as many as ranks; 0: one for each rank

  int count() const { return shards > 0 ? shards : ranks; }
  /// The shards [first(), last()) are this rank's.
  int first() const { return begin_of(rank); }
  int last() const { return begin_of(rank + 1); }
  /// Shard i of a batch of so many examples; empty where there are fewer examples than shards.
  Rows shard(std::int64_t batch, int i) const { return {cut(batch, i), cut(batch, i + 1)}; }
  /// All shards of this rank.
  Rows rows(std::int64_t batch) const { return {cut(batch, first()), cut(batch, last())}; }
  /// Throws ShapeError unless the numbers make sense; `who` begins the message.
  void check(const char* who) const {
    expects<ShapeError>(ranks >= 1 && rank >= 0 && rank < ranks, who, ": rank ", rank, " of ", ranks, " ranks");
    expects<ShapeError>(shards == 0 || shards >= ranks, who, ": ", shards, " shards for ", ranks,
                        " ranks; every rank needs one at least");
  }

 private:
  int begin_of(int of) const { return static_cast<int>(std::int64_t{count()} * of / ranks); }
  std::int64_t cut(std::int64_t batch, int i) const { return batch / count() * i + batch % count() * i / count(); }
};

}  // namespace tern::data
