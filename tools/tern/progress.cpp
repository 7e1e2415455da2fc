#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "evaluation.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

constexpr double bar_interval = 0.1, line_interval = 2;
constexpr std::size_t longest_bar = 24;

std::string rate_text(double rate) { return rate < 100 ? fixed(rate, 1) : grouped(static_cast<std::int64_t>(rate)); }

// Empty for a net without a known training accuracy. R2 for a regression.
std::string accuracy_text(const Blueprint& blueprint, double accuracy, int digits) {
  if (std::isnan(accuracy)) return {};
  return blueprint.regression ? "  R2 " + fixed(accuracy, digits + 2)
                              : "  accuracy " + fixed(100 * accuracy, digits) + " %";
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool redraws(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

bool coloured(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return redraws(descriptor) && (no_colour == nullptr || *no_colour == '\0');
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

Progress::Progress(const Settings& settings, const Training& training, std::int64_t epochs)
    : settings_(settings),
      training_(training),
      epochs_(epochs),
      first_step_(training.position().step),
      terminal_(redraws(STDERR_FILENO)),
      colour_(coloured(STDERR_FILENO)),
      began_(seconds_now()),
      next_bar_(began_),
      next_line_(began_ + line_interval) {}

void Progress::step(const Position& position, const Tensor& loss) {
  if (settings_.quiet || !terminal_) return;
  const double now = seconds_now();
  if (now < next_bar_) return;
  next_bar_ = now + bar_interval;
  const auto done = static_cast<double>(position.step - first_step_);
  const std::int64_t epochs = training_.refitting() ? training_.refit_epochs() : epochs_;
  const auto left = static_cast<double>((epochs - position.epoch) * position.batches - position.batch);
  const double elapsed = std::max(now - began_, 1e-9);
  const double per_step = static_cast<double>(training_.examples()) / static_cast<double>(position.batches);
  const std::string before = message(training_.refitting() ? "refit " : "epoch ", position.epoch + 1, "/", epochs, " ");
  std::string after =
      message(" batch ", position.batch, "/", position.batches, "  loss ", fixed(loss.item(), 4),
              accuracy_text(training_.blueprint(), training_.running_accuracy(), 1), "  ",
              rate_text(done * per_step / elapsed), " items/s  ETA ", duration(left * elapsed / done), ranks_);
  // The bar uses the space that the figures leave.
  const std::size_t room = terminal_width() - 1, words = width_of(before) + width_of(after);
  const std::size_t width = std::min(longest_bar, room - std::min(room, words));
  const auto filled = static_cast<std::size_t>(static_cast<double>(width) * static_cast<double>(position.batch) /
                                               static_cast<double>(position.batches));
  std::string bar;
  for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "━" : "─";
  after = shortened(after, room - std::min(room, width_of(before) + width));
  std::fprintf(stderr, "\r\033[K%s%s%s%s%s", before.c_str(), colour_ ? "\033[32m" : "", bar.c_str(),
               colour_ ? "\033[0m" : "", after.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::epoch(const EpochResult& result, bool last) {
  if (settings_.quiet) return;
  if (result.ranks) ranks_ = message("  slowest rank ", result.ranks->slowest);
  const double now = seconds_now();
  if (now < next_line_ && !last && !settings_.verbose) return;
  next_line_ = now + line_interval;
  clear();
  std::string line = message("epoch ", result.epoch, "/", epochs_, "  loss ", fixed(result.loss, 4),
                             accuracy_text(training_.blueprint(), result.accuracy, 2));
  if (result.validation_loss)
    line += message("  validation: loss ", fixed(*result.validation_loss, 4),
                    accuracy_text(training_.blueprint(), *result.validation_accuracy, 2));
  if (result.validation_loss && training_.blueprint().regression)
    line += "  RMSE " + number_text(result.validation_rmse);
  if (result.ranks)
    line +=
        message("  communication ", fixed(100 * result.ranks->communication, 0), " %",
                result.ranks->hidden > 0 ? message(" (", fixed(100 * result.ranks->hidden, 0), " % of it hidden)") : "",
                ranks_, " (+", fixed(100 * result.ranks->lag, 0), " %)");
  if (settings_.verbose)
    line += message("  learning rate ", result.learning_rate, "  ", fixed(result.seconds, 3), " s");
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace tern::tool
