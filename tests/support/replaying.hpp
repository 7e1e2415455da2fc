#pragma once
// A simulated device whose work can be recorded and replayed: tests Step without a GPU.

#include "tern/modes/mode.hpp"

namespace tern::testing {

/// The mode "replaying": the kernels of the sequential mode on separate memory. Its pointers are not addresses, so the
/// host cannot access it; fresh and released blocks hold only NaN. While a stream is recorded, every slot of the table
/// queues its call with copies of its arguments, and nothing runs before the recording is launched. A recording keeps
/// its blocks until it is destroyed. Branches of a recording run in the reverse of the order in which they were queued.
/// What goes aside runs as late as it may. It launches loops.
const Mode& replaying_mode();
/// The same as "replaying_early": updates of parameters run as early as they may, and so does what goes aside.
const Mode& replaying_early_mode();

/// The next `count` recordings fail when they end.
void fail_recordings(int count);
/// The number of live recordings.
int live_recordings();
/// The number of launches of this process that were loops.
int launched_loops();

}  // namespace tern::testing
