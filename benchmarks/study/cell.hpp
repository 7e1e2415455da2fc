#pragma once

#include <functional>

#include "study.hpp"

namespace tern::study {

/// Thrown by run_cell when `stop` returns true.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// What a cell needs besides its key.
struct CellInput {
  const Setting& setting;
  const data::Dataset& images;
  const std::vector<Cell>& before;  ///< finished cells: their figures predict this one
  double bytes_per_image = 0;       ///< see nets.hpp
  double parameter_bytes = 0;
  double seconds = 0;          ///< a cell that takes longer is cut after a step; 0: never
  Roofline roofline;           ///< of the mode and precision
  std::function<bool()> stop;  ///< called after every step
};

/// Trains the cell's network and measures. Any error becomes its status and leaves the mode usable; only Interrupted is
/// thrown.
Cell run_cell(const CellKey& key, const CellInput& input);

/// The learning rate for a batch size.
double learning_rate(const Setting& setting, std::int64_t batch);

/// Bytes that a cell will need, from the two largest smaller batches that ran, else from the network; 0: unknown.
double predict_bytes(const CellKey& key, const CellInput& input);
/// Seconds per step, from the largest smaller batch that ran; 0: unknown.
double predict_seconds(const CellKey& key, const std::vector<Cell>& before);

}  // namespace tern::study
