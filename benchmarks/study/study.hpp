#pragma once
// The study of batch sizes: what is asked for, and what one cell of it has shown. A cell is one network in one mode and
// precision at one batch size, trained for some epochs.

#include <map>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace tern::study {

/// What all cells of a study have in common; cells are only comparable when it is the same.
struct Setting {
  int epochs = 10;
  std::int64_t images = 1024;
  std::string data = "synthetic";  ///< or a folder with a folder of images per class
  std::int64_t classes = 10;       ///< different labels of synthetic images; a folder has its own
  double learning_rate = 0.001;    ///< from a batch of 32 on; proportional to smaller ones
  std::uint64_t seed = 1;
  std::int64_t steps = 0;       ///< the most training steps of a cell; 0: all epochs
  std::int64_t image_size = 0;  ///< 0: the network's own
  std::int64_t width_divisor = 1;
  int threads = 0;             ///< 0: all cores
  double memory_limit_gb = 0;  ///< gigabytes that a mode may take; 0: all there are
};

struct CellKey {
  std::string net, mode, precision;  ///< precision: "strict", "tf32", "bf16"
  std::int64_t batch = 0;
};

enum class Status : std::uint8_t {
  complete,
  cut,           ///< after the time that a cell may take
  too_slow,      ///< predicted to take longer than a cell may, so not run
  does_not_fit,  ///< out of memory, caught or predicted
  failed
};

/// Seconds of one step, over the steps behind the warm-up: the median, the 10th and the 90th percentile.
struct Spread {
  double median = 0, low = 0, high = 0;
};

struct Cell {
  CellKey key;
  std::string commit;  ///< of the sources, as --commit said when the cell ran
  Status status = Status::failed;
  std::string note;            ///< why a cell is not complete
  std::vector<double> loss;    ///< of every step
  std::vector<double> step;    ///< seconds of every step, its images on the device already
  std::vector<double> move;    ///< seconds in which the images of each step were brought to the device
  std::int64_t warm_up = 0;    ///< the first steps, which are not in the figures below
  std::int64_t per_epoch = 0;  ///< steps of an epoch
  Spread time, move_time;
  double predicted_seconds = 0;     ///< a cell that is too slow: of one step
  double peak_bytes = 0;            ///< the most memory in use in the mode, without the set of images
  double seconds = 0;               ///< that the cell took in all
  std::vector<Transfer> transfers;  ///< of the measured steps, per step
  ProfileTable profile;             ///< of one step outside a Step; without rows where there was no time for it
};

/// One network as it is studied.
struct NetFacts {
  std::string name;  ///< as its class is called
  std::int64_t parameters = 0, image_size = 0;
  double forward_flops = 0;  ///< of one image
};

struct Machine {
  std::string name;                          ///< for file names: letters, digits and dashes
  std::string processor;                     ///< "AMD EPYC 9B14, 2 threads"
  std::map<std::string, std::string> modes;  ///< each mode's description
  std::map<std::string, Roofline> roofline;  ///< measured, by "mode precision"
};

/// Everything that a report is made of.
struct Study {
  Setting setting;
  Machine machine;
  std::string command, date, data;       ///< data: what the images are, in words
  std::map<std::string, NetFacts> nets;  ///< by the name on the command line
  std::vector<Cell> cells;               ///< in the order of nets, modes, precisions and batches
};

const char* name_of(Status status);
/// "googlenet_cuda_tf32_128": the name of a cell's file.
std::string file_name(const CellKey& key);
/// "cuda tf32", or "vectorized" where precision is strict.
std::string title_of(const CellKey& key);
/// "cuda tf32" with the precision always named.
std::string roofline_key(const CellKey& key);

}  // namespace tern::study
