#pragma once
// A study on disk: OUT/study.json, a file per finished cell in OUT/cells, the two CSV files and the report. Every file
// appears completely or not at all, so an interrupted study continues where it was.

#include <optional>

#include "study.hpp"
#include "tern/io/file.hpp"

namespace tern::study {

/// Throws FileError, also for files that this program did not write.
void write_cell(const std::string& out, const Cell& cell);
std::optional<Cell> read_cell(const std::string& out, const CellKey& key);
/// Everything except the cells.
void write_study(const std::string& out, const Study& study);
std::optional<Study> read_study(const std::string& out);

/// The cells of a folder, in the order of their names' parts.
std::vector<Cell> read_cells(const std::string& out);

/// loss_MACHINE_tern.csv, times_MACHINE_tern.csv and cells_MACHINE_tern.csv.
void write_tables(const std::string& out, const Study& study);

/// How often this cell was started and never finished, including this time: counted on disk, because a process that is
/// killed for its memory leaves nothing else.
int begin_attempt(const std::string& out, const CellKey& key);
void end_attempt(const std::string& out, const CellKey& key);

void write_text(const std::string& file, const std::string& text);

/// The difference between two settings, as text; empty if there is none.
std::string difference(const Setting& before, const Setting& now);

}  // namespace tern::study
