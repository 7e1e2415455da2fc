#include "chart.hpp"

#include <nlohmann/json.hpp>

namespace tern::study {

namespace {

using Json = nlohmann::json;

Json to_json(const Axis& axis) {
  Json json{{"label", axis.label}, {"kind", axis.kind}, {"log", axis.log}};
  if (!axis.ticks.empty()) json["ticks"] = axis.ticks;
  if (axis.most) json["most"] = *axis.most;
  return json;
}

Json to_json(const Series& series) {
  Json json{{"label", series.label}, {"style", series.style}, {"points", Json::array()}, {"missing", series.missing}};
  if (series.marker >= 0) json["marker"] = series.marker;
  for (const Point& point : series.points)
    json["points"].push_back({point.x, point.y, point.low, point.high, point.hollow});
  return json;
}

}  // namespace

std::string draw(const Chart& chart) {
  Json json{{"title", chart.name}, {"x", to_json(chart.x)}, {"y", to_json(chart.y)}, {"series", Json::array()}};
  for (const Series& series : chart.series) json["series"].push_back(to_json(series));
  if (chart.reference) json["reference"] = {{"y", *chart.reference}, {"label", chart.reference_label}};
  std::string text = json.dump();
  // JSON may be inside a script only if it cannot end it.
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return "<script type=\"application/json\" class=\"drawing\">" + text + "</script>\n";
}

}  // namespace tern::study
