#pragma once
// Small data for the tests of the program.

#include <string>

#include "support/files.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

/// Three classes of points that a small network tells apart: `rows` lines "x,y,z,name".
inline std::string clusters(int rows, const std::string& header = "") {
  Generator generator(5);
  const auto noise = randn({rows, 3}, generator, 0, 0.6).to_vector<float>();
  const char* const names[]{"ant", "bee", "fly"};
  std::string text = header;
  for (int i = 0; i < rows; ++i) {
    const int c = i % 3;
    for (int j = 0; j < 3; ++j)
      text += std::to_string(noise[static_cast<std::size_t>(3 * i + j)] + (c == j ? 3.0f : 0.0f)) + ",";
    text += std::string(names[c]) + "\n";
  }
  return text;
}

}  // namespace tern::testing
