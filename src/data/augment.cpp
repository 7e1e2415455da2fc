#include "tern/data/augment.hpp"

#include "data/streams.hpp"
#include "operators/composed.hpp"
#include "tern/core/random.hpp"
#include "tern/operators/operators.hpp"

namespace tern::data {

namespace op = operators;

namespace {

enum Column : std::int64_t { down, right, mirrored };

/// An integer in [-most, most] with equal chances (but for 2^-32).
float shift_of(std::int64_t most, std::uint32_t word) {
  const auto choices = static_cast<std::uint64_t>(2 * most + 1);
  return static_cast<float>(static_cast<std::int64_t>((choices * word) >> 32) - most);
}

/// Positions outside [0, size) as a mirror at the first and at the last one shows them.
Tensor reflected(const Tensor& position, std::int64_t size) {
  const auto last = static_cast<double>(size - 1);
  return last - op::abs(last - op::abs(position));
}

}  // namespace

Augment::Augment(const AugmentOptions& options) : options_(options) {
  expects<ShapeError>(options.shift >= 0, "Augment: expected a shift of 0 pixels or more, found ", options.shift);
}

Tensor Augment::draw(std::int64_t epoch, const Tensor& examples) const {
  expects<ShapeError>(examples.defined() && examples.rank() == 1, "Augment: expected the numbers of examples [n]");
  const Tensor whole = examples.contiguous();
  Tensor drawn({examples.numel(), numbers()});
  float* row = drawn.write<float>().data();
  for (const std::int64_t example : whole.read<std::int64_t>()) {
    const random::Words words = random::philox(options_.seed, static_cast<std::uint64_t>(example),
                                               streams::augment + static_cast<std::uint64_t>(epoch));
    row[down] = shift_of(options_.shift, words.word[0]);
    row[right] = shift_of(options_.shift, words.word[1]);
    row[mirrored] = options_.mirror ? static_cast<float>(words.word[2] >> 31) : 0.0f;
    row += numbers();
  }
  return drawn;
}

// Every element of the result has its place among the images' own: in float64, which counts exactly up to 2^53.
Tensor Augment::operator()(const Tensor& images, const Tensor& drawn) const {
  expects<ShapeError>(images.defined() && images.rank() == 4, "Augment: images are ",
                      images.defined() ? message(images.shape()) : "undefined",
                      ", expected [n, channels, height, width]");
  const std::int64_t count = images.size(0), channels = images.size(1), height = images.size(2), width = images.size(3);
  expects<ShapeError>(drawn.defined() && drawn.shape() == Shape{count, numbers()}, "Augment: ", count,
                      " images, and numbers ", drawn.defined() ? message(drawn.shape()) : "undefined", ", expected [",
                      count, ',', numbers(), "] as draw gives them");
  expects<ShapeError>(options_.shift < height && options_.shift < width, "Augment: images of ", height, 'x', width,
                      " cannot be moved by ", options_.shift, " pixels");
  if (images.numel() == 0 || (options_.shift == 0 && !options_.mirror)) return images;
  const NoGrad no_grad;
  const Tensor wide = drawn.to(DType::float64);
  const auto column = [&](Column i) { return wide.slice(1, i, i + 1).reshape({count, 1, 1, 1}); };
  const Tensor y = reflected(op::positions(height).reshape({1, 1, height, 1}) + column(down), height);
  const Tensor across = op::positions(width).reshape({1, 1, 1, width});
  const Tensor turned = across + column(mirrored) * (static_cast<double>(width - 1) - 2 * across);
  const Tensor x = reflected(turned + column(right), width);
  const Tensor planes =
      op::positions(count * channels).reshape({count, channels, 1, 1}) * static_cast<double>(height * width);
  const Tensor places = planes + y * static_cast<double>(width) + x;
  const Tensor elements =
      op::index_select(images.reshape({images.numel(), 1}), 0, places.to(DType::int64).reshape({images.numel()}));
  return elements.reshape(images.shape());
}

}  // namespace tern::data
