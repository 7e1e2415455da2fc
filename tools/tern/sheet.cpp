#include "sheet.hpp"

#include <span>

#include "output.hpp"
#include "page.hpp"

namespace tern::tool {

namespace {

constexpr const char* before = R"page(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
.row { display: flex; flex-wrap: wrap; gap: 12px; padding: 12px 0; border-top: 1px solid #8886; }
figure { margin: 0; width: 112px; }
figure.first { padding-right: 12px; border-right: 1px solid #8886; }
canvas { width: 112px; image-rendering: pixelated; display: block; background: #8883; }
figcaption { font-size: 12px; white-space: pre-line; overflow-wrap: anywhere; padding-top: 3px; }
</style>
<body><h1></h1><p></p>
<script>
const sheet = )page";

constexpr const char* after = R"page(;
document.title = document.querySelector("h1").textContent = sheet.title;
document.querySelector("p").textContent = sheet.note;
for (const row of sheet.rows) {
  const line = document.createElement("div");
  line.className = "row";
  row.forEach((one, i) => {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas"), p = one.pixels;
    if (i === 0 && sheet.firstApart) figure.className = "first";
    canvas.width = p.width; canvas.height = p.height;
    const bytes = atob(p.data), context = canvas.getContext("2d"), image = context.createImageData(p.width, p.height);
    for (let k = 0; k < p.width * p.height; ++k) {
      for (let c = 0; c < 3; ++c) image.data[4 * k + c] = bytes.charCodeAt(p.channels * k + (p.channels === 3 ? c : 0));
      image.data[4 * k + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    const caption = document.createElement("figcaption");
    caption.textContent = one.caption;
    figure.append(canvas, caption);
    line.append(figure);
  });
  document.body.append(line);
}
</script></body></html>
)page";

}  // namespace

void write_sheet(const std::string& file, const std::string& title, const std::string& note,
                 const std::vector<std::vector<SheetPicture>>& rows, bool first_apart) {
  Json sheet{{"title", title}, {"note", note}, {"firstApart", first_apart}, {"rows", Json::array()}};
  for (const auto& row : rows) {
    Json pictures = Json::array();
    for (const SheetPicture& picture : row)
      pictures.push_back({{"pixels", picture.pixels}, {"caption", picture.caption}});
    sheet["rows"].push_back(std::move(pictures));
  }
  write_file(file, before + in_script(sheet.dump(-1, ' ', false, Json::error_handler_t::replace)) + after);
}

}  // namespace tern::tool
