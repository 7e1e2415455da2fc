#pragma once
// Line charts. The page's script (tools/chart/chart.js, as in tern's reports) draws them; here is what it is told.

#include <optional>
#include <string>
#include <vector>

namespace tern::study {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  ///< the spread, when low < high
  bool hollow = false;       ///< measured on fewer steps than were asked for
};

struct Series {
  std::string label;
  std::string style;  ///< the class of its colour and dash
  int marker = 0;     ///< 0 circle, 1 square, 2 triangle, 3 diamond, 4 triangle upside down; -1 none
  std::vector<Point> points;
  std::vector<double> missing;  ///< where something was tried and gave no point: crosses along the upper edge
};

struct Axis {
  std::string label;
  std::string kind = "number";  ///< how values are written: number, count, percent, duration, bytes, times
  bool log = false;
  std::vector<double> ticks = {};   ///< empty: round numbers
  std::optional<double> most = {};  ///< shared by charts that are read side by side
};

struct Chart {
  std::string name;  ///< for those who cannot see it
  Axis x, y;
  std::vector<Series> series;
  std::optional<double> reference;  ///< a horizontal line
  std::string reference_label;
};

/// The chart as the script reads it, in an element that the drawing takes the place of.
std::string draw(const Chart& chart);

extern const char *const chart_style, *const chart_script;

}  // namespace tern::study
