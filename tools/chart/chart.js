"use strict";
// Line charts as SVG, for the reports and the live page of tern and for the study. A chart is an object:
//   { title, x: axis, y: axis, series: [...], reference: { y, label } }
//   axis:   { label, kind, log, ticks, least, most, fit }   kind: number, count, percent, duration, bytes, times;
//           log: true, false, or "auto": where a few values would flatten the others; fit: 0 need not be on it
//   series: { label, style, marker, faint, dashed, scatter, points: [[x, y, low, high, hollow], ...], missing: [x, ...] }
// The legend below the drawing shows the values under the pointer, so that nothing is covered.

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
function drawn(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// ---- formatting numbers ----------------------------------------------------------------------------------------------
const isNumber = (x) => typeof x === "number" && isFinite(x);
const short = (x) => !isNumber(x) ? "–" : x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e6) ? x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e") : String(+x.toPrecision(4));
const scaled = (x, units) => {
  const [size, name] = units.find(([least]) => Math.abs(x) >= least) || units[units.length - 1];
  return +(x / size).toPrecision(3) + " " + name;
};
const kinds = {
  number: short,
  count: (x) => x.toLocaleString("en"),
  percent: (x) => +(100 * x).toFixed(2) + " %",
  duration: (x) => scaled(x, [[60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]),
  bytes: (x) => scaled(x, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]),
  times: (x) => +x.toPrecision(3) + "×",
};

// ---- axes ------------------------------------------------------------------------------------------------------------
function linearTicks(low, high, most) {
  const raw = (high - low) / most, power = Math.pow(10, Math.floor(Math.log10(raw || 1)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999), found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(+(i * step).toPrecision(12));
  return found;
}
function logTicks(low, high, most) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  for (const factors of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]])
    for (let every = 1; every === 1 || (factors.length === 1 && every < 400); ++every) {
      const found = [];
      for (let p = first; p <= last; p += every) for (const f of factors) found.push(f * Math.pow(10, p));
      const inside = found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
      if (inside.length <= most) return inside.length >= 2 ? inside : linearTicks(low, high, most);
    }
  return [low, high];
}
// A few values far above the others leave a linear axis to themselves.
function spiky(values) {
  const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
  return sorted.length === values.length && sorted.length > 2 && sorted[sorted.length - 1] > 10 * sorted[sorted.length >> 1];
}
function isLog(options) {
  const values = options.series.flatMap((s) => s.points.map((p) => p[1])).filter(isNumber);
  return options.y.log === "auto" ? spiky(values) : Boolean(options.y.log);
}
// Math.min(...values) would put them all on the stack.
const lowestOf = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const highestOf = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
function rangeOf(axis, log, values) {
  let low = lowestOf(values), high = highestOf(values);
  if (isNumber(axis.most)) high = Math.max(high, axis.most);
  if (axis.kind === "percent") { high = Math.min(1, Math.ceil(high * 20 + 0.01) / 20); low = Math.max(0, Math.floor(low * 20 - 0.01) / 20); }
  else if (log) { low /= 1.15; high *= 1.15; }
  else if (axis.fit) { const room = 0.04 * (high - low); low -= room; high += room; }
  else { low = Math.min(0, low); high *= 1.05; }
  if (!(high > low)) high = low + (low === 0 ? 1 : Math.abs(low) * 0.1);
  return [low, high];
}

