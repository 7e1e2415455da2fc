// The charts of the report. Each title states what its chart shows.

#include <algorithm>
#include <cmath>

#include "chart.hpp"
#include "format.hpp"
#include "report.hpp"

namespace tern::study {

namespace {

std::string in_list(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::vector<double> batches_of(const std::vector<Row>& rows) {
  std::vector<double> batches;
  for (const Row& row : rows)
    for (const Cell* cell : row.cells) batches.push_back(static_cast<double>(cell->key.batch));
  std::sort(batches.begin(), batches.end());
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

Chart batch_chart(const std::string& name, const std::string& y_label, const std::string& kind,
                  const std::vector<Row>& rows) {
  Chart chart;
  chart.name = name;
  chart.x = {.label = "images in a batch", .kind = "count", .log = true, .ticks = batches_of(rows)};
  chart.y = {.label = y_label, .kind = kind, .log = true};
  return chart;
}

Series series_of(const Row& row) { return {row.title, style_of(row.key), marker_of(row.key), {}, {}}; }

// Which cells have no result or were cut, as text.
std::string remarks(const std::vector<Row>& rows, bool cuts) {
  std::string text;
  std::vector<std::string> cut_rows;
  for (const Row& row : rows) {
    std::vector<std::string> full, slow, failed;
    bool cut = false;
    for (const Cell* cell : row.cells) {
      const std::string batch = std::to_string(cell->key.batch);
      if (cell->status == Status::does_not_fit) full.push_back(batch);
      if (cell->status == Status::too_slow) slow.push_back(batch);
      if (cell->status == Status::failed) failed.push_back(batch);
      cut |= cell->status == Status::cut;
    }
    if (cut) cut_rows.push_back(row.title);
    const auto add = [&](const std::vector<std::string>& list, const char* what) {
      if (!list.empty()) text += message(" ×: ", row.title, ' ', what, " (batch ", in_list(list), ").");
    };
    add(full, "does not fit into memory");
    if (cuts) add(slow, "was not run, for want of time");
    add(failed, "failed");
  }
  if (cuts && !cut_rows.empty()) text += message(" Hollow marks: ", in_list(cut_rows), " cut before the last step.");
  return text;
}

const Cell* fastest(const Row& row) {
  const Cell* best = nullptr;
  for (const Cell* cell : row.cells)
    if (cell->time.median > 0 && (best == nullptr || seconds_per_image(*cell) < seconds_per_image(*best))) best = cell;
  return best;
}

}  // namespace

std::string chart_figure(const std::string& title, const std::string& note, const std::string& drawing) {
  return message("<figure><figcaption><h3>", escape(title), "</h3><p>", escape(note), "</p></figcaption>\n", drawing,
                 "</figure>\n");
}

std::string time_figure(const Study& study, const std::string& net) {
  const std::vector<Row> rows = rows_of(study, net);
  const Cell* best = nullptr;
  for (const Row& row : rows)
    if (const Cell* cell = fastest(row))
      if (best == nullptr || seconds_per_image(*cell) < seconds_per_image(*best)) best = cell;
  if (best == nullptr) return {};
  std::string title = message(net_name(study, net), ": ", duration(seconds_per_image(*best), 2), " an image in ",
                              title_of(best->key), " (batch ", best->key.batch, ')');
  for (const Row& row : rows)
    if (const Cell* cell = fastest(row); cell != nullptr && row.key.mode != best->key.mode)
      title += message(", ", duration(seconds_per_image(*cell), 2), " in ", row.title);
  Chart chart = batch_chart(title, "time per image", "duration", rows);
  for (const Row& row : rows) {
    Series series = series_of(row);
    for (const Cell* cell : row.cells) {
      const double batch = static_cast<double>(cell->key.batch);
      if (cell->time.median > 0)
        series.points.push_back({batch, seconds_per_image(*cell), cell->time.low / batch, cell->time.high / batch,
                                 cell->status == Status::cut});
      else
        series.missing.push_back(batch);
    }
    chart.series.push_back(std::move(series));
  }
  return chart_figure(
      title,
      "Training step (forward, backward, update) divided by its images: median, and from the 10th to the 90th "
      "percentile. Lower is better." +
          remarks(rows, true),
      draw(chart));
}

std::string speed_up_figures(const Study& study, const std::string& net) {
  const std::vector<Row> rows = rows_of(study, net);
  std::string html;
  for (const char* base : {"sequential", "vectorized"}) {
    const auto reference = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.title == base; });
    if (reference == rows.end()) continue;
    Chart chart = batch_chart("", message("times as fast as ", base), "times", rows);
    chart.x.ticks.clear();
    for (const Cell* cell : reference->cells)
      if (cell->time.median > 0) chart.x.ticks.push_back(static_cast<double>(cell->key.batch));
    double best = 0;
    std::string best_place;
    for (const Row& row : rows) {
      if (row.title == base || row.title == "sequential") continue;
      Series series = series_of(row);
      for (const Cell* cell : row.cells) {
        const Cell* other = measured_at(*reference, cell->key.batch);
        if (other == nullptr || cell->time.median <= 0) continue;
        const double ratio = other->time.median / cell->time.median;
        if (ratio > best) {
          best = ratio;
          best_place = message(row.title, ", batch ", cell->key.batch);
        }
        series.points.push_back({static_cast<double>(cell->key.batch), ratio, 0, 0,
                                 cell->status == Status::cut || other->status == Status::cut});
      }
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) continue;
    const std::string title =
        message(net_name(study, net), ": up to ", times(best), " as fast as ", base, " (", best_place, ')');
    chart.name = title;
    chart.reference = 1;
    chart.reference_label = message("as fast as ", base);
    html += chart_figure(
        title,
        message("Time of a step in ", base, " over the time of the same step in the other mode. Higher is better."),
        draw(chart));
  }
  return html;
}

std::string memory_figure(const Study& study, const std::string& net) {
  const std::vector<Row> rows = rows_of(study, net);
  const Cell* most = nullptr;
  for (const Row& row : rows)
    for (const Cell* cell : row.cells)
      if (cell->time.median > 0 && (most == nullptr || cell->peak_bytes > most->peak_bytes)) most = cell;
  if (most == nullptr) return {};
  const std::string title =
      message(net_name(study, net), ": a step of ", most->key.batch, most->key.batch == 1 ? " image" : " images",
              " takes ", bytes(most->peak_bytes), " of memory in ", title_of(most->key));
  Chart chart = batch_chart(title, "peak memory", "bytes", rows);
  for (const Row& row : rows) {
    Series series = series_of(row);
    for (const Cell* cell : row.cells) {
      if (cell->time.median > 0)
        series.points.push_back({static_cast<double>(cell->key.batch), cell->peak_bytes});
      else if (cell->status == Status::does_not_fit)
        series.missing.push_back(static_cast<double>(cell->key.batch));
    }
    chart.series.push_back(std::move(series));
  }
  if (study.setting.memory_limit_gb > 0) {
    chart.reference = study.setting.memory_limit_gb * 1e9;
    chart.reference_label = "limit of this study";
  }
  return chart_figure(
      title,
      "The most that was in use at once: weights, gradients, momenta, activations, scratch and the batch." +
          remarks(rows, false),
      draw(chart));
}

std::string loss_figures(const Study& study, const std::string& net) {
  std::string html;
  std::vector<Chart> charts;
  std::vector<std::string> titles;
  double most = 0;
  const std::vector<double> batches = batches_of(rows_of(study, net));
  for (const Row& row : rows_of(study, net)) {
    Chart chart;
    const Cell* best = nullptr;
    double best_loss = HUGE_VAL, first = 0, reached = 0;
    for (const Cell* cell : row.cells) {
      const auto losses = epoch_losses(*cell);
      if (losses.size() < std::min<std::size_t>(2, study.setting.epochs)) continue;  // cut in its first epoch
      reached = std::max(reached, losses.back().first);
      const auto place =
          std::find(batches.begin(), batches.end(), static_cast<double>(cell->key.batch)) - batches.begin();
      const auto shade = batches.size() > 1 ? place * 9 / (std::ssize(batches) - 1) : 9;
      Series series{message("batch ", cell->key.batch), message("b", shade), losses.size() > 1 ? -1 : 0, {}, {}};
      for (const auto& [epoch, loss] : losses)
        if (std::isfinite(loss)) {
          series.points.push_back({.x = epoch, .y = loss});
          most = std::max(most, loss);
        }
      if (series.points.empty()) continue;
      if (series.points.back().y < best_loss) {
        best = cell;
        best_loss = series.points.back().y;
        first = series.points.front().y;
      }
      chart.series.push_back(std::move(series));
    }
    if (best == nullptr) continue;
    titles.push_back(message(net_name(study, net), " in ", row.title, ": the loss goes from ", number(first),
                             " in the first epoch to ", number(best_loss, 2), " (batch ", best->key.batch, ')'));
    chart.name = titles.back();
    chart.x = {.label = "epoch"};
    // One batch size that diverges would flatten the others on a linear axis.
    chart.y = {.label = "mean loss of the epoch", .log = true};
    const int last = static_cast<int>(std::ceil(reached));
    for (int epoch = 0; epoch <= last; epoch += std::max(1, (last + 9) / 10)) chart.x.ticks.push_back(epoch);
    charts.push_back(std::move(chart));
  }
  for (std::size_t i = 0; i < charts.size(); ++i) {
    charts[i].y.most = most;
    html += chart_figure(titles[i],
                         "Mean loss of each epoch; a line for each batch size. The learning rate is "
                         "proportional to the batch up to 32.",
                         draw(charts[i]));
  }
  return html;
}

}  // namespace tern::study
