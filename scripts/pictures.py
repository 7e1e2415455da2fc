#!/usr/bin/env python3
"""Draws the pictures of the documentation from benchmarks/results, light and dark.

usage: scripts/pictures.py                        draws them
       scripts/pictures.py --check                writes nothing, and fails where a picture is not what the results give
       scripts/pictures.py --training RUN COMMIT  first takes the curves of RUN, the folder of a training at COMMIT by
             tern train --dataset mnist --net lenet --epochs 8 --run RUN
"""
import csv, html, json, math, pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
results, pictures = root / "benchmarks/results", root / "docs/pictures"

THEMES = {  # as tools/chart/chart.css has them
    "light": dict(paper="#ffffff", panel="#f6f7f9", ink="#16191d", soft="#565f6a", grid="#e2e6ea", vectorized="#0067a8",
                  cuda="#c44e00", good="#00795a", bad="#b3261e"),
    "dark": dict(paper="#15181c", panel="#1d2126", ink="#e9ecef", soft="#a5aeb8", grid="#30363d", vectorized="#58b4f0",
                 cuda="#ff8a3d", good="#2fce9f", bad="#ff8a80"),
}
NAMES = {"mlp-small": "MLP, 3 x 196", "mlp-medium": "MLP, 3 x 392", "mlp-big": "MLP, 3 x 784", "lenet": "LeNet",
         "alexnet": "AlexNet", "googlenet": "GoogLeNet"}


def rows_of(name):
    """The rows of a page's tables: dictionaries by column, with the table's precision, the section and its commits."""
    found, head, precision, commits, section = [], None, "strict", (), ""
    for line in (results / name).read_text().splitlines():
        if stated := re.search(r"precision (\w+)\. Median|^##+ (strict|tf32|bf16)\b", line, re.IGNORECASE):
            precision = (stated[1] or stated[2]).lower()
        if line.startswith("## "):
            commits, section = (), line[3:]
        if not line.startswith("|"):
            commits = (*commits, *commits_in(line))
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif not set(line) <= set("|-: "):
            found.append({"precision": precision, "commits": commits, "section": section} | dict(zip(head, cells)))
    return found


def commits_in(text):
    """The commits that a text names as those of its figures: "Commit A; in strict float32 B"."""
    sentences = re.findall(r"\bcommit [0-9a-f]{7}[^.,]*", text, re.IGNORECASE)
    return [c[:7] for c in re.findall(r"\b[0-9a-f]{7,40}\b", " ".join(sentences))]


def commits_of(rows):
    return ", ".join(dict.fromkeys(commit for row in rows for commit in row["commits"]))


def number(text):
    return float(text.split()[0])


