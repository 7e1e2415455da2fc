#pragma once
// Products of bfloat16 numbers by the instructions that multiply pairs of them: those of AVX-512, and those of AMX,
// whose eight registers of 16 rows of 64 bytes are multiplied as a whole. The kernels work on one thread and one block,
// like those of gemm.hpp.

#include <cstdint>
#include <limits>
#include <span>

namespace tern::vectorized::bfloat16 {

/// A panel is 32 lines of a factor (rows of a, or columns of b) along the sum, in steps of 32 numbers; each step has
/// two tiles of 16 lines. A tile of a has one line per row, a tile of b one pair of all its lines per row. The second
/// tile of a step is unused if a panel has 16 lines or fewer.
inline constexpr std::int64_t tile_lines = 16, panel_lines = 2 * tile_lines, depth = 32;
inline constexpr std::int64_t tile_numbers = tile_lines * depth, step_numbers = panel_lines * depth;

/// One step of a panel: number p of line i is at from[i * line + p * number], and one of the strides is 1.
struct Source {
  const float* from;
  std::int64_t line, number;
  std::int64_t lines, numbers;  ///< that exist, at most 32 of each; zeros replace the others
};

/// c [rows, columns] = a b + bias, with at most 32 of both, from two panels; or c += a b. The sums are float32, one
/// chain over the steps.
struct Block {
  const std::uint16_t* a;
  std::int64_t a_line, a_step;  ///< from one line of a to the next, 16 or 32 of which can be read, and from step to
                                ///< step
  const std::uint16_t* b;
  std::int64_t steps;
  float* c;
  std::int64_t c_row, rows, columns;
  const float* column_bias;  ///< [columns] or null
  bool relu;
  float top = std::numeric_limits<float>::infinity();  ///< with relu: what larger results become
  bool accumulate = false;                             ///< start from c instead of the bias (or 0)
};

struct Kernels {
  const char* algorithm;
  double tile_cycles;  ///< rough cost of a step of 16 x 16 sums, where a vector's fused multiply-add takes half a cycle
  /// One step. Rounds to nearest even; subnormal numbers become 0. `out` is aligned to 64 bytes.
  void (*pack_a)(std::uint16_t* out, const Source&);
  void (*pack_b)(std::uint16_t* out, const Source&);
  /// One step of 32 lines that are already rounded: the lines of number p are adjacent, at from + p * number. The first
  /// `numbers` of 32 exist.
  void (*pack_rounded_a)(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers);
  void (*pack_rounded_b)(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers);
  /// Rounds n consecutive numbers; those whose counterpart in `mask` (or null) is 0 or less become 0.
  void (*round)(std::uint16_t* out, const float* in, const float* mask, std::int64_t n);
  void (*copy)(std::uint16_t* out, const std::uint16_t* in, std::int64_t n);
  /// Called between begin and end, on one thread.
  void (*multiply)(const Block&);
  void (*begin)();
  void (*end)();
};

/// Null if the compiler, the processor or the system lacks it, or TERN_SIMD names a lesser instruction set.
const Kernels* avx512_kernels();
const Kernels* amx_kernels();

/// The TERN_SIMD names of the available instruction sets, whatever TERN_SIMD says, best first. Requests the registers
/// of AMX from the system, once per process.
std::span<const char* const> instruction_sets();

}  // namespace tern::vectorized::bfloat16
