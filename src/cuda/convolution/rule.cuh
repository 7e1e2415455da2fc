#pragma once
// Rough times, in microseconds, by which lists of algorithms are ordered: arithmetic on sizes, fitted to an H200.

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// Of a convolution, in any pass.
double multiply_adds(const Problem& problem);

/// A forward pass with lanes, channels last: by our implicit product (implicit_forward.cu), and by cuDNN's first
/// proposal.
double implicit_time(const Problem& engine);
double library_time(const Problem& engine);
/// Whether the former clearly is shorter; both may have other lanes.
bool prefers_implicit(const Problem& own, const Problem& library);
/// Whether so little is computed that an engine of the library takes longer to begin and to end.
bool is_short(const Problem& engine);
/// Whether cuDNN leaves much of the card idle: it takes groups one after the other, and rarely divides long sums among
/// blocks where tiles are few.
bool starves_library(const Problem& engine);

/// Kernels and channels that published networks have most often, for which cuDNN's first heuristic mode and these rules
/// were tuned: 1x1, or 3x3 with multiples of 64 channels.
bool is_common(const Problem& engine);
/// Whether engines are proposed by cuDNN's second heuristic mode, which is better for what is rare.
bool asks_second_mode(const Problem& engine);

/// The gradient of x through a stride, with lanes, channels last: by our implicit products (implicit_strided.cu).
bool strided_fits(const Problem& problem);
double strided_time(const Problem& problem);
/// Whether they are faster than an engine of cuDNN, which is good at much work, and at what networks have most often.
bool strided_pays(const Problem& problem);

/// A strict forward pass by Fourier transforms of tiles, as cuDNN has them for large kernels.
double transform_time(const Problem& engine);

/// Microseconds by which Winograd's transforms (winograd.cu) are faster than an implicit product; 0: they are not
/// chosen.
double winograd_gain(const Problem& problem);

/// A product for all taps, whose terms are added afterwards (fold.cu), channels last.
double fold_time(const Problem& problem);

/// Copies of images from `p` to `lanes`, whose channels differ, around a pass.
double copies_time(const Problem& p, const Problem& lanes);

/// The channels of each group rounded up to `lanes`.
Problem in_lanes(const Problem& p, std::int64_t lanes);

/// Whether kernels that keep small planes whole (direct*.cu) are faster than others. They are made for few channels.
bool suits_planes(const Problem& p);

/// Whether the weight's gradient has so few columns or rows that tiles of products would be mostly empty: the general
/// kernel gathers less.
bool suits_gathering(const Problem& p);

/// Whether strips of few channels per group (grouped*.cu) are slower than an implicit product, channels last.
bool strips_are_slower(const Problem& p);

}  // namespace tern::cuda::convolution
