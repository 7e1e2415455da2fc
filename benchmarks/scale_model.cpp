#include "scale_model.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "tern/core/error.hpp"

namespace tern::benchmarks {

namespace {

// Bytes up to which a message uses the protocol for short ones, and from which that for long ones. Below the first the
// measured times fall with the size, which no line does; gradients are not so small.
constexpr std::int64_t least_bytes = 256 << 10, short_bytes = 4 << 20, long_bytes = 16 << 20;

/// Least squares: x that minimises (rows x - values)^2.
std::vector<double> least_squares(const std::vector<std::vector<double>>& rows, const std::vector<double>& values) {
  const std::size_t unknown = rows.empty() ? 0 : rows[0].size();
  expects<Error>(unknown > 0 && rows.size() >= unknown, "scale: ", rows.size(), " cells to fit ", unknown,
                 " constants to");
  std::vector<std::vector<double>> m(unknown, std::vector<double>(unknown + 1));
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < unknown; ++i) {
      for (std::size_t j = 0; j < unknown; ++j) m[i][j] += rows[r][i] * rows[r][j];
      m[i][unknown] += rows[r][i] * values[r];
    }
  for (std::size_t i = 0; i < unknown; ++i) {
    const auto pivot = std::ranges::max_element(m.begin() + static_cast<std::ptrdiff_t>(i), m.end(), {},
                                                [&](const auto& row) { return std::abs(row[i]); });
    std::swap(m[i], *pivot);
    expects<Error>(m[i][i] != 0, "scale: the cells do not determine the model; it takes several sizes and ranks");
    for (std::size_t r = 0; r < unknown; ++r) {
      if (r == i) continue;
      const double factor = m[r][i] / m[i][i];
      for (std::size_t j = i; j <= unknown; ++j) m[r][j] -= factor * m[i][j];
    }
  }
  std::vector<double> x(unknown);
  for (std::size_t i = 0; i < unknown; ++i) x[i] = m[i][unknown] / m[i][i];
  return x;
}

// What each rank of a ring sends and receives per byte.
double passes(int ranks) { return 2.0 * (ranks - 1) / ranks; }

// The extra time of the slowest of this many: the largest of n draws from a normal distribution, whose 10th and 90th
// percentile are 2.56 deviations apart.
double slowest(const ScaleCell& base, int ranks) {
  return (base.high - base.low) / 2.56 * std::sqrt(2 * std::log(ranks));
}

// Errors are relative. A latency that falls with the number of ranks is noise: then it is constant.
ScaleModel::Protocol fit_protocol(const std::vector<ScaleCell>& cells, std::int64_t least, std::int64_t most) {
  for (const bool doubling : {true, false}) {
    std::vector<std::vector<double>> rows;
    for (const ScaleCell& cell : cells) {
      if (cell.kind != "all_reduce" || cell.use != "fit" || cell.size < least || cell.size > most) continue;
      const double moved = passes(cell.ranks) * static_cast<double>(cell.size) * 1e-6;
      rows.push_back({1 / cell.us, moved / cell.us});
      if (doubling) rows.back().push_back(std::log2(cell.ranks) / cell.us);
    }
    const std::vector<double> x = least_squares(rows, std::vector<double>(rows.size(), 1.0));
    const double per_doubling = doubling ? x[2] : 0;
    if (per_doubling >= 0) return {x[0], per_doubling, x[1]};
  }
  return {};
}

}  // namespace

std::vector<ScaleCell> read_scale_cells(const std::string& file) {
  std::ifstream stream(file);
  expects<FileError>(stream.good(), file, ": cannot be read");
  std::vector<ScaleCell> cells;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line[0] == '#' || line.starts_with("kind,")) continue;
    std::istringstream fields(line);
    std::vector<std::string> words;
    for (std::string word; std::getline(fields, word, ',');) words.push_back(word);
    const bool known = words.size() == 10 && (words[0] == "step" || words[0] == "all_reduce") &&
                       (words[9] == "base" || words[9] == "fit" || words[9] == "check");
    expects<FileError>(known, file, ":", number, ": expected kind,net,precision,size,ranks,us,low,high,run,use");
    try {
      cells.push_back({words[0], words[1], words[2], std::stoll(words[3]), std::stoi(words[4]), std::stod(words[5]),
                       std::stod(words[6]), std::stod(words[7]), words[8], words[9]});
    } catch (const std::exception&) {
      throw FileError(message(file, ":", number, ": a figure is no number"));
    }
    expects<FileError>(cells.back().us > 0 && cells.back().ranks > 0, file, ":", number, ": a figure is not above 0");
  }
  return cells;
}

ScaleModel::ScaleModel(const std::vector<ScaleCell>& cells, std::map<std::string, std::vector<double>> buckets,
                       const Network& network)
    : buckets_(std::move(buckets)),
      network_(network),
      short_(fit_protocol(cells, least_bytes, short_bytes)),
      long_(fit_protocol(cells, long_bytes, INT64_MAX)) {
  std::ranges::copy_if(cells, std::back_inserter(bases_), [](const ScaleCell& cell) { return cell.use == "base"; });
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (const ScaleCell& cell : cells) {
    if (cell.kind != "step" || cell.use != "fit") continue;
    const double fixed = talk(cell.net, cell.ranks, 0, 0);
    rows.push_back(
        {(talk(cell.net, cell.ranks, 1, 0) - fixed) / cell.us, (talk(cell.net, cell.ranks, 0, 1) - fixed) / cell.us});
    values.push_back((cell.us - base_of(cell).us - slowest(base_of(cell), cell.ranks) - fixed) / cell.us);
  }
  const std::vector<double> x = least_squares(rows, values);
  bucket_cost_ = x[0];
  exposed_ = x[1];
}

double ScaleModel::all_reduce(double bytes, int ranks) const {
  if (ranks == 1) return 0;
  const int node = std::min(ranks, network_.node), machines = (ranks + node - 1) / node;
  const double hops = machines > 1 ? 2 * std::log2(machines) * network_.latency : 0;
  const double between = passes(machines) * bytes * 1e-3 / (network_.gigabytes * node);
  const auto time = [&](const Protocol& protocol) {
    const double within = passes(ranks) * bytes * 1e-6 * protocol.per_megabyte;
    return protocol.latency + protocol.per_doubling * std::log2(node) + hops + std::max(within, between);
  };
  return std::min(time(short_), time(long_));
}

double ScaleModel::talk(const std::string& net, int ranks, double bucket_cost, double exposed) const {
  const auto found = buckets_.find(net);
  expects<Error>(found != buckets_.end() && !found->second.empty(), "scale: the buckets of ", net, " are not known");
  double sum = 0, last = 0;
  for (const double bytes : found->second) sum += last = all_reduce(bytes, ranks);
  return last + exposed * (sum - last) + bucket_cost * static_cast<double>(found->second.size());
}

double ScaleModel::step(const ScaleCell& base, int ranks) const {
  return ranks == 1 ? base.us : base.us + talk(base.net, ranks, bucket_cost_, exposed_) + slowest(base, ranks);
}

const ScaleCell& ScaleModel::base_of(const ScaleCell& cell) const {
  const auto found = std::ranges::find_if(bases_, [&](const ScaleCell& base) {
    return base.net == cell.net && base.precision == cell.precision && base.size == cell.size && base.run == cell.run;
  });
  expects<Error>(found != bases_.end(), "scale: there is no step of one rank of ", cell.net, ", ", cell.precision,
                 ", in run ", cell.run);
  return *found;
}

}  // namespace tern::benchmarks
