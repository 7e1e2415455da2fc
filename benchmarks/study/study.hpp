#pragma once
// The study of batch sizes: its settings, and the results of one cell. A cell is one network in one mode and precision
// at one batch size, trained for some epochs.

#include <map>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace tern::study {

/// The settings shared by all cells of a study; cells are comparable only if they are equal.
struct Setting {
  int epochs = 10;
  std::int64_t images = 1024;
  std::string data = "synthetic";  ///< or a folder with one folder of images per class
  std::int64_t classes = 10;       ///< number of labels of synthetic images; a folder has its own
  double learning_rate = 0.001;    ///< for batches of 32 and more; proportional for smaller ones
  std::uint64_t seed = 1;
  std::int64_t steps = 0;       ///< the most training steps of a cell; 0: all epochs
  std::int64_t image_size = 0;  ///< 0: the network's own
  std::int64_t width_divisor = 1;
  int threads = 0;             ///< 0: all cores
  double memory_limit_gb = 0;  ///< gigabytes that a mode may take; 0: no limit
};

struct CellKey {
  std::string net, mode, precision;  ///< precision: "strict", "tf32", "bf16"
  std::int64_t batch = 0;
};

enum class Status : std::uint8_t {
  complete,
  cut,           ///< after the time limit of a cell
  too_slow,      ///< predicted to take longer than a cell may, so not run
  does_not_fit,  ///< out of memory, caught or predicted
  failed
};

/// Seconds per step, over the steps after the warm-up: the median, the 10th and the 90th percentile.
struct Spread {
  double median = 0, low = 0, high = 0;
};

struct Cell {
  CellKey key;
  std::string commit;  ///< of the sources, from --commit when the cell ran
  Status status = Status::failed;
  std::string note;            ///< why a cell is not complete
  std::vector<double> loss;    ///< of every step
  std::vector<double> step;    ///< seconds of every step, with its images already on the device
  std::vector<double> move;    ///< seconds to move the images of each step to the device
  std::int64_t warm_up = 0;    ///< the first steps, which the figures below exclude
  std::int64_t per_epoch = 0;  ///< steps per epoch
  Spread time, move_time;
  double predicted_seconds = 0;     ///< for a cell that is too slow: per step
  double peak_bytes = 0;            ///< the most memory in use in the mode, without the set of images
  double seconds = 0;               ///< total time of the cell
  std::vector<Transfer> transfers;  ///< of the measured steps, per step
  ProfileTable profile;             ///< of one step outside a Step; without rows if there was no time for it
};

/// A network of the study.
struct NetFacts {
  std::string name;  ///< the name of its class
  std::int64_t parameters = 0, image_size = 0;
  double forward_flops = 0;  ///< of one image
};

struct Machine {
  std::string name;                          ///< for file names: letters, digits and dashes
  std::string processor;                     ///< "AMD EPYC 9B14, 2 threads"
  std::map<std::string, std::string> modes;  ///< each mode's description
  std::map<std::string, Roofline> roofline;  ///< measured, by "mode precision"
};

/// The content of a report.
struct Study {
  Setting setting;
  Machine machine;
  std::string command, date, data;       ///< data: a description of the images
  std::map<std::string, NetFacts> nets;  ///< by the name on the command line
  std::vector<Cell> cells;               ///< in the order of nets, modes, precisions and batches
};

const char* name_of(Status status);
/// "googlenet_cuda_tf32_128": the name of a cell's file.
std::string file_name(const CellKey& key);
/// "cuda tf32", or "vectorized" if precision is strict.
std::string title_of(const CellKey& key);
/// "cuda tf32" with the precision always named.
std::string roofline_key(const CellKey& key);

}  // namespace tern::study
