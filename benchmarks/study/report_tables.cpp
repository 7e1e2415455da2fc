// The tables of the report: profiles and cells; and the sentences at its top.

#include <algorithm>
#include <cmath>

#include "format.hpp"
#include "report.hpp"

namespace tern::study {

namespace {

constexpr std::size_t most_operators = 12;

std::string cell_of(const std::string& text, const char* style = "") {
  return message("<td", *style ? message(" class=\"", style, '"') : std::string(), '>', text, "</td>");
}

// A number with a bar.
std::string bar(double share, const std::string& text) {
  return message(
      "<td class=\"bar\"><span class=\"track\"><i style=\"width:", coordinate(std::clamp(share, 0.0, 1.0) * 100),
      "%\"></i></span><span class=\"figure\">", escape(text), "</span></td>");
}

// The profile shown for a row: of the batch nearest to 128.
const Cell* profiled(const Row& row) {
  const Cell* best = nullptr;
  const auto distance = [](const Cell& cell) { return std::abs(std::log(static_cast<double>(cell.key.batch) / 128)); };
  for (const Cell* cell : row.cells)
    if (!cell->profile.rows.empty() && (best == nullptr || distance(*cell) < distance(*best))) best = cell;
  return best;
}

// Merges rows beyond the first ones into one.
std::vector<ProfileRow> shortened(const ProfileTable& table) {
  std::vector<ProfileRow> rows(table.rows.begin(), table.rows.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                            table.rows.size(), most_operators)));
  if (table.rows.size() <= most_operators + 1) return table.rows;
  ProfileRow rest;
  double best = 0;
  for (std::size_t i = most_operators; i < table.rows.size(); ++i) {
    const ProfileRow& row = table.rows[i];
    rest.calls += row.calls;
    rest.seconds += row.seconds;
    rest.share += row.share;
    rest.flops += row.flops;
    rest.bytes += row.bytes;
    best += row.roofline * row.seconds;
  }
  rest.name = message(table.rows.size() - most_operators, " others");
  rest.roofline = rest.seconds > 0 ? best / rest.seconds : 0;
  rows.push_back(rest);
  return rows;
}

std::string moved(const std::vector<Transfer>& transfers) {
  std::string text;
  for (const Transfer& transfer : transfers)
    text += message(text.empty() ? "" : ", ", bytes(static_cast<double>(transfer.bytes)), " from ", transfer.from,
                    " to ", transfer.to, " in ", transfer.count, transfer.count == 1 ? " move" : " moves");
  return text.empty() ? "nothing, in one memory" : text;
}

std::string profile_table(const Study& study, const Row& row, const Cell& cell) {
  const ProfileTable& table = cell.profile;
  double products = 0, roofline = 0;
  for (const ProfileRow& part : table.rows) {
    if (part.flops > 0) products += part.share;
    roofline += part.roofline * part.share;
  }
  const Roofline& ceiling = study.machine.roofline.contains(roofline_key(row.key))
                                ? study.machine.roofline.at(roofline_key(row.key))
                                : Roofline{};
  std::string html = message(
      "<section class=\"profile\"><h3>",
      escape(message(net_name(study, row.net), " in ", row.title, ", batch ", cell.key.batch, ": ", percent(products),
                     " of the time in products and convolutions; the step runs at ", percent(roofline),
                     " of the roofline")),
      "</h3><p>One step, operator by operator: ", duration(table.seconds), " in operators. The roofline is ",
      number(ceiling.flops_per_second * 1e-9), " GFLOP/s of a large product and ",
      number(ceiling.bytes_per_second * 1e-9),
      " GB/s of a large copy, measured at the start. Moved between memories in a step: ", escape(moved(cell.transfers)),
      ".</p>\n",
      "<div class=\"wide\"><table><thead><tr><th>operator</th><th>calls</th><th>time</th><th>share of time</th>"
      "<th>GFLOP/s</th><th>GB/s</th><th>of roofline</th></tr></thead><tbody>\n");
  for (const ProfileRow& part : shortened(table))
    html += message("<tr><th scope=\"row\">", escape(part.name), part.backward ? " <em>backward</em>" : "", "</th>",
                    cell_of(count(part.calls)), cell_of(duration(part.seconds)), bar(part.share, percent(part.share)),
                    cell_of(part.flops > 0 ? number(part.flops_per_second() * 1e-9) : "–"),
                    cell_of(part.bytes > 0 ? number(part.bytes_per_second() * 1e-9) : "–"),
                    part.roofline > 0 ? bar(part.roofline, percent(part.roofline)) : cell_of("–"), "</tr>\n");
  return html + "</tbody></table></div></section>\n";
}

}  // namespace

