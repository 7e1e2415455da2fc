#include "page.hpp"

namespace tern::tool {

// page.html, made a string by CMake.
extern const char* const page_template;

namespace {

std::string replaced(const std::string& text, const std::string& mark, const std::string& by) {
  const auto at = text.find(mark);
  // What stands behind the mark is the value for an empty page, up to the semicolon.
  return text.substr(0, at) + by + text.substr(text.find(';', at));
}

}  // namespace

std::string in_script(std::string json) {
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + 1))
    json.replace(at, 1, "\\u003c");
  return json;
}

std::string page(const std::vector<PageRun>& runs, const std::string& live) {
  std::string data = "[";
  for (const PageRun& run : runs) {
    data += (data.size() > 1 ? ",\n" : "") +
            ("{\"name\":" + Json(run.name).dump(-1, ' ', false, Json::error_handler_t::replace)) + ",\"events\":[";
    for (std::size_t i = 0; i < run.lines.size(); ++i) data += (i == 0 ? "\n" : ",\n") + run.lines[i];
    data += "]}";
  }
  const std::string text = replaced(page_template, "/*RUNS*/", in_script(data + "]"));
  return live.empty() ? text : replaced(text, "/*LIVE*/", in_script(Json(live).dump()));
}

}  // namespace tern::tool
