#include "blueprint.hpp"

#include <algorithm>

#include "tern/core/error.hpp"
#include "text.hpp"

namespace tern::tool {

std::int64_t Blueprint::mlp_inputs() const {
  std::int64_t count = features();
  for (std::size_t c = 0; c < embedding.size(); ++c)
    if (embedding[c] > 0) count += embedding[c] - static_cast<std::int64_t>(encoding.columns[c].categories.size());
  return count;
}

std::string weights_text(const Blueprint& b) {
  constexpr std::size_t most = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(b.class_weights.size(), most); ++i)
    text += message(i == 0 ? "" : ", ", b.classes[i], " ", number_text(b.class_weights[i]));
  return text + (b.class_weights.size() > most ? ", ..." : "");
}

}  // namespace tern::tool
