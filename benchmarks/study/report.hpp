#pragma once

#include "study.hpp"

namespace tern::study {

/// One HTML page with everything in it: style, drawings, tables. It loads nothing.
std::string report(const Study& study);

// ---- shared by its parts ----

/// The cells of one network in one mode and precision, by batch.
struct Row {
  std::string net, title;  ///< title: "cuda tf32"
  CellKey key;             ///< of any of its cells
  std::vector<const Cell*> cells;
};
std::vector<Row> rows_of(const Study& study, const std::string& net);
/// The networks that have cells, in order.
std::vector<std::string> nets_of(const Study& study);
/// The name of its class.
std::string net_name(const Study& study, const std::string& net);
double seconds_per_image(const Cell& cell);
const Cell* measured_at(const Row& row, std::int64_t batch);
/// The mean loss of each epoch, with the step where it ends: the last may be incomplete.
std::vector<std::pair<double, double>> epoch_losses(const Cell& cell);
/// Class and marker of a row's line.
std::string style_of(const CellKey& key);
int marker_of(const CellKey& key);

std::string chart_figure(const std::string& title, const std::string& note, const std::string& drawing);
/// The figures of one network: time, speed-up, memory, loss.
std::string time_figure(const Study& study, const std::string& net);
std::string speed_up_figures(const Study& study, const std::string& net);
std::string memory_figure(const Study& study, const std::string& net);
std::string loss_figures(const Study& study, const std::string& net);
std::string profile_sections(const Study& study, const std::string& net);
std::string cells_table(const Study& study, const std::string& net);
/// What the whole study shows, one sentence each.
std::vector<std::string> findings(const Study& study);
extern const char* const style_sheet;

}  // namespace tern::study
