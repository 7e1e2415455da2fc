#pragma once
// The unit of the model benchmarks: a training step or an inference of one net at one batch size.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace tern::benchmarks {

/// One cell of a table. Everything that a run needs is made once.
struct Cell {
  std::string net, mode, phase;  ///< phase: "train" or "infer"
  std::int64_t batch = 0;
  Precision precision = Precision::strict;
  bool deterministic = true;  ///< false: cuda takes the fastest algorithm that it finds
  std::int64_t loop = 1;      ///< runs per call, as Step::each
};

/// Microseconds per run, over the samples of a measurement.
struct Timing {
  double median = 0, low = 0, high = 0;  ///< low and high: the 10th and 90th percentile
  double mean = 0;
  std::int64_t runs = 0;
  std::int64_t transfers = 0;  ///< moves between memories while the samples ran
  std::size_t peak = 0;        ///< the most bytes of the mode's memory since the cell was made
};

/// Median, percentiles and mean of samples, in microseconds per run.
Timing timing_of(std::vector<double> samples);

/// The available nets: mlp-small, mlp-medium, mlp-big, lenet, alexnet, googlenet, resnet18.
const std::vector<std::string>& nets();

/// A net, its optimiser and its input.
struct Net {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensor& x, const Tensor& labels)> loss;
  Shape input;
  std::int64_t classes = 10;
};
/// One of nets(), for this many images at a time. Throws Error for another name.
Net make_net(const std::string& name, std::int64_t batch);

/// A warmed-up cell, ready to run. Keeps its Device mode and thread count for every measurement.
class Workload {
 public:
  /// Throws Error if net or phase is unknown, DeviceUnavailable if the mode is missing.
  Workload(const Cell& cell, int threads);
  /// Runs once, or a loop. Does not wait for the device.
  void run();
  /// Runs for about `seconds` (at least `least` samples) and returns the statistics.
  Timing measure(double seconds, int least = 5);

 private:
  Device scope() const;

  Cell cell_;
  int threads_;
  std::function<void()> run_;
  std::shared_ptr<Step> step_;  // what it calls
  bool warm_ = false;
};

}  // namespace tern::benchmarks
