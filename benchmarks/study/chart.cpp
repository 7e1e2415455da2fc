#include "chart.hpp"

#include <algorithm>
#include <cmath>

#include "format.hpp"
#include "tern/core/error.hpp"

namespace tern::study {

namespace {

constexpr double width = 560, height = 360, left = 78, top = 14, bottom = 48;
constexpr double line_height = 15, letter = 6.9;

class Scale {
 public:
  Scale(double low, double high, double from, double to, bool log)
      : low_(log ? std::log(low) : low), high_(log ? std::log(high) : high), from_(from), to_(to), log_(log) {
    if (high_ <= low_) low_ -= 0.5, high_ += 0.5;
  }
  double operator()(double value) const {
    return from_ + ((log_ ? std::log(value) : value) - low_) / (high_ - low_) * (to_ - from_);
  }

 private:
  double low_, high_, from_, to_;
  bool log_;
};

// Round numbers, fewer where the range is wide.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const double decades = std::log10(high / low);
  const std::vector<double> factors = decades > 3     ? std::vector<double>{1}
                                      : decades > 1.6 ? std::vector<double>{1, 3}
                                      : decades > 0.8 ? std::vector<double>{1, 2, 5}
                                                      : std::vector<double>{1, 1.5, 2, 3, 4, 6, 8};
  for (int power = static_cast<int>(std::floor(std::log10(low)));
       power <= static_cast<int>(std::ceil(std::log10(high))); ++power)
    for (const double factor : factors) {
      const double value = factor * std::pow(10, power);
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push_back(value);
    }
  return ticks;
}

std::vector<double> linear_ticks(double high) {
  const double rough = high / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough * 0.999) step = factor * power;
  std::vector<double> ticks;
  for (int i = 0; i * step <= high * 1.001; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string text_at(double x, double y, const char* anchor, const std::string& style, const std::string& text) {
  return message("<text x=\"", coordinate(x), "\" y=\"", coordinate(y), "\" text-anchor=\"", anchor, "\" class=\"",
                 style, "\">", escape(text), "</text>");
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return message("<line x1=\"", coordinate(x1), "\" y1=\"", coordinate(y1), "\" x2=\"", coordinate(x2), "\" y2=\"",
                 coordinate(y2), "\" class=\"", style, "\"/>");
}

std::string path(const std::string& commands, const std::string& style) {
  return message("<path d=\"", commands, "\" class=\"", style, "\"/>");
}

std::string marker(int kind, double x, double y, bool hollow) {
  const char* style = hollow ? "mark hollow" : "mark";
  const auto at = [&](double dx, double dy) { return message(coordinate(x + dx), ' ', coordinate(y + dy)); };
  switch (kind) {
    case 0:
      return message("<circle cx=\"", coordinate(x), "\" cy=\"", coordinate(y), "\" r=\"4\" class=\"", style, "\"/>");
    case 1:
      return path(message('M', at(-3.6, -3.6), 'H', coordinate(x + 3.6), 'V', coordinate(y + 3.6), 'H',
                          coordinate(x - 3.6), 'Z'),
                  style);
    case 2:
      return path(message('M', at(0, -4.8), 'L', at(4.6, 3.6), 'L', at(-4.6, 3.6), 'Z'), style);
    case 3:
      return path(message('M', at(0, -5.2), 'L', at(5.2, 0), 'L', at(0, 5.2), 'L', at(-5.2, 0), 'Z'), style);
    case 4:
      return path(message('M', at(0, 4.8), 'L', at(4.6, -3.6), 'L', at(-4.6, -3.6), 'Z'), style);
    default:
      return {};
  }
}

struct Label {
  double wanted, y, x;
  std::string text, style;
};

// Moves labels apart, each as little as possible: pushed down in order, then back up where they left the plot.
void spread(std::vector<Label>& labels, double from, double to) {
  std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.wanted < b.wanted; });
  double least = from;
  for (Label& label : labels) {
    label.y = std::max(label.wanted, least);
    least = label.y + line_height;
  }
  double most = to;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, most);
    most = label->y - line_height;
  }
}

struct Range {
  double x_low, x_high, y_low, y_high;
};

