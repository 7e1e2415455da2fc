#pragma once
// What a data parallel step takes on more devices than there are here: a model with few constants, fitted to measured
// cells and checked against others.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tern::benchmarks {

/// A measured cell: a step of `ranks` ranks, or an all-reduce of `size` bytes. Microseconds.
struct ScaleCell {
  std::string kind, net, precision;  ///< "step" or "all_reduce"
  std::int64_t size = 0;             ///< images of a rank, or bytes
  int ranks = 1;
  double us = 0, low = 0, high = 0;
  std::string run, use;  ///< base: the step of one rank of that run; fit; check: not fitted to
};
/// From a CSV file; lines that begin with # say where it comes from. Throws FileError.
std::vector<ScaleCell> read_scale_cells(const std::string& file);

/// What joins machines; nothing of it is measured here.
struct Network {
  int node = 8;           ///< devices of a machine, joined as the measured ones are
  double gigabytes = 40;  ///< a second, of each device
  double latency = 5;     ///< microseconds from machine to machine
};

class ScaleModel {
 public:
  /// `buckets`: bytes of each bucket of gradients by net, in the order in which they are sent. Throws Error where the
  /// cells do not determine the constants.
  ScaleModel(const std::vector<ScaleCell>& cells, std::map<std::string, std::vector<double>> buckets,
             const Network& network);

  /// The faster of two protocols, each `latency + per_doubling log2(n) + 2 (n - 1) / n bytes / rate`; between machines
  /// with the network's latency for each doubling of their number, at the lower rate.
  double all_reduce(double bytes, int ranks) const;
  /// One rank's step and: the last bucket whole, of the others the share that backward does not hide, what each bucket
  /// costs besides, and the wait for the slowest of so many.
  double step(const ScaleCell& base, int ranks) const;
  /// The step of one rank that a cell is compared with.
  const ScaleCell& base_of(const ScaleCell& cell) const;

  struct Protocol {
    double latency = 0, per_doubling = 0, per_megabyte = 0;  ///< microseconds
  };
  const Protocol& short_messages() const { return short_; }
  const Protocol& long_messages() const { return long_; }
  double bucket_cost() const { return bucket_cost_; }
  double exposed() const { return exposed_; }

 private:
  double talk(const std::string& net, int ranks, double bucket_cost, double exposed) const;

  std::vector<ScaleCell> bases_;
  std::map<std::string, std::vector<double>> buckets_;
  Network network_;
  Protocol short_, long_;
  double bucket_cost_ = 0, exposed_ = 0;
};

}  // namespace tern::benchmarks
