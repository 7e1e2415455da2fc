#include "page.hpp"

#include <algorithm>
#include <string_view>

#include "errors.hpp"

namespace tern::tool {

// page.html, made a string by CMake.
extern const char* const page_template;

namespace {

std::string replaced(const std::string& text, const std::string& mark, const std::string& by) {
  const auto at = text.find(mark);
  // After the mark comes the value for an empty page, up to the semicolon.
  return text.substr(0, at) + by + text.substr(text.find(';', at));
}

// At most this many events of steps or epochs are shown: a curve has some 600 points.
constexpr std::size_t most_steps = 4096, most_epochs = 2048;

// All lines except invisible steps and epochs. The last one of each stays.
std::vector<std::string> thinned(const std::vector<std::string>& lines) {
  struct Kind {
    std::string_view begins;
    std::size_t most, count = 0, met = 0;
    bool takes(const std::string& line) const { return line.starts_with(begins); }
    bool keeps() {
      const std::size_t every = (count + most - 1) / most;
      return ++met == count || met % std::max<std::size_t>(1, every) == 0;
    }
  };
  Kind steps{R"({"event":"step")", most_steps}, epochs{R"({"event":"epoch")", most_epochs};
  for (const std::string& line : lines) {
    steps.count += steps.takes(line);
    epochs.count += epochs.takes(line);
  }
  std::vector<std::string> kept;
  for (const std::string& line : lines) {
    if (steps.takes(line) ? !steps.keeps() : epochs.takes(line) && !epochs.keeps()) continue;
    kept.push_back(line);
  }
  return kept;
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
            message("{\"name\":", json_text(run.name), ",\"count\":", run.lines.size(), ",\"events\":[");
    const std::vector<std::string> lines = thinned(run.lines);
    for (std::size_t i = 0; i < lines.size(); ++i) data += (i == 0 ? "\n" : ",\n") + lines[i];
    data += "]}";
  }
  // Data last: its content is not a mark.
  const std::string text =
      live.empty() ? std::string(page_template) : replaced(page_template, "/*LIVE*/", in_script(json_text(live)));
  return replaced(text, "/*RUNS*/", in_script(data + "]"));
}

}  // namespace tern::tool
