#pragma once
// Files of times.

#include <string>

#include "fit.hpp"

namespace tern::benchmarks {

/// The card that was measured, and the times of its cuts.
struct Times {
  std::string card;
  Figures figures;
  std::vector<Sample> samples;
};

/// Lines of text: `card;NAME`, `figures;...`, then `MEMBER;PROBLEM;CUT;MICROSECONDS`. Throws FileError for others.
void write_times(const std::string& file, const Times& times);
Times read_times(const std::string& file);

/// The cuts that are worth a measurement: the cheapest by either costs, and some of the others.
std::vector<int> cuts_to_time(const std::vector<float>& one, const std::vector<float>& other);

/// On the first card, until the seconds have passed. Throws Error in a build without the cuda mode. (measure.cu)
Times measure(double seconds);

/// The costs as a header (src/cuda/tuning/), to be formatted.
struct Header {
  std::string name, comment;  ///< of the constant; at the head of the file
};
void write_costs(const std::string& file, const Header& header, Costs costs);

}  // namespace tern::benchmarks
