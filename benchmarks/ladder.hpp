#pragma once
// The steps of a lecture on speed: plain loops, blocked loops, SIMD on one thread, all threads, the GPU.

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace tern::benchmarks {

/// The part of the work that runs in turn, from times with 1, 2, ... threads: the f in [0, 1] for which Amdahl's
/// time(p) = time(1) (f + (1 - f) / p) is nearest in least squares. `times` belong to `threads`; the first of these
/// is 1.
double serial_share(const std::vector<int>& threads, const std::vector<double>& times);

/// Prints a table of a matrix product, a convolution and a training step of LeNet, a row for each step of the ladder
/// that this machine has, of about `seconds` for each cell. With several counts of `threads`, then a table of
/// `vectorized` with each: time, speed-up, efficiency, and the serial share. Throws NumericError when the blocked loops
/// compute something else than the reference.
void run_ladder(std::ostream& out, const std::vector<int>& threads, double seconds);

}  // namespace tern::benchmarks
