#pragma once

#include <string>

#include "settings.hpp"
#include "training.hpp"

namespace tern::tool {

/// Reports a training's progress on standard error: on a terminal one line that is rewritten, elsewhere an occasional
/// line.
class Progress {
 public:
  Progress(const Settings& settings, const Training& training, std::int64_t epochs);
  /// Called after a step; `loss` is read only when the line is due.
  void step(const Position& position, const Tensor& loss);
  void epoch(const EpochResult& result, bool last);
  /// Clears the line, so that something else can be printed.
  void clear();

 private:
  const Settings& settings_;
  const Training& training_;
  std::int64_t epochs_, first_step_;
  bool terminal_, colour_, shown_ = false;
  double began_, next_bar_, next_line_;
  std::string ranks_;  // for the last epoch, which rank was slowest
};

/// Whether lines on this descriptor (1 or 2) can be redrawn: a terminal, and TERM is not dumb.
bool redraws(int descriptor);
/// Whether they may also be coloured: NO_COLOR is not set.
bool coloured(int descriptor);
/// Columns of the terminal behind standard error; 80 if there is none.
std::size_t terminal_width();
double seconds_now();

}  // namespace tern::tool