// ---- drawing ---------------------------------------------------------------------------------------------------------
const letter = 7.2;  // the largest width of a letter in a label, in a drawing of 560
function markerAt(kind, x, y, hollow) {
  const shape = [
    () => drawn("circle", { cx: x, cy: y, r: 4 }),
    () => drawn("path", { d: `M${x - 3.6} ${y - 3.6}h7.2v7.2h-7.2z` }),
    () => drawn("path", { d: `M${x} ${y - 4.8}l4.6 8.4h-9.2z` }),
    () => drawn("path", { d: `M${x} ${y - 5.2}l5.2 5.2l-5.2 5.2l-5.2 -5.2z` }),
    () => drawn("path", { d: `M${x} ${y + 4.8}l4.6 -8.4h-9.2z` }),
  ][kind]();
  shape.setAttribute("class", hollow ? "mark hollow" : "mark");
  return shape;
}
// At most about 600 points per curve: the mean of each group.
function thinned(points) {
  const size = Math.ceil(points.length / 600), result = [];
  if (size <= 1) return points;
  for (let i = 0; i < points.length; i += size) {
    const part = points.slice(i, i + size);
    result.push([part[part.length - 1][0], part.reduce((sum, p) => sum + p[1], 0) / part.length]);
  }
  return result;
}
function chart(options) {
  const width = 560, height = 330, top = 26, bottom = 46, right = 16;
  const log = isLog(options), text = kinds[options.y.kind || "number"], xText = kinds[options.x.kind || "number"];
  const drawable = (v) => isNumber(v) && (!log || v > 0);
  const shown = options.series.map((s) => ({ ...s, points: s.points.filter((p) => isNumber(p[0]) && drawable(p[1])) }))
    .filter((s) => s.points.length > 0 || (s.missing || []).length > 0);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.title });
  const box = element("div", { class: "chart" }, svg);
  const all = shown.flatMap((s) => s.points);
  if (all.length === 0) {
    svg.append(drawn("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing measured yet"));
    return box;
  }
  const spreads = all.flatMap((p) => drawable(p[2]) && p[2] < p[3] ? [p[1], p[2], p[3]] : [p[1]]);
  const [low, high] = rangeOf(options.y, log, options.reference ? [...spreads, options.reference.y] : spreads);
  const yTicks = log ? logTicks(low, high, 8) : linearTicks(low, high, 6);
  const left = 16 + letter * Math.max(...yTicks.map((t) => text(t).length));
  const places = options.x.ticks || [...all.map((p) => p[0]), ...(options.x.fit ? [] : [options.x.least || 0])];
  const lowX = options.x.log || options.x.fit ? lowestOf(places) : Math.min(0, lowestOf(places)), highX = options.x.fit ? Math.max(highestOf(places), lowX + 1e-9 + Math.abs(lowX) * 1e-9) : Math.max(highestOf(places), lowX * 1.0001, 1e-9);
  const along = (v, a, b, isLogarithmic) => isLogarithmic ? Math.log(v / a) / Math.log(b / a) : (v - a) / (b - a);
  const inset = options.x.log ? 12 : 0, floor = height - bottom;
  const x = (v) => +(left + inset + (width - left - right - 2 * inset) * along(v, lowX, highX, options.x.log)).toFixed(1);
  const y = (v) => +(floor - (floor - top) * along(v, low, high, log)).toFixed(1);

  for (const t of yTicks)
    svg.append(drawn("line", { x1: left, x2: width - right, y1: y(t), y2: y(t), class: "grid" }), drawn("text", { x: left - 7, y: y(t) + 4, "text-anchor": "end", class: "tick" }, text(t)));
  let free = -Infinity;  // where the next label along x may begin
  for (const t of options.x.ticks || linearTicks(lowX, highX, 8)) {
    const half = letter * xText(t).length / 2, at = Math.min(x(t), width - half);
    svg.append(drawn("line", { x1: x(t), x2: x(t), y1: floor, y2: floor + 4, class: "axis" }));
    if (at - half < free) continue;
    free = at + half + 6;
    svg.append(drawn("text", { x: at, y: floor + 18, "text-anchor": "middle", class: "tick" }, xText(t)));
  }
  svg.append(drawn("line", { x1: left, x2: width - right, y1: floor, y2: floor, class: "axis" }),
    drawn("text", { x: left, y: 13, class: "label" }, options.y.label + (log ? ", logarithmic" : "")),
    drawn("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, options.x.label));
  if (options.reference)
    svg.append(drawn("line", { x1: left, x2: width - right, y1: y(options.reference.y), y2: y(options.reference.y), class: "reference" }),
      drawn("text", { x: width - right - 4, y: y(options.reference.y) - 5, "text-anchor": "end", class: "tick halo" }, options.reference.label));
  for (const s of shown) {
    const group = drawn("g", { class: `${s.style}${s.faint ? " faint" : ""}${s.dashed ? " dashed" : ""}` }), points = s.scatter ? s.points : thinned(s.points);
    for (const place of s.missing || []) group.append(drawn("path", { d: `M${x(place) - 4} ${top + 1}l8 8m0 -8l-8 8`, class: "missing" }));
    if (s.scatter) for (const p of points) group.append(drawn("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.4, class: "dot" }));
    else group.append(drawn("polyline", { points: points.map((p) => x(p[0]) + "," + y(p[1])).join(" "), class: "line", "data-points": s.points.length }));
    for (const p of points) {
      if (drawable(p[2]) && p[2] < p[3]) group.append(drawn("line", { x1: x(p[0]), x2: x(p[0]), y1: y(p[2]), y2: y(p[3]), class: "spread" }));
      if (!s.scatter && (isNumber(s.marker) || points.length === 1)) group.append(markerAt(s.marker || 0, x(p[0]), y(p[1]), p[4]));
    }
    svg.append(group);
  }

  // The values under the pointer; initially, those at the end.
  const cursor = drawn("line", { y1: top, y2: floor, class: "cursor", visibility: "hidden" });
  svg.append(cursor);
  const solid = shown.filter((s) => !s.faint && s.points.length > 0), read = solid.length > 0 ? solid : shown;
  const stops = [...new Set(read.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const values = shown.map(() => element("b", {})), place = element("p", { class: "place" });
  const show = (at) => {
    place.textContent = `at ${options.x.label} ${xText(at)}:`;
    shown.forEach((s, i) => {
      const near = s.points.length > 0 && s.points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      values[i].textContent = near && Math.abs(x(near[0]) - x(at)) < 8 ? text(near[1]) : "–";
    });
  };
  show(stops[stops.length - 1]);
  svg.addEventListener("pointermove", (event) => {
    const area = svg.getBoundingClientRect(), pointer = (event.clientX - area.left) * width / area.width;
    const at = stops.reduce((a, b) => Math.abs(x(b) - pointer) < Math.abs(x(a) - pointer) ? b : a);
    show(at);
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(at));
    cursor.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); show(stops[stops.length - 1]); });
  const key = (s) => {
    const swatch = drawn("svg", { viewBox: "0 0 30 12", class: "swatch" }, s.scatter ? drawn("circle", { cx: 15, cy: 6, r: 3, class: "dot" }) : drawn("line", { x1: 1, x2: 29, y1: 6, y2: 6, class: "line" }));
    if (isNumber(s.marker)) swatch.append(markerAt(s.marker, 15, 6, false));
    return element("span", { class: `${s.style}${s.faint ? " faint" : ""}${s.dashed ? " dashed" : ""}` }, swatch, element("span", { class: "of" }, s.label));
  };
  box.append(place, element("div", { class: "legend" }, ...shown.map((s, i) => element("div", {}, key(s), values[i]))));
  return box;
}
