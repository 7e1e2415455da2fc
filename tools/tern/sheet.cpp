#include "sheet.hpp"

#include "output.hpp"
#include "page.hpp"

namespace tern::tool {

namespace {

constexpr const char* page_begin = R"page(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; --wrong: #c3261c; --bar: #2a6fb8; }
@media (prefers-color-scheme: dark) { :root { --wrong: #ff8577; --bar: #6fb0f2; } }
body { max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.4rem 0 0; }
p { margin: 0; max-width: 70ch; white-space: pre-line; }
.part { display: grid; grid-template-columns: repeat(auto-fill, minmax(112px, 1fr)); gap: 16px 12px; padding: 12px 0;
  border-top: 1px solid #8886; margin-top: 12px; }
h2 + .part { margin-top: 6px; }
.row { display: flex; flex-wrap: wrap; }
.row figure { width: 112px; }
figure { margin: 0; min-width: 0; }
figure.first { padding-right: 12px; border-right: 1px solid #8886; }
canvas { width: 112px; display: block; background: #8883; }
canvas.small { image-rendering: pixelated; }
.wrong canvas { outline: 3px solid var(--wrong); }
.bar { width: 112px; height: 4px; background: #8883; margin-top: 5px; }
.bar div { height: 100%; background: var(--bar); }
.wrong .bar div { background: var(--wrong); }
figcaption { font-size: 12px; line-height: 1.35; white-space: pre-line; overflow-wrap: anywhere; padding-top: 3px; }
figcaption b { font-size: 14px; display: block; }
figcaption .says { color: var(--wrong); font-weight: 600; display: block; }
figcaption .file { opacity: .65; font-size: 11px; display: block; }
@media print { figure { break-inside: avoid; } }
</style>
<body><h1></h1><p></p>
<script>
const sheet = )page";

constexpr const char* page_end = R"page(;
const element = (name, kind, text, parent) => {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text) made.textContent = text;
  if (parent) parent.append(made);
  return made;
};
const draw = (canvas, p) => {
  canvas.width = p.width; canvas.height = p.height;
  const bytes = atob(p.data), context = canvas.getContext("2d"), image = context.createImageData(p.width, p.height);
  for (let k = 0; k < p.width * p.height; ++k) {
    for (let c = 0; c < 3; ++c) image.data[4 * k + c] = bytes.charCodeAt(p.channels * k + (p.channels === 3 ? c : 0));
    image.data[4 * k + 3] = 255;
  }
  context.putImageData(image, 0, 0);
};
document.title = document.querySelector("h1").textContent = sheet.title;
document.querySelector("p").textContent = sheet.note;
for (const part of sheet.parts) {
  if (part.heading) element("h2", "", part.heading, document.body);
  const line = element("div", sheet.firstApart ? "part row" : "part", "", document.body);
  part.pictures.forEach((one, i) => {
    const apart = i === 0 && sheet.firstApart;
    const figure = element("figure", apart ? "first" : one.wrong ? "wrong" : "", "", line);
    const canvas = element("canvas", one.pixels.width < 56 ? "small" : "", "", figure);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", [one.file, one.title, one.wrong].filter(Boolean).join(", ") || one.caption);
    draw(canvas, one.pixels);
    if ("share" in one) element("div", "", "", element("div", "bar", "", figure)).style.width = 100 * one.share + "%";
    const caption = element("figcaption", "", "", figure);
    if (one.title) element("b", "", one.title, caption);
    if (one.caption) element("span", "", one.caption, caption);
    if (one.wrong) element("span", "says", one.wrong, caption);
    if (one.file) element("span", "file", one.file.replaceAll("/", "/\u200b"), caption);
  });
}
</script></body></html>
)page";

Json json_of(const SheetPicture& picture) {
  Json json{{"pixels", picture.pixels}};
  for (const auto& [name, text] : {std::pair{"caption", &picture.caption},
                                   {"title", &picture.title},
                                   {"wrong", &picture.wrong},
                                   {"file", &picture.file}})
    if (!text->empty()) json[name] = *text;
  if (picture.share) json["share"] = *picture.share;
  return json;
}

}  // namespace

void write_sheet(const std::string& file, const std::string& title, const std::string& note,
                 const std::vector<SheetPart>& parts, bool first_apart) {
  Json sheet{{"title", title}, {"note", note}, {"firstApart", first_apart}, {"parts", Json::array()}};
  for (const SheetPart& part : parts) {
    Json pictures = Json::array();
    for (const SheetPicture& picture : part.pictures) pictures.push_back(json_of(picture));
    sheet["parts"].push_back({{"heading", part.heading}, {"pictures", std::move(pictures)}});
  }
  write_file(file, page_begin + in_script(sheet.dump(-1, ' ', false, Json::error_handler_t::replace)) + page_end);
}

}  // namespace tern::tool
