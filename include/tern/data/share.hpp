#pragma once
// How several ranks share the examples of a batch.

#include <cstdint>

#include "tern/core/error.hpp"

namespace tern::data {

/// Rows [begin, end) of a batch.
struct Rows {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// A rank's share of every batch. A batch is cut into shards of nearly equal size, in order, and each rank has
/// consecutive ones: every example is in one shard of one rank, and the content of a shard does not depend on the
/// number of ranks.
struct Share {
  int rank = 0, ranks = 1;
  int shards = 0;  ///< shards per batch, at least as many as ranks; 0: one per rank

  int count() const { return shards > 0 ? shards : ranks; }
  /// The shards [first(), last()) belong to this rank.
  int first() const { return begin_of(rank); }
  int last() const { return begin_of(rank + 1); }
  /// Rows of shard i of a batch of this many examples; empty if there are fewer examples than shards.
  Rows shard(std::int64_t batch, int i) const { return {cut(batch, i), cut(batch, i + 1)}; }
  /// The rows of all shards of this rank.
  Rows rows(std::int64_t batch) const { return {cut(batch, first()), cut(batch, last())}; }
  /// Throws ShapeError for invalid numbers; `who` begins the message.
  void check(const char* who) const {
    expects<ShapeError>(ranks >= 1 && rank >= 0 && rank < ranks, who, ": rank ", rank, " of ", ranks, " ranks");
    expects<ShapeError>(shards == 0 || shards >= ranks, who, ": ", shards, " shards for ", ranks,
                        " ranks; every rank needs at least one");
  }

 private:
  int begin_of(int of) const { return static_cast<int>(std::int64_t{count()} * of / ranks); }
  std::int64_t cut(std::int64_t batch, int i) const { return batch / count() * i + batch % count() * i / count(); }
};

}  // namespace tern::data
