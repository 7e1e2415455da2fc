#pragma once
// A study on the disk: OUT/study.json, a file per finished cell in OUT/cells, the two CSV files and the report. Every
// file appears whole or not at all, so that a study which is ended in any way goes on where it was.

#include <optional>

#include "study.hpp"
#include "tern/io/file.hpp"

namespace tern::study {

/// Throws FileError, also for files that are not what this program writes.
void write_cell(const std::string& out, const Cell& cell);
std::optional<Cell> read_cell(const std::string& out, const CellKey& key);
/// Everything but the cells.
void write_study(const std::string& out, const Study& study);
std::optional<Study> read_study(const std::string& out);

/// The cells of a folder in the order of their names' parts.
std::vector<Cell> read_cells(const std::string& out);

/// loss_MACHINE_tern.csv, times_MACHINE_tern.csv and cells_MACHINE_tern.csv.
void write_tables(const std::string& out, const Study& study);

/// How often this cell was begun and never finished, this time included: counted on the disk, because a process that
/// is killed for its memory leaves nothing else.
int begin_attempt(const std::string& out, const CellKey& key);
void end_attempt(const std::string& out, const CellKey& key);

void write_text(const std::string& file, const std::string& text);

/// What differs between two settings, in words; empty when nothing does.
std::string difference(const Setting& before, const Setting& now);

}  // namespace tern::study
