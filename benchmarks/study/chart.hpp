#pragma once
// Line charts. The page's script (tools/chart/chart.js, as in tern's reports) draws them; this is its input.

#include <optional>
#include <string>
#include <vector>

namespace tern::study {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  ///< the spread, if low < high
  bool hollow = false;       ///< measured on fewer steps than requested
};

struct Series {
  std::string label;
  std::string style;  ///< the class of its colour and dash
  int marker = 0;     ///< 0 circle, 1 square, 2 triangle, 3 diamond, 4 triangle upside down; -1 none
  std::vector<Point> points;
  std::vector<double> missing;  ///< where something was tried without a result: crosses along the upper edge
};

struct Axis {
  std::string label;
  std::string kind = "number";  ///< the format of values: number, count, percent, duration, bytes, times
  bool log = false;
  std::vector<double> ticks = {};   ///< empty: round numbers
  std::optional<double> most = {};  ///< shared by charts that are read together
};

struct Chart {
  std::string name;  ///< for screen readers
  Axis x, y;
  std::vector<Series> series;
  std::optional<double> reference;  ///< a horizontal line
  std::string reference_label;
};

/// The chart as the script reads it, in an element that the drawing replaces.
std::string draw(const Chart& chart);

extern const char *const chart_style, *const chart_script;

}  // namespace tern::study
