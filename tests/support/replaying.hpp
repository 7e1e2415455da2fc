#pragma once
// A device without a device whose work can be recorded and replayed: it tests Step where there is no GPU.

#include "tern/modes/mode.hpp"

namespace tern::testing {

/// The mode "replaying": the kernels of the sequential mode on a memory of its own. Its pointers are no addresses, so
/// that the host cannot touch what lies there; fresh and released blocks hold only NaN. While a stream is recorded,
/// every slot of the table queues its call with copies of what it was given, and nothing runs before the recording is
/// launched. A recording keeps its blocks until it is destroyed. Branches of a recording run in the reverse of the
/// order in which they were queued. It launches loops.
const Mode& replaying_mode();

/// The next `count` recordings fail as they end.
void fail_recordings(int count);
/// How many recordings live.
int live_recordings();
/// How many launches of this process were loops.
int launched_loops();

}  // namespace tern::testing