Range range_of(const Chart& chart) {
  Range range{HUGE_VAL, -HUGE_VAL, HUGE_VAL, -HUGE_VAL};
  for (const double tick : chart.x_ticks) {
    range.x_low = std::min(range.x_low, tick);
    range.x_high = std::max(range.x_high, tick);
  }
  const auto take = [&](double y) {
    range.y_low = std::min(range.y_low, y);
    range.y_high = std::max(range.y_high, y);
  };
  for (const Series& series : chart.series)
    for (const Point& point : series.points) {
      take(point.y);
      if (point.low < point.high) take(point.low), take(point.high);
    }
  if (chart.reference) take(*chart.reference);
  if (chart.y_most) take(*chart.y_most);
  if (range.y_low > range.y_high) range.y_low = range.y_high = 1;
  if (chart.log_y) {
    range.y_low /= 1.25;
    range.y_high *= 1.35;
  } else {
    range.y_low = 0;
    range.y_high *= 1.05;
  }
  return range;
}

}  // namespace

std::string draw(const Chart& chart) {
  std::size_t longest = 0;
  for (const Series& series : chart.series) longest = std::max(longest, series.label.size());
  longest = std::max(longest, chart.series_title.size());
  const double right = width - 14 - letter * static_cast<double>(longest), floor = height - bottom;
  const Range range = range_of(chart);
  const Scale x(range.x_low, range.x_high, left + 10, right - 10, chart.log_x);
  const Scale y(range.y_low, range.y_high, floor, top, chart.log_y);

  std::string svg =
      message("<svg viewBox=\"0 0 ", width, ' ', height, "\" role=\"img\" aria-label=\"", escape(chart.name), "\">\n");
  for (const double tick : chart.log_y ? log_ticks(range.y_low, range.y_high) : linear_ticks(range.y_high)) {
    svg += line(left, y(tick), right, y(tick), "grid");
    svg += text_at(left - 7, y(tick) + 4, "end", "tick", chart.y_text(tick));
  }
  for (const double tick : chart.x_ticks) {
    svg += line(x(tick), floor, x(tick), floor + 4, "axis");
    svg += text_at(x(tick), floor + 18, "middle", "tick", chart.x_text(tick));
  }
  svg += line(left, floor, right, floor, "axis");
  svg += text_at((left + right) / 2, height - 8, "middle", "label", chart.x_label);
  svg += message("<text transform=\"translate(13 ", coordinate((top + floor) / 2),
                 ") rotate(-90)\" text-anchor=\"middle\" class=\"label\">", escape(chart.y_label), "</text>\n");
  if (chart.reference) {
    svg += line(left, y(*chart.reference), right, y(*chart.reference), "reference");
    svg += text_at(left + 6, y(*chart.reference) - 5, "start", "tick", chart.reference_label);
  }

  std::vector<Label> labels;
  for (const Series& series : chart.series) {
    svg += message("<g class=\"", series.style, "\">");
    for (const double place : series.missing) {
      const double cx = x(place), cy = top + 5;
      svg += path(message('M', coordinate(cx - 4), ' ', coordinate(cy - 4), "l8 8m0 -8l-8 8"), "missing");
    }
    std::string commands;
    for (const Point& point : series.points)
      commands += message(commands.empty() ? 'M' : 'L', coordinate(x(point.x)), ' ', coordinate(y(point.y)));
    if (series.points.size() > 1) svg += path(commands, "line");
    for (const Point& point : series.points) {
      if (point.low < point.high) svg += line(x(point.x), y(point.low), x(point.x), y(point.high), "spread");
      if (series.marker < 0 && series.points.size() > 1) continue;
      svg += message("<g>", marker(std::max(series.marker, 0), x(point.x), y(point.y), point.hollow),
                     point.tip.empty() ? std::string() : message("<title>", escape(point.tip), "</title>"), "</g>");
    }
    svg += "</g>\n";
    if (!series.points.empty()) {
      const Point& last = series.points.back();
      labels.push_back({y(last.y), 0, x(last.x), series.label, series.style});
    }
  }
  spread(labels, top + (chart.series_title.empty() ? 6 : 6 + line_height), floor - 4);
  if (!chart.series_title.empty() && !labels.empty())
    svg += text_at(right + 5, labels.front().y + 4 - line_height, "start", "tick", chart.series_title);
  for (const Label& label : labels) {
    const double end = right + 5;
    if (std::abs(label.y - label.wanted) > 3 || end - label.x > 30)
      svg += message("<g class=\"", label.style, "\">", line(label.x + 6, label.wanted, end - 2, label.y, "leader"),
                     "</g>");
    svg += text_at(end, label.y + 4, "start", "name " + label.style, label.text);
  }
  return svg + "</svg>\n";
}

}  // namespace tern::study
