#include "report.hpp"

#include <algorithm>

#include "chart.hpp"
#include "format.hpp"
#include "nets.hpp"

namespace tern::study {

std::vector<Row> rows_of(const Study& study, const std::string& net) {
  std::vector<Row> rows;
  for (const Cell& cell : study.cells) {
    if (cell.key.net != net) continue;
    const std::string title = title_of(cell.key);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.title == title; });
    if (row == rows.end()) row = rows.insert(row, {net, title, cell.key, {}});
    row->cells.push_back(&cell);
  }
  return rows;
}

std::vector<std::string> nets_of(const Study& study) {
  std::vector<std::string> nets;
  for (const std::string& net : net_names())
    if (std::any_of(study.cells.begin(), study.cells.end(), [&](const Cell& cell) { return cell.key.net == net; }))
      nets.push_back(net);
  return nets;
}

std::string net_name(const Study& study, const std::string& net) {
  const auto facts = study.nets.find(net);
  return facts == study.nets.end() ? net : facts->second.name;
}

double seconds_per_image(const Cell& cell) { return cell.time.median / static_cast<double>(cell.key.batch); }

const Cell* measured_at(const Row& row, std::int64_t batch) {
  for (const Cell* cell : row.cells)
    if (cell->key.batch == batch && cell->time.median > 0) return cell;
  return nullptr;
}

std::vector<std::pair<double, double>> epoch_losses(const Cell& cell) {
  std::vector<std::pair<double, double>> result;
  const auto steps = static_cast<std::int64_t>(cell.loss.size()), whole = std::max<std::int64_t>(cell.per_epoch, 1);
  for (std::int64_t begin = 0; begin < steps; begin += whole) {
    const std::int64_t end = std::min(begin + whole, steps);
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += cell.loss[static_cast<std::size_t>(i)];
    result.emplace_back(static_cast<double>(end) / static_cast<double>(whole), sum / static_cast<double>(end - begin));
  }
  return result;
}

std::string style_of(const CellKey& key) {
  if (key.mode == "sequential") return "sequential";
  if (key.mode == "vectorized") return "vectorized";
  return key.precision == "tf32" ? "tf32" : key.precision == "bf16" ? "bf16" : "cuda";
}

int marker_of(const CellKey& key) {
  const std::string style = style_of(key);
  return style == "sequential" ? 3 : style == "vectorized" ? 1 : style == "tf32" ? 2 : style == "bf16" ? 4 : 0;
}

namespace {

// Puts the drawings beside their numbers.
constexpr const char* draw_all =
    "for (const node of document.querySelectorAll('script.drawing')) "
    "node.replaceWith(chart(JSON.parse(node.textContent)));\n";

std::string facts_line(const NetFacts& facts) {
  return message(count(facts.parameters), " parameters, ", number(facts.forward_flops * 1e-9),
                 " GFLOP forward for an image of ", facts.image_size, " × ", facts.image_size, " pixels");
}

// A description of the modes for readers who do not know Tern.
std::string modes_line(const Study& study) {
  const auto has = [&](const auto& wanted) { return std::any_of(study.cells.begin(), study.cells.end(), wanted); };
  std::string text;
  if (has([](const Cell& cell) { return cell.key.mode == "sequential"; }))
    text += "<b>sequential</b> is plain loops on one core, ";
  if (has([](const Cell& cell) { return cell.key.mode == "vectorized"; }))
    text += "<b>vectorized</b> uses the vector units of all cores, ";
  if (has([](const Cell& cell) { return cell.key.mode == "cuda"; })) text += "<b>cuda</b> is the GPU, ";
  if (!text.empty()) text = text.substr(0, text.size() - 2) + "; ";
  text += "float32 throughout";
  if (has([](const Cell& cell) { return cell.key.precision != "strict"; }))
    text += ", with products in reduced precision where <b>tf32</b> or <b>bf16</b> is named";
  return text + ".";
}

std::string method(const Study& study) {
  const Setting& setting = study.setting;
  std::string text =
      message("<p>Each network starts from the same weights (seed ", setting.seed, ") and is trained for ",
              setting.epochs, " epochs of ", escape(study.data),
              " by SGD with momentum 0.9 and weight decay 0.0005; the learning rate is ", number(setting.learning_rate),
              " from a batch of 32 on and proportional to smaller ones. A step is forward, loss, backward and update",
              "; a mode that can (cuda) records it once and replays it as one graph. The images are decoded before, "
              "lie in host memory, and are "
              "brought to the device before the clock of a step starts; that time is in the table apart. The host "
              "reads the loss after every "
              "step. The first step (three where steps are recorded) warms up and is in no figure but the loss.</p>");
  const auto has = [&](Status status) {
    return std::any_of(study.cells.begin(), study.cells.end(), [&](const Cell& cell) { return cell.status == status; });
  };
  if (has(Status::cut) || has(Status::too_slow))
    text +=
        "<p>Some cells had a time limit. Such a cell is cut after the first step that ends later, and its figures are "
        "those of the "
        "steps until then; a cell of which two steps would take longer, judged by the next smaller batch, is not run. "
        "The table of "
        "all cells says which.</p>";
  if (setting.steps > 0) text += message("<p>A cell has at most ", setting.steps, " steps.</p>");
  if (setting.width_divisor > 1)
    text += message("<p>These are trial networks: all channels are divided by ", setting.width_divisor, ".</p>");
  text +=
      "<p>Profiles are of one step run operator by operator, timed on the device. FLOPs are counted by definition (a "
      "multiply-add is "
      "two) in products and convolutions; bytes count every tensor that an operator reads or writes once. The share of "
      "the roofline is "
      "the time that the machine needs at best for these, call by call, over the time taken: above 100 % where data "
      "stays in a cache, or "
      "an algorithm needs fewer operations than the definition.</p>";
  return text;
}

// "7a8f238 in 60 cells, c4a97dc in 7"; a single commit if all cells have one; empty if none is known.
std::string commits(const Study& study) {
  std::vector<std::pair<std::string, int>> counts;
  for (const Cell& cell : study.cells) {
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == cell.commit; });
    if (known == counts.end())
      counts.emplace_back(cell.commit, 1);
    else
      ++known->second;
  }
  if (counts.size() == 1) return counts.front().first;
  std::string text;
  for (const auto& [commit, count] : counts)
    text += message(text.empty() ? "" : ", ", commit.empty() ? "unknown" : commit, " in ", count,
                    !text.empty() ? ""
                    : count == 1  ? " cell"
                                  : " cells");
  return text;
}

