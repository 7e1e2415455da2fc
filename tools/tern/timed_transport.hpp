#pragma once
// A group that measures its rank's time in calls: moving elements, and waiting for others.

#include "tern/parallel/group.hpp"

namespace tern::tool {

/// The same ranks. Adds up this one's time in calls of the group, and devices' time in transports that are opened over
/// it. A group of one rank is returned as it is.
parallel::Group timed(const parallel::Group& group);
/// The time so far. A device's own measurement if there is one, else the host's, which waits in every call. 0 for a
/// group that `timed` did not make. Waits for the device.
parallel::Collective::Spent spent_in(const parallel::Group& group);

/// How the ranks divided an interval of work.
struct RankTimes {
  double communication = 0;  ///< fraction of all ranks' time in which the transport worked
  double hidden = 0;         ///< fraction of that for which no other work waited
  int slowest = 0;           ///< the rank that worked longest between its waits
  double lag = 0;            ///< how much longer than the mean: 0.1 is a tenth
};
/// All ranks report their time, and the part of it spent in communication; a collective call.
RankTimes share_times(const parallel::Group& group, double seconds, const parallel::Collective::Spent& spent);

}  // namespace tern::tool
