#pragma once
// Line charts as inline SVG. Colours, dashes and markers come from the report's style sheet by class, so that one
// drawing serves light, dark and print.

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tern::study {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  ///< the spread, when low < high
  bool hollow = false;       ///< measured on fewer steps than were asked for
  std::string tip;           ///< shown when the pointer rests on it
};

struct Series {
  std::string label;  ///< stands at the end of the line
  std::string style;  ///< the class of its colour and dash
  int marker = 0;     ///< 0 circle, 1 square, 2 triangle, 3 diamond, 4 cross; -1 none
  std::vector<Point> points;
  std::vector<double> missing;  ///< where something was tried and gave no point: crosses along the upper edge
};

struct Chart {
  std::string name;  ///< for those who cannot see it
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<double> x_ticks;
  std::function<std::string(double)> x_text, y_text;
  std::vector<Series> series;
  std::string series_title;         ///< what the labels name, above them
  std::optional<double> reference;  ///< a horizontal line
  std::string reference_label;
  std::optional<double> y_most;  ///< shared by charts that are read side by side
};

/// <svg ...>...</svg>
std::string draw(const Chart& chart);

}  // namespace tern::study
