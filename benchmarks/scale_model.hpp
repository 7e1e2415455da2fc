#pragma once
// The time of a data-parallel step on more devices than are available: a model with few constants, fitted to measured
// cells and checked against others.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tern::benchmarks {

/// A measured cell: a step of `ranks` ranks, or an all-reduce of `size` bytes. Microseconds.
struct ScaleCell {
  std::string kind, net, precision;  ///< "step" or "all_reduce"
  std::int64_t size = 0;             ///< images per rank, or bytes
  int ranks = 1;
  double us = 0, low = 0, high = 0;
  std::string run, use;  ///< base: the step of one rank of that run; fit; check: not fitted to
};
/// From a CSV file; lines that begin with # state its origin. Throws FileError.
std::vector<ScaleCell> read_scale_cells(const std::string& file);

/// The network between machines; none of it is measured here.
struct Network {
  int node = 8;           ///< devices per machine, connected like the measured ones
  double gigabytes = 40;  ///< per second and device
  double latency = 5;     ///< microseconds from machine to machine
};

class ScaleModel {
 public:
  /// `buckets`: the bytes of each gradient bucket by net, in the order in which they are sent. Throws Error if the
  /// cells do not determine the constants.
  ScaleModel(const std::vector<ScaleCell>& cells, std::map<std::string, std::vector<double>> buckets,
             const Network& network);

  /// The faster of two protocols, each `latency + per_doubling log2(n) + 2 (n - 1) / n bytes / rate`; between machines
  /// with the network's latency per doubling of their number, at the lower rate.
  double all_reduce(double bytes, int ranks) const;
  /// One rank's step plus the whole last bucket, the part of the others that backward does not hide, the overhead per
  /// bucket, and the wait for the slowest rank.
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
