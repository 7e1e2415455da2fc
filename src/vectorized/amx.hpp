#pragma once
// Products of bfloat16 numbers by the tile registers of x86's AMX: eight registers of 16 rows of 64 bytes, and an
// instruction that multiplies two of them. The kernels work on one thread and on one block, as those of gemm.hpp.

#include <cstdint>

namespace tern::vectorized {

/// A panel is 32 lines of a factor (rows of a, or columns of b) as far as they are summed: steps of 32 numbers, of each
/// step two tiles of 16 lines. The second tile of a step is left as it is where a panel has 16 lines or fewer.
inline constexpr std::int64_t amx_lines = 32, amx_depth = 32, amx_step = amx_lines * amx_depth;

/// One step of a panel: number p of line i is at from[i * line + p * number], and one of the strides is 1.
struct AmxSource {
  const float* from;
  std::int64_t line, number;
  std::int64_t lines, numbers;  ///< that there are, at most 32 of each; zeros stand for the others
};

/// c [rows, columns] = a b + bias, with at most 32 of both, from two panels. The sums are float32, one chain over the
/// steps.
struct AmxBlock {
  const std::uint16_t *a, *b;
  std::int64_t steps;
  float* c;
  std::int64_t c_row, rows, columns;
  const float* column_bias;  ///< [columns] or null
  bool relu;
};

struct AmxKernels {
  /// Rounds to nearest even; what is smaller than the normal numbers becomes 0. `out` is aligned to 64 bytes.
  void (*pack_a)(std::uint16_t* out, const AmxSource&);
  void (*pack_b)(std::uint16_t* out, const AmxSource&);
  /// Between begin and end, on one thread.
  void (*multiply)(const AmxBlock&);
  void (*begin)();
  void (*end)();
};

/// Null where the compiler, the processor or the system has no AMX, or TERN_SIMD names a lesser instruction set.
const AmxKernels* amx_kernels();

/// Whether there is AMX, whatever TERN_SIMD says. Asks the system for the registers, once in a process.
bool amx_present();

}  // namespace tern::vectorized
