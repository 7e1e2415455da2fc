#pragma once
// The first nodes of a network for images make its largest results. Where each image is on its own, a program runs them
// on a few images at a time, so that those results exist for these images alone.

#include <optional>

#include "graph/algorithm_choices.hpp"
#include "tern/graph/graph.hpp"

namespace tern::graph {

/// A graph in two parts: the head runs on `images` examples at a time, the tail on all of its results and the inputs.
struct Slices {
  Graph head, tail;
  std::int64_t images;

  /// The head's algorithms are noted, or repeated in each slice: another batch might take others, with other bits. Sets
  /// `other` if a slice had other launches, or results with gaps.
  std::vector<Tensor> run_whole(const std::vector<Tensor>& inputs, AlgorithmChoices& choices) const;
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, AlgorithmChoices& choices, bool& other) const;
};

/// For a batch of n, with about `bytes` of results at a time in the head, which ends where the rest needs less than a
/// third of the memory. None where slices would not save a tenth.
std::optional<Slices> sliced(const Graph& graph, std::int64_t n, std::size_t bytes);

}  // namespace tern::graph