class Drawing:
    def __init__(self, width, height, theme, title):
        self.theme, self.parts = THEMES[theme], []
        self.parts.append(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
                          f'aria-label="{html.escape(title)}" '
                          'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">')
        self.box(0, 0, width, height, "paper")

    def box(self, x, y, width, height, colour, radius=0):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
                          f'fill="{self.theme[colour]}"/>')

    def text(self, x, y, text, colour="ink", size=13, anchor="start", weight=400):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{self.theme[colour]}" font-size="{size}" '
                          f'text-anchor="{anchor}" font-weight="{weight}">{html.escape(text)}</text>')

    def line(self, points, colour, width=1.0, opacity=1.0):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{line}" fill="none" stroke="{self.theme[colour]}" stroke-width="{width}" '
                          f'stroke-opacity="{opacity}" stroke-linejoin="round"/>')

    def done(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def times(value):
    return f"{value:,.0f}x" if value >= 10 else f"{value:.1f}x"


def modes(theme):
    """Speed-ups of a training step over sequential."""
    cells = [r for r in rows_of("modes-h200.md") if r["phase"] == "train" and r["batch"] in ("32", "512")]
    drawing = Drawing(860, 66 + 44 * len(cells) + 34, theme, "Training steps: vectorized and cuda beside sequential")
    drawing.text(20, 28, "One training step, times as fast as sequential", size=17, weight=600)
    drawing.text(20, 48, "vectorized: 16 cores of an Intel Xeon; cuda: one NVIDIA H200. Logarithmic.", "soft")
    most = max(number(r["sequential"]) / number(r["cuda"]) for r in cells)
    scale = lambda ratio: 470 * math.log(max(ratio, 1)) / math.log(most)
    for i, r in enumerate(cells):
        y = 66 + 44 * i
        drawing.text(190, y + 21, f"{NAMES.get(r['net'], r['net'])}, batch {r['batch']}", anchor="end")
        for k, mode in enumerate(("vectorized", "cuda")):
            ratio = number(r["sequential"]) / number(r[mode])
            drawing.box(200, y + 3 + 17 * k, scale(ratio), 14, mode, 2)
            drawing.text(206 + scale(ratio), y + 15 + 17 * k, f"{times(ratio)} {mode}", size=12)
    drawing.text(20, 66 + 44 * len(cells) + 20, f"Measured at commit {commits_of(cells)}.", "soft", 12)
    return drawing.done()


def peers(theme):
    """Every cell compared with PyTorch's best variant: a dot per cell; slower ones have labels."""
    groups, behind, seen = {}, [], set()
    for page in ("peers-jax-h200.md", "peers-images-h200.md"):  # the first page that has a cell counts
        for r in rows_of(page):
            if r.get("phase") not in ("train", "infer") or "ratio" not in r:
                continue
            cell = (r["net"], r["phase"], r["batch"], r["precision"])
            if cell in seen:
                continue
            seen.add(cell)
            net = NAMES.get(r["net"], r["net"])
            groups.setdefault((net, r["phase"]), []).append(r)
            if number(r["ratio"]) < 1:
                behind.append(f"{net} {r['phase']} {r['batch']} {r['precision']} ({r['ratio']})")
    rows = sorted(groups.items(), key=lambda row: (list(NAMES.values()).index(row[0][0]), row[0][1] != "train"))
    notes = [", ".join(behind[i:i + 3]) for i in range(0, len(behind), 3)]
    floor = 74 + 26 * len(rows)
    drawing = Drawing(860, floor + 62 + 17 * (len(notes) + 1), theme,
                      "Tern on an H200 beside PyTorch and JAX at their best")
    total = sum(len(cells) for _, cells in rows)
    ahead = f"ahead in {total - len(behind)} of {total} cells"
    drawing.text(20, 28, f"Beside PyTorch and JAX on an H200: {ahead}", size=17, weight=600)
    drawing.text(20, 48, "The fastest peer's time over Tern's (JAX: MLPs and LeNet); a dot for each batch size and "
                 "precision.", "soft")
    most = max(number(r["ratio"]) for _, cells in rows for r in cells)
    low = min([number(r["ratio"]) for _, cells in rows for r in cells] + [0.8]) / 1.05
    x = lambda ratio: 230 + 590 * math.log(ratio / low) / math.log(most * 1.05 / low)
    for tick in (0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4):
        if not low <= tick <= most * 1.05:
            continue
        drawing.line([(x(tick), 62), (x(tick), floor)], "soft" if tick == 1 else "grid")
        drawing.text(x(tick), floor + 17, f"{tick:g}", "soft", 12, "middle")
    for i, ((net, phase), cells) in enumerate(rows):
        y = 78 + 26 * i
        drawing.text(216, y + 4, f"{net}, {'training' if phase == 'train' else 'inference'}", anchor="end")
        for r in cells:
            colour = "good" if number(r["ratio"]) >= 1 else "bad"
            drawing.parts.append(f'<circle cx="{x(number(r["ratio"])):.1f}" cy="{y}" r="5" '
                                 f'fill="{drawing.theme[colour]}" fill-opacity="0.65"/>')
    drawing.text(20, floor + 42, "Behind: " + ("none." if not notes else ""), "bad", 12, weight=600)
    for i, note in enumerate(notes):
        drawing.text(76, floor + 42 + 17 * i, note, "soft", 12)
    drawing.text(20, floor + 50 + 17 * (len(notes) or 1),
                 f"Measured at commits {commits_of(r for _, cells in rows for r in cells)}.", "soft", 12)
    return drawing.done()


def best_of(row):
    """A row's ratio of the best peer to Tern; None: not measured."""
    ratios = [cell for column, cell in row.items() if column.startswith(("best peer / ", "PyTorch / "))]
    return float(ratios[-1].split()[0]) if ratios and re.match(r"[0-9.]+(?= |$)", ratios[-1]) else None


def networks(theme):
    """All networks of models/ on a GPU and on two cores, a dot per cell, without sections of what was "before";
    convolutions drawn at random."""
    names = ["MLP", "LeNet", "AlexNet", "VGG16", "GoogLeNet", "ResNet18", "ResNet50", "MobileNetV2", "U-Net",
             "ViT-B/16"]
    panels = [("One H100 or H200: PyTorch's best over Tern", "nets-gpu.md", ""),
              ("Two cores, AVX-512: best peer over Tern", "nets-cpu.md", "Two threads")]
    floor = 98 + 26 * (len(names) + 1)
    behind, drawn = [], []
    for panel, (title, page, only) in enumerate(panels):
        rows = rows_of(page)
        cells = {name: [] for name in names}
        for row in rows:
            name = (row.get("net") or row.get("network") or "").split(" (")[0]
            old = " before " in row["section"]
            ratio = best_of(row) if row["section"].startswith(only) and not old else None
            if name not in cells or ratio is None:
                continue
            cells[name].append(ratio)
            if ratio < 1:
                where = f"GPU, {row['precision']}" if panel == 0 else "cores"
                images = row.get("batch") or row.get("images", "1")
                behind.append(f"{name} {row.get('phase', 'inference')} of {images}, {where} ({ratio:.2f})")
        # The first of the largest sweeps: on a GPU all kinds in TF32, on cores AVX-512.
        sweeps = [row for row in rows if row["section"].startswith("Random") and "5th percentile" in row
                  and "95th" in row]
        largest = max(sweeps, key=lambda row: int(row.get("count") or row["layers"]), default=None)
        spread = largest and [float(largest[c]) for c in ("5th percentile", "median", "95th")]
        drawn.append((title, cells, spread))
    notes = [", ".join(behind[i:i + 3]) for i in range(0, len(behind), 3)]
    drawing = Drawing(860, floor + 48 + 17 * len(notes), theme, "Tern's ten networks beside the fastest peer")
    counts = [r for _, cells, _ in drawn for row in cells.values() for r in row]
    ahead = f"ahead or level in {sum(r >= 1 for r in counts)} of {len(counts)} cells"
    drawing.text(20, 28, f"All networks that Tern ships: {ahead}", size=17, weight=600)
    drawing.text(20, 48, "A dot for each phase, batch size and precision; right of 1 Tern is faster. Bars: 5th "
                 "to 95th percentile of random convolutions.", "soft", 12)
    low, high = 0.5, 5.0
    for panel, (title, cells, spread) in enumerate(drawn):
        left = 130 + 375 * panel
        x = lambda ratio: left + 330 * math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        drawing.text(left, 74, title, weight=600)
        for tick in (0.5, 0.7, 1, 1.5, 2, 3, 5):
            drawing.line([(x(tick), 82), (x(tick), floor)], "soft" if tick == 1 else "grid")
            drawing.text(x(tick), floor + 17, f"{tick:g}", "soft", 12, "middle")
        for i, (name, ratios) in enumerate([*cells.items(), ("at random", [])]):
            y = 98 + 26 * i
            if panel == 0:
                drawing.text(118, y + 4, name, anchor="end")
            for ratio in ratios:
                colour = "good" if ratio >= 1 else "bad"
                drawing.parts.append(f'<circle cx="{x(ratio):.1f}" cy="{y}" r="5" fill="{drawing.theme[colour]}" '
                                     'fill-opacity="0.65"/>')
        if spread:
            y = 98 + 26 * len(names)
            drawing.line([(x(spread[0]), y), (x(spread[2]), y)], "vectorized", 6, 0.5)
            drawing.line([(x(spread[1]), y - 8), (x(spread[1]), y + 8)], "vectorized", 3)
    drawing.text(20, floor + 42, "Behind: " + ("none." if not notes else ""), "bad", 12, weight=600)
    for i, note in enumerate(notes):
        drawing.text(76, floor + 42 + 17 * i, note, "soft", 12)
    return drawing.done()


def curve(drawing, left, top, width, height, title, kinds, percent=False, log=False):
    """A panel of the report: curves over epochs."""
    drawing.box(left, top, width, height, "panel", 8)
    drawing.text(left + 16, top + 26, title, size=14, weight=600)
    values = [v for _, points, *_ in kinds for _, v in points]
    low, high = (min(values) / 1.15, max(values) * 1.15) if log else (min(values) - 0.002, 1)
    last = max(e for _, points, *_ in kinds for e, _ in points)
    scaled = (lambda v: math.log(v / low) / math.log(high / low)) if log else (lambda v: (v - low) / (high - low))
    x = lambda e: left + 62 + (width - 84) * e / last
    y = lambda v: top + height - 62 - (height - 108) * scaled(v)
    if log:
        ticks = [m * 10.0 ** p for p in range(-4, 3) for m in (1, 3)]
    else:  # the finest steps below 1 of which six reach the lowest value
        steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
        ticks = [1 - i * step for step in steps if (1 - low) / step <= 6 for i in range(7)][:7]
    for t in ticks:
        if low <= t <= high:
            drawing.line([(left + 62, y(t)), (left + width - 22, y(t))], "grid")
            drawing.text(left + 54, y(t) + 4, f"{100 * t:.4g} %" if percent else f"{t:g}", "soft", 11, "end")
    for e in range(int(last) + 1):
        drawing.text(x(e), top + height - 44, str(e), "soft", 11, "middle")
    at = left + 62
    for label, points, colour, thin in kinds:
        drawing.line([(x(e), y(v)) for e, v in points], colour, 1 if thin else 2, 0.5 if thin else 1)
        drawing.line([(at, top + height - 18), (at + 24, top + height - 18)], colour, 2)
        drawing.text(at + 30, top + height - 14, label, "soft", 12)
        at += 48 + 7 * len(label)
    drawing.text(left + width - 22, top + height - 28, "epoch", "soft", 11, "end")


def training(theme):
    """A screenshot-like picture of a report: a training on MNIST."""
    lines = (results / "training-mnist.csv").read_text().splitlines()
    facts = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    take = lambda kind: [(float(r["epoch"]), float(r["value"])) for r in rows if r["kind"] == kind]
    drawing = Drawing(860, 452, theme, "A report of tern: a training on MNIST")
    drawing.text(20, 34, f"Training of {facts['net']}", size=20, weight=600)
    drawing.text(20, 56, f"on MNIST, after the report that tern writes; {facts['machine']}", "soft")
    tiles = [(f"{100 * take('validation accuracy')[-1][1]:.2f} %", "accuracy on the test part"),
             (f"{take('validation loss')[-1][1]:.4f}", "loss there"),
             (facts["epochs"], "epochs"), (facts["parameters"], "parameters")]
    left = 20
    for value, label in tiles:
        width = 34 + max(12 * len(value), 6.6 * len(label))
        drawing.box(left, 72, width, 60, "panel", 8)
        drawing.text(left + 16, 99, value, size=20, weight=600)
        drawing.text(left + 16, 120, label, "soft", 12)
        left += width + 12
    curve(drawing, 20, 146, 404, 270, "Loss, logarithmic",
          [("each step", take("step loss"), "vectorized", True), ("training", take("loss"), "vectorized", False),
           ("test part", take("validation loss"), "cuda", False)], log=True)
    curve(drawing, 436, 146, 404, 270, "Accuracy",
          [("training", take("accuracy"), "vectorized", False),
           ("test part", take("validation accuracy"), "cuda", False)], percent=True)
    drawing.text(20, 438, f"Measured at commit {facts['commit']}: {facts['command']}", "soft", 12)
    return drawing.done()


def take_training(run, commit):
    """Writes the curves of a run of tern train to training-mnist.csv."""
    events = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]
    start, machine, settings = events[0], events[0]["machine"], events[0]["settings"]
    done = sum(event["event"] == "epoch" for event in events)
    threads = f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''}"
    lines = [f"# commit: {commit}",
             f"# command: tern train --dataset mnist --net {settings['net']} --epochs {start['epochs']} --run RUN",
             f"# net: {settings['net']}",
             f"# machine: {machine['mode']}, {threads}, {machine['processor']}",
             f"# parameters: {start['parameters']:,}",
             f"# epochs: {done if done == start['epochs'] else str(done) + ' of ' + str(start['epochs'])}",
             "kind,epoch,value"]
    for event in events:
        if event["event"] == "step":
            lines.append(f"step loss,{event['step'] / start['steps_per_epoch']:.4f},{event['loss']:.5f}")
        if event["event"] == "epoch":
            for kind in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
                lines.append(f"{kind.replace('_', ' ')},{event['epoch']},{event[kind]:.5f}")
    (results / "training-mnist.csv").write_text("\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--training"]:
        take_training(*sys.argv[2:4])
    check, stale = "--check" in sys.argv[1:], []
    for draw in (modes, peers, networks, training):
        for theme in THEMES:
            file, picture = pictures / f"{draw.__name__}-{theme}.svg", draw(theme)
            if check and (not file.exists() or file.read_text() != picture):
                stale.append(str(file.relative_to(root)))
            elif not check:
                pictures.mkdir(exist_ok=True)
                file.write_text(picture)
    if stale:
        sys.exit("not what benchmarks/results gives: " + ", ".join(stale) + "; run scripts/pictures.py")


main()
