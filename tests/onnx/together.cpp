// Tern as a shared library with one function of C, for together.py.

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"

/// Runs a model of one input [1, count] and one result; returns how many numbers the result has, 0 after an error.
extern "C" std::size_t tern_together(const char* file, const float* x, std::size_t count, float* y, std::size_t room) {
  using namespace tern;
  try {
    const graph::Graph net = onnx::load(file);
    const auto size = static_cast<std::int64_t>(count);
    const std::vector<float> result = net(tensor(std::vector<float>(x, x + count), {1, size})).to_vector<float>();
    std::copy_n(result.begin(), std::min(result.size(), room), y);
    return result.size();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 0;
  }
}
