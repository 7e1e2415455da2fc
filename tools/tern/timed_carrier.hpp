#pragma once
// A group whose rank knows how long it was in calls: what moving elements took, and the wait for others.

#include <optional>

#include "tern/parallel/group.hpp"

namespace tern::tool {

/// The same ranks; the time that this one is in calls of the group is added up. A group of one rank comes back as it
/// is.
parallel::Group timed(const parallel::Group& group);
/// Seconds so far; nothing for a group that `timed` did not make.
std::optional<double> seconds_in_calls(const parallel::Group& group);

/// How the ranks shared a stretch of work.
struct RankTimes {
  double communication = 0;  ///< share of the time of all ranks that went into calls of the group
  int slowest = 0;           ///< the rank that worked longest between them
  double lag = 0;            ///< how much longer than the mean: 0.1 is a tenth
};
/// All ranks say how long they took and how much of it they were in calls; a collective call.
RankTimes share_times(const parallel::Group& group, double seconds, double in_calls);

}  // namespace tern::tool
