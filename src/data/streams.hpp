#pragma once
// Assigns the random streams of a seed. A Generator counts its streams up from 0. Users without a Generator have
// streams far beyond, 2^60 each, so they share no number with weights, dropout or each other.

#include <cstdint>

namespace tern::data::streams {

constexpr std::uint64_t beginning(std::uint64_t owner) { return owner << 60; }

inline constexpr std::uint64_t shuffle = beginning(4);        ///< + epoch: the order of a loader
inline constexpr std::uint64_t split = beginning(6);          ///< which examples are held out
inline constexpr std::uint64_t examples = beginning(7);       ///< + epoch: what a source draws for an example
inline constexpr std::uint64_t digits = beginning(8);         ///< + image: synthetic digits
inline constexpr std::uint64_t image_classes = beginning(9);  ///< + class: stripes of synthetic images
inline constexpr std::uint64_t images = beginning(10);        ///< light and position in synthetic images
inline constexpr std::uint64_t noise = beginning(11);         ///< + image: noise of synthetic images
inline constexpr std::uint64_t augment = beginning(12);       ///< + epoch: the augmentation of an example

}  // namespace tern::data::streams
