#pragma once
// What a reader sees cut or overlapping on a page, measured in the browser.

#include <string>

#include "browser.hpp"

namespace tern::testing {

/// A JavaScript expression: sentences about everything that is cut, leaves its drawing or covers other text.
inline const char* const layout_faults = R"js((() => {
  const bad = [], box = (node) => node.getBoundingClientRect();
  if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is wider than the window");
  for (const node of document.querySelectorAll(".scroll, .wide, .panel, figure, .chart, .legend, .legend > div, .tile, .profile"))
    if (node.scrollWidth > node.clientWidth + 1) bad.push("cut: " + node.className + " " + node.textContent.slice(0, 60));
  for (const svg of document.querySelectorAll(".chart > svg")) {
    const frame = box(svg), texts = [...svg.querySelectorAll("text")];
    texts.forEach((text, i) => {
      const a = box(text);
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        bad.push("outside: " + text.textContent);
      for (const other of texts.slice(i + 1)) {
        const b = box(other);
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
          bad.push("overlap: " + text.textContent + " and " + other.textContent);
      }
    });
  }
  return bad;
})())js";

/// Moves the pointer over the first drawing in `panel` (a selector) and tells what is then read below it, and what
/// leaves its place.
inline std::string hovering(const std::string& panel) {
  return "(" + std::string(R"js((panel) => {
  const svg = panel.querySelector("svg"), frame = svg.getBoundingClientRect();
  const height = panel.offsetHeight, said = [];
  for (const share of [0.02, 0.3, 0.6, 0.999]) {
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: frame.left + share * frame.width, clientY: frame.top + 90 }));
    const cursor = svg.querySelector(".cursor").getBoundingClientRect();
    if (cursor.left < frame.left || cursor.right > frame.right) said.push("the cursor leaves the drawing");
    if (panel.scrollWidth > panel.clientWidth || panel.offsetHeight !== height) said.push("the panel changes its size");
    said.push(panel.querySelector(".place").textContent);
  }
  return said;
})js") + ")(document.querySelector('" +
         panel + "'))";
}

/// The faults of a page on screens of three widths, light and dark, and in print.
inline std::string faults_of(Browser& browser) {
  std::string text;
  for (const char* kind : {"light", "dark", "print"})
    for (const int width : {1024, 1280, 1440}) {
      browser.resize(width);
      browser.show_as(kind);
      for (const auto& fault : browser.evaluate(layout_faults))
        text += std::string(kind) + " " + std::to_string(width) + ": " + fault.get<std::string>() + "\n";
    }
  return text;
}

}  // namespace tern::testing