std::string profile_sections(const Study& study, const std::string& net) {
  std::string html;
  for (const Row& row : rows_of(study, net))
    if (const Cell* cell = profiled(row)) html += profile_table(study, row, *cell);
  return html;
}

std::string cells_table(const Study& study, const std::string& net) {
  std::string html =
      "<div class=\"wide\"><table class=\"cells\"><thead><tr><th>mode</th><th>batch</th><th>step</th><th>10th to 90th "
      "percentile</th>"
      "<th>images/s</th><th>bringing the images</th><th>peak memory</th><th>steps</th><th>loss, first to last</th>"
      "<th>remark</th></tr></thead>\n";
  for (const Row& row : rows_of(study, net)) {
    html += "<tbody>\n";
    for (const Cell* cell : row.cells) {
      html += message("<tr><th scope=\"row\"><span class=\"key ", style_of(row.key), "\"></span>", escape(row.title),
                      "</th>", cell_of(std::to_string(cell->key.batch)));
      if (cell->time.median > 0)
        html += cell_of(duration(cell->time.median)) +
                cell_of(duration(cell->time.low) + " – " + duration(cell->time.high)) +
                cell_of(number(1 / seconds_per_image(*cell))) +
                cell_of(cell->transfers.empty() ? "–" : duration(cell->move_time.median, 2)) +
                cell_of(bytes(cell->peak_bytes)) + cell_of(count(std::ssize(cell->loss))) +
                cell_of(message(number(cell->loss.front()), " – ", number(cell->loss.back())));
      else
        html += "<td></td><td></td><td></td><td></td><td></td><td></td><td></td>";
      html += cell_of(escape(cell->note), "remark") + "</tr>\n";
    }
    html += "</tbody>\n";
  }
  return html + "</table></div>\n";
}

std::vector<std::string> findings(const Study& study) {
  std::vector<std::string> said;
  for (const std::string& net : nets_of(study)) {
    const Cell* best = nullptr;
    for (const Cell& cell : study.cells)
      if (cell.key.net == net && cell.time.median > 0 &&
          (best == nullptr || seconds_per_image(cell) < seconds_per_image(*best)))
        best = &cell;
    if (best == nullptr) continue;
    std::string text =
        message(net_name(study, net), " is trained fastest in ", title_of(best->key), ": ",
                number(1 / seconds_per_image(*best)), " images a second at a batch of ", best->key.batch);
    for (const char* mode : {"vectorized", "sequential"})
      for (const Row& row : rows_of(study, net))
        if (row.title == mode && best->key.mode != mode)
          if (const Cell* other = measured_at(row, best->key.batch))
            text += message(", ", times(other->time.median / best->time.median), " as fast as ", mode);
    said.push_back(text + ".");
  }
  std::int64_t steps = 0, odd = 0, cells = 0;
  double difference = 0;
  bool compared = false;
  std::vector<std::string> full;
  for (const Cell& cell : study.cells) {
    cells += !cell.loss.empty();
    for (const double loss : cell.loss) {
      ++steps;
      odd += !(loss >= 0) || !std::isfinite(loss);
    }
    if (cell.status == Status::does_not_fit)
      full.push_back(
          message(net_name(study, cell.key.net), " in ", title_of(cell.key), " at a batch of ", cell.key.batch));
    for (const Cell& other : study.cells) {
      if (&other <= &cell || other.key.net != cell.key.net || other.key.batch != cell.key.batch ||
          other.key.mode == cell.key.mode || other.key.precision != "strict" || cell.key.precision != "strict")
        continue;
      for (std::size_t i = 0; i < std::min({cell.loss.size(), other.loss.size(), std::size_t{10}}); ++i) {
        compared = true;
        difference =
            std::max(difference, std::abs(cell.loss[i] - other.loss[i]) / std::max(std::abs(cell.loss[i]), 1e-3));
      }
    }
  }
  said.push_back(
      odd == 0 ? message("The loss of all ", count(steps), " steps in ", cells, " cells is finite and never negative.")
               : message("The loss is negative or no number in ", odd, " of ", steps, " steps."));
  if (compared)
    said.push_back(message("Over the first ten steps of a cell the strict float32 losses of two modes differ by ",
                           difference == 0 ? "nothing" : message(number(difference * 100, 2), " % at most"), '.'));
  if (full.empty()) {
    said.push_back("Every batch fits into memory.");
  } else {
    std::string text;
    for (const std::string& cell : full) text += (text.empty() ? "" : ", ") + cell;
    said.push_back(message("Does not fit into memory: ", text, "."));
  }
  return said;
}

}  // namespace tern::study
