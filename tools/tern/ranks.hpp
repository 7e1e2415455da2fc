#pragma once
// A training in several ranks: its options, and what the first rank tells the others. The first one alone owns the run
// folder, the screen and the signals.

#include <functional>
#include <string>

#include "options.hpp"
#include "settings.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/parallel/group.hpp"

namespace tern::tool {

/// --ranks, --parallel, --shards and --rank-limit.
Options rank_options(Settings& settings);

/// Fills in the shards; `ranks` are there. Throws UsageError where they do not go together.
void complete_ranks(Settings& settings, int ranks);

/// What the first rank says.
int agreed(const parallel::Group& group, int own);
inline bool agreed(const parallel::Group& group, bool own) { return agreed(group, own ? 1 : 0) != 0; }

/// The options of the first rank, in all.
void share_settings(const parallel::Group& group, const Options& options);

/// The first rank's checkpoint, in all.
void share_checkpoint(const parallel::Group& group, io::Checkpoint& checkpoint);

}  // namespace tern::tool
