#include "parallel/cut.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

/// Modules that stay together.
struct CostedPiece {
  std::size_t first = 0;
  double cost = 0;
};

std::vector<CostedPiece> pieces_of(const nn::Sequential& net, const std::vector<double>& costs) {
  std::vector<CostedPiece> pieces;
  for (std::size_t i = 0; i < net.size(); ++i) {
    if (i == 0 || !net.joins_behind(i)) pieces.push_back({.first = i});
    pieces.back().cost += costs[i];
  }
  return pieces;
}

}  // namespace

std::vector<std::size_t> cut_stages(const nn::Sequential& net, std::vector<double> costs, std::size_t stages) {
  if (costs.empty()) costs.assign(net.size(), 1);
  expects<ShapeError>(costs.size() == net.size(), "Pipeline: ", costs.size(), " costs for ", net.size(), " modules");
  for (const double cost : costs)
    expects<ShapeError>(std::isfinite(cost) && cost >= 0, "Pipeline: a module costs ", cost, ", expected 0 or more");
  const std::vector<CostedPiece> pieces = pieces_of(net, costs);
  expects<ShapeError>(stages <= pieces.size(), "Pipeline: ", stages, " ranks for a net of ", net.size(), " modules, ",
                      pieces.size(),
                      " of them with the activations and 2x2 max pools behind them; every rank needs at least one");

  // dearest[s][n]: the cost of the most expensive stage when the first n pieces form s stages; before[s][n]: where its
  // last stage begins.
  const std::size_t count = pieces.size();
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> dearest(stages + 1, std::vector<double>(count + 1, never));
  std::vector<std::vector<std::size_t>> before(stages + 1, std::vector<std::size_t>(count + 1));
  dearest[0][0] = 0;
  for (std::size_t stage = 1; stage <= stages; ++stage)
    for (std::size_t end = stage; end <= count; ++end) {
      double last = 0;
      for (std::size_t begin = end; begin-- > stage - 1;) {
        last += pieces[begin].cost;
        const double worst = std::max(dearest[stage - 1][begin], last);
        if (worst >= dearest[stage][end]) continue;
        dearest[stage][end] = worst;
        before[stage][end] = begin;
      }
    }
  std::vector<std::size_t> first(stages + 1, net.size());
  for (std::size_t stage = stages, end = count; stage > 0; --stage) {
    end = before[stage][end];
    first[stage - 1] = pieces[end].first;
  }
  return first;
}

}  // namespace tern::parallel
