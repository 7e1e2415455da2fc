#pragma once
// Windows and batches as ONNX's nodes have them.

#include "onnx/writer.hpp"
#include "tern/operators/volumes.hpp"

namespace tern::onnx {

using Integers = std::vector<std::int64_t>;

inline Integers list(std::int64_t size) { return {size}; }
inline Integers list(Pair pair) { return {pair.h, pair.w}; }
inline Integers list(Triple triple) { return {triple.d, triple.h, triple.w}; }
inline Integers both(Integers begin, const Integers& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

/// With a batch of one where an image stands alone, and without it again.
struct Batched {
  const Step& step;
  bool alone;
  Batched(const Step& of, int rank) : step(of), alone(of.rank() == rank - 1) {}
  std::string input() const {
    return alone ? step.out.node("Unsqueeze", {step.inputs[0], step.out.integers({0})}) : step.inputs[0];
  }
  std::string output(const std::string& value) const {
    return alone ? step.out.node("Squeeze", {value, step.out.integers({0})}) : value;
  }
};

}  // namespace tern::onnx
