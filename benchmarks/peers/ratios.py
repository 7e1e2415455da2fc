"""Reports how the layers of a sweep compare: rows of ratio, kind, sort, phase, layer, theirs, how, own, layout and
decisions."""


def distribution(rows):
    ratios = sorted(row["ratio"] for row in rows)
    at = lambda q: ratios[min(len(ratios) - 1, int(q * len(ratios)))]
    return (f"{len(ratios)} | {at(0.5):.2f} | {at(0.05):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} | "
            f"{100 * sum(r >= 1 for r in ratios) / len(ratios):.0f} % | {sum(r < 0.85 for r in ratios)} | "
            f"{sum(r < 0.5 for r in ratios)} |")


def report(rows, worst, theirs, unit="us"):
    """The distribution of the rows, as a whole, by kind and phase and by sort, and the worst of them."""
    rows = [row for row in rows if row["ratio"] == row["ratio"]]  # neither ran: no number
    if not rows:
        return "No layers.\n"
    lines = ["| layers | count | median | 5th percentile | least | most | ahead | below 0.85 | below 0.5 |",
             "|---" * 9 + "|", f"| all | {distribution(rows)}"]
    for column in ("phase", "kind", "sort"):
        for value in dict.fromkeys(row[column] for row in rows):
            some = [row for row in rows if row[column] == value]
            if column != "sort" or any(row["sort"] != value and row["kind"] == some[0]["kind"] for row in rows):
                lines.append(f"| {value} | {distribution(some)}")
            phases = dict.fromkeys(row["phase"] for row in some)
            if column == "kind" and len(phases) > 1:
                lines += [f"| {value}, {phase} | {distribution([row for row in some if row['phase'] == phase])}"
                          for phase in phases]
    lines += ["", f"| ratio | phase | layer | {theirs}, {unit} | how | Tern, {unit} | x | algorithms |",
              "|---" * 8 + "|"]
    for row in sorted(rows, key=lambda row: row["ratio"])[:worst]:
        lines.append(f"| {row['ratio']:.2f} | {row['phase']} | {row['layer']} | {row['theirs']:.1f} | {row['how']} | "
                     f"{row['own']:.1f} | {row['layout']} | {row.get('decisions', '')} |")
    return "\n".join(lines) + "\n"