std::string machine_table(const Study& study) {
  std::string html = message("<table class=\"facts\"><tbody><tr><th scope=\"row\">processor</th><td>",
                             escape(study.machine.processor), "</td></tr>\n");
  for (const auto& [mode, description] : study.machine.modes)
    if (std::any_of(study.cells.begin(), study.cells.end(),
                    [&name = mode](const Cell& cell) { return cell.key.mode == name; }))
      html += message("<tr><th scope=\"row\">", escape(mode), "</th><td>", escape(description), "</td></tr>\n");
  for (const auto& [place, ceiling] : study.machine.roofline)
    html += message("<tr><th scope=\"row\">", escape(place), ", measured</th><td>",
                    number(ceiling.flops_per_second * 1e-9), " GFLOP/s of a large product, ",
                    number(ceiling.bytes_per_second * 1e-9), " GB/s of a large copy</td></tr>\n");
  html += message("<tr><th scope=\"row\">images</th><td>", escape(study.data), "</td></tr>\n");
  if (const std::string known = commits(study); !known.empty())
    html += message("<tr><th scope=\"row\">commit</th><td>", escape(known), "</td></tr>\n");
  html += message("<tr><th scope=\"row\">command</th><td><code>", escape(study.command), "</code></td></tr>\n");
  return html + message("<tr><th scope=\"row\">begun</th><td>", escape(study.date), "</td></tr></tbody></table>\n");
}

}  // namespace

std::string report(const Study& study) {
  std::string names;
  const std::vector<std::string> nets = nets_of(study);
  for (std::size_t i = 0; i < nets.size(); ++i)
    names += (i == 0 ? "" : i + 1 == nets.size() ? " and " : ", ") + net_name(study, nets[i]);
  const std::string title =
      message("Training ", names.empty() ? "nothing yet" : names, ": time, loss and memory by batch size");
  std::string html = message(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      escape(title), "</title>\n<style>", chart_style, style_sheet, "</style></head>\n<body>\n<header><h1>",
      escape(title), "</h1>\n<p>Tern ", version(), " on ", escape(study.machine.name), ", ", escape(study.data), ", ",
      study.setting.epochs, study.setting.epochs == 1 ? " epoch" : " epochs", ". ", modes_line(study),
      "</p></header>\n<main>\n<section><h2>What came out</h2><ul>\n");
  for (const std::string& sentence : findings(study)) html += message("<li>", escape(sentence), "</li>\n");
  html += "</ul></section>\n";
  for (const std::string& net : nets) {
    html += message("<section><h2>", escape(net_name(study, net)), "</h2>");
    if (const auto facts = study.nets.find(net); facts != study.nets.end())
      html += message("<p>", facts_line(facts->second), ".</p>");
    html += "\n<div class=\"figures\">\n" + time_figure(study, net) + speed_up_figures(study, net) +
            memory_figure(study, net) + loss_figures(study, net) + "</div>\n<div class=\"figures profiles\">\n" +
            profile_sections(study, net) + "</div></section>\n";
  }
  html += "<section><h2>All cells</h2>\n";
  for (const std::string& net : nets)
    html += message("<h3>", escape(net_name(study, net)), "</h3>\n", cells_table(study, net));
  return html + "</section>\n<section><h2>Machine</h2>\n" + machine_table(study) +
         "</section>\n<section><h2>How it is measured</h2>\n" + method(study) + "</section>\n</main>\n<script>\n" +
         chart_script + draw_all + "</script></body></html>\n";
}

}  // namespace tern::study
