// Any bytes either are a JPEG or a PNG, whose pixels fit what was declared, or a FileError. Decoded whole, and reduced,
// resized and cropped as an ImageFolder does.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/image_codecs.hpp"
#include "data/resize.hpp"
#include "tern/core/error.hpp"
#include "tern/data/image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::data;
  constexpr std::int64_t limit = 1 << 20, side = 16;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tern::Tensor whole = parse_image(bytes, "input", {.limit = limit});
    const DecodedImage reduced = decode_image(bytes, "input", {.limit = limit, .short_side = side});
    if (whole.size(1) != reduced.height || whole.size(2) != reduced.width) std::abort();
    View view{.whole = resized(reduced.height, reduced.width, side),
              .size = side,
              .mirrored = true,
              .scale = {1, 1, 1},
              .shift = {0, 0, 0}};
    view.top = view.whole.height - side;
    view.left = view.whole.width - side;
    std::vector<float> pixels(3 * side * side);
    resample(reduced, view, pixels);
    for (const float pixel : pixels)
      if (!(pixel > -0.01f && pixel < 255.01f)) std::abort();
  } catch (const tern::FileError&) {
  }
  return 0;
}
