#pragma once
// A group whose rank knows how long it was in calls: what moving elements took, and the wait for others.

#include "tern/parallel/group.hpp"

namespace tern::tool {

/// The same ranks; the time that this one is in calls of the group is added up, and what devices are in transports that
/// are opened over it. A group of one rank comes back as it is.
parallel::Group timed(const parallel::Group& group);
/// So far. Where a device measures itself that is its work, else the host's, which waits in every call. Nothing of a
/// group that `timed` did not make. Waits for the device.
parallel::Collective::Spent spent_in(const parallel::Group& group);

/// How the ranks shared a stretch of work.
struct RankTimes {
  double communication = 0;  ///< share of the time of all ranks in which the transport worked
  double hidden = 0;         ///< share of that for which no other work waited
  int slowest = 0;           ///< the rank that worked longest between its waits
  double lag = 0;            ///< how much longer than the mean: 0.1 is a tenth
};
/// All ranks say how long they took, and what of it went into communication; a collective call.
RankTimes share_times(const parallel::Group& group, double seconds, const parallel::Collective::Spent& spent);

}  // namespace tern::tool
