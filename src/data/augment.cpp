#include "tern/data/augment.hpp"

#include <cmath>
#include <numbers>

#include "data/streams.hpp"
#include "operators/composed.hpp"
#include "tern/core/random.hpp"
#include "tern/operators/operators.hpp"

namespace tern::data {

namespace op = operators;

namespace {

enum DrawnColumn : std::int64_t {
  down,
  right,
  mirrored,
  cosine,
  sine,
  brightness,
  contrast,
  saturation,
  top,
  left,
  share
};

constexpr double most_mix = 2;  // beyond it few pairs would be accepted

/// Four random words of an example in an epoch; each `block` has the next four.
random::Words words_of(std::uint64_t seed, std::int64_t epoch, std::int64_t example, std::uint64_t block) {
  return random::philox(seed, static_cast<std::uint64_t>(example) + (block << 56),
                        streams::augment + static_cast<std::uint64_t>(epoch));
}

/// An integer in [-most, most], uniform up to 2^-32.
float shift_of(std::int64_t most, std::uint32_t word) {
  const auto choices = static_cast<std::uint64_t>(2 * most + 1);
  return static_cast<float>(static_cast<std::int64_t>((choices * word) >> 32) - most);
}

/// Uniform in [-most, most).
double around(double most, std::uint32_t word) { return most * (2 * random::uniform(word) - 1); }

/// Beta(alpha, alpha) by Joehnk's method: draws pairs until one is accepted.
double beta(double alpha, const AugmentOptions& options, std::int64_t epoch, std::int64_t example) {
  for (std::uint64_t block = 3; block < 255; ++block) {
    const random::Words words = words_of(options.seed, epoch, example, block);
    for (int pair = 0; pair < 4; pair += 2) {
      const double x = std::pow(random::uniform(words.word[pair]), 1 / alpha);
      const double y = std::pow(random::uniform(words.word[pair + 1]), 1 / alpha);
      if (x + y > 0 && x + y <= 1) return x / (x + y);
    }
  }
  return 0.5;
}

/// Reflects positions outside [0, size) at the first and last one.
Tensor reflected(const Tensor& position, std::int64_t size) {
  const auto last = static_cast<double>(size - 1);
  return last - op::abs(last - op::abs(position));
}

Tensor column_of(const Tensor& drawn, DrawnColumn i) {
  return drawn.slice(1, i, i + 1).reshape({drawn.size(0), 1, 1, 1});
}

Tensor rows_of(std::int64_t height) { return op::positions(height).reshape({1, 1, height, 1}); }
Tensor columns_of(std::int64_t width) { return op::positions(width).reshape({1, 1, 1, width}); }

/// The image elements at whole positions y, x, [n, 1, height, width] or broadcastable to it. Places are computed in
/// float64, exact up to 2^53.
Tensor elements(const Tensor& images, const Tensor& y, const Tensor& x) {
  const std::int64_t count = images.size(0), channels = images.size(1), height = images.size(2), width = images.size(3);
  const Tensor planes =
      op::positions(count * channels).reshape({count, channels, 1, 1}) * static_cast<double>(height * width);
  const Tensor places = planes + y * static_cast<double>(width) + x;
  return op::index_select(images.reshape({images.numel(), 1}), 0, places.to(DType::int64).reshape({images.numel()}))
      .reshape(images.shape());
}

/// The largest whole number not above x, for x from -`beyond`.
Tensor whole_part(const Tensor& x, std::int64_t beyond) {
  const auto offset = static_cast<double>(beyond);
  return (x + offset).to(DType::int64).to(x.dtype()) - offset;
}

/// Bilinear interpolation at y, x.
Tensor interpolated(const Tensor& images, const Tensor& y, const Tensor& x) {
  const std::int64_t height = images.size(2), width = images.size(3), beyond = 2 * (height + width);
  const Tensor above = whole_part(y, beyond), before = whole_part(x, beyond);
  const Tensor part_below = (y - above).to(images.dtype()), part_behind = (x - before).to(images.dtype());
  const auto inside = [](const Tensor& position, std::int64_t size) {
    return op::clamp(reflected(position, size), 0, static_cast<double>(size - 1));
  };
  const auto between = [&](const Tensor& row) {
    const Tensor first = elements(images, inside(row, height), inside(before, width));
    const Tensor second = elements(images, inside(row, height), inside(before + 1, width));
    return first + (second - first) * part_behind;
  };
  const Tensor upper = between(above);
  return upper + (between(above + 1) - upper) * part_below;
}

/// uint8 is computed in float32.
Tensor as_numbers(const Tensor& images) {
  expects<DTypeError>(images.dtype() == DType::uint8 || is_floating(images.dtype()), "Augment: images of ",
                      images.dtype(), " can be moved and mirrored; expected uint8 or a floating dtype");
  return images.dtype() == DType::uint8 ? images.to(DType::float32) : images;
}

Tensor as_before(const Tensor& images, DType dtype) {
  return dtype == DType::uint8 ? op::clamp(images + 0.5, 0, 255).to(dtype) : images;
}

}  // namespace

Augment::Augment(const AugmentOptions& options) : options_(options) {
  expects<ShapeError>(options.shift >= 0, "Augment: expected a shift of 0 pixels or more, found ", options.shift);
  expects<ShapeError>(options.cutout >= 0, "Augment: expected a cutout of 0 pixels or more, found ", options.cutout);
  expects<NumericError>(options.rotation >= 0 && options.rotation <= 180,
                        "Augment: expected a rotation from 0 to 180 degrees, found ", options.rotation);
  for (const auto& [name, value] :
       {std::pair{"brightness", options.brightness}, std::pair{"contrast", options.contrast},
        std::pair{"saturation", options.saturation}})
    expects<NumericError>(value >= 0 && value <= 1, "Augment: expected a ", name, " from 0 to 1, found ", value);
  expects<NumericError>(options.mix >= 0 && options.mix <= most_mix, "Augment: expected a mix from 0 to ", most_mix,
                        ", found ", options.mix);
  expects<NumericError>(std::isfinite(options.cover), "Augment: the cover is ", options.cover);
  expects<ShapeError>(options.mean.size() == options.deviation.size(), "Augment: ", options.mean.size(), " means and ",
                      options.deviation.size(), " deviations; expected one of each per channel");
  if (options.mean.empty()) return;
  const Shape channels{1, static_cast<std::int64_t>(options.mean.size()), 1, 1};
  mean_ = tensor(options.mean, channels).to(DType::float32);
  deviation_ = tensor(options.deviation, channels).to(DType::float32);
}

Tensor Augment::draw(std::int64_t epoch, const Tensor& examples) const {
  expects<ShapeError>(examples.defined() && examples.rank() == 1, "Augment: expected the numbers of examples [n]");
  expects<DTypeError>(examples.dtype() == DType::int64, "Augment: expected the numbers of examples as int64, found ",
                      examples.dtype());
  const Tensor whole = examples.contiguous();
  Tensor drawn({examples.numel(), numbers()});
  float* row = drawn.write<float>().data();
  const bool colour = options_.brightness > 0 || options_.contrast > 0 || options_.saturation > 0;
  for (const std::int64_t example : whole.read<std::int64_t>()) {
    const random::Words place = words_of(options_.seed, epoch, example, 0);
    const random::Words light = colour ? words_of(options_.seed, epoch, example, 1) : random::Words{};
    const random::Words square = options_.cutout > 0 ? words_of(options_.seed, epoch, example, 2) : random::Words{};
    const double angle = around(options_.rotation * std::numbers::pi / 180, place.word[3]);
    row[down] = shift_of(options_.shift, place.word[0]);
    row[right] = shift_of(options_.shift, place.word[1]);
    row[mirrored] = options_.mirror ? static_cast<float>(place.word[2] >> 31) : 0.0f;
    row[cosine] = static_cast<float>(std::cos(angle));
    row[sine] = static_cast<float>(std::sin(angle));
    row[brightness] = static_cast<float>(1 + around(options_.brightness, light.word[0]));
    row[contrast] = static_cast<float>(1 + around(options_.contrast, light.word[1]));
    row[saturation] = static_cast<float>(1 + around(options_.saturation, light.word[2]));
    row[top] = random::uniform(square.word[0]);
    row[left] = random::uniform(square.word[1]);
    row[share] = options_.mix > 0 ? static_cast<float>(beta(options_.mix, options_, epoch, example)) : 1.0f;
    row += numbers();
  }
  return drawn;
}

void Augment::check(const Tensor& images, const Tensor& drawn) const {
  expects<ShapeError>(images.defined() && images.rank() == 4, "Augment: images are ",
                      images.defined() ? message(images.shape()) : "undefined",
                      ", expected [n, channels, height, width]");
  const std::int64_t count = images.size(0), height = images.size(2), width = images.size(3);
  expects<ShapeError>(drawn.defined() && drawn.shape() == Shape{count, numbers()}, "Augment: ", count,
                      " images, and numbers ", drawn.defined() ? message(drawn.shape()) : "undefined", ", expected [",
                      count, ',', numbers(), "] as draw gives them");
  expects<ShapeError>(options_.shift < height && options_.shift < width, "Augment: images of ", height, 'x', width,
                      " cannot be moved by ", options_.shift, " pixels");
}

Tensor Augment::operator()(const Tensor& images, const Tensor& drawn) const {
  check(images, drawn);
  if (images.numel() == 0) return images;
  const NoGrad no_grad;
  const AugmentOptions& o = options_;
  Tensor result = images;
  if (o.shift > 0 || o.mirror || o.rotation > 0) result = moved(result, drawn);
  const bool colours = o.brightness > 0 || o.contrast > 0 || o.saturation > 0;
  const bool normalized = mean_.defined() && (colours || o.cutout > 0);
  if (normalized) result = result * deviation_.to(result.dtype()) + mean_.to(result.dtype());
  if (colours) result = coloured(result, drawn);
  if (o.cutout > 0) result = covered(result, drawn);
  if (normalized) result = (result - mean_.to(result.dtype())) / deviation_.to(result.dtype());
  return result;
}

// The source position of each result element: rotated about the middle, flipped, shifted.
Tensor Augment::moved(const Tensor& images, const Tensor& drawn) const {
  const std::int64_t height = images.size(2), width = images.size(3);
  const Tensor wide = drawn.to(DType::float64);
  const auto last = static_cast<double>(width - 1);
  Tensor y = rows_of(height), x = columns_of(width);
  if (options_.rotation > 0) {
    const double middle = static_cast<double>(height - 1) / 2, center = last / 2;
    const Tensor cos = column_of(wide, cosine), sin = column_of(wide, sine), v = y - middle, u = x - center;
    y = v * cos - u * sin + middle;
    x = u * cos + v * sin + center;
  }
  if (options_.mirror) x = x + column_of(wide, mirrored) * (last - 2 * x);
  y = y + column_of(wide, down);
  x = x + column_of(wide, right);
  if (options_.rotation == 0) return elements(images, reflected(y, height), reflected(x, width));
  return as_before(interpolated(as_numbers(images), y, x), images.dtype());
}

Tensor Augment::coloured(const Tensor& images, const Tensor& drawn) const {
  Tensor x = as_numbers(images);
  const auto factor = [&](DrawnColumn i) { return column_of(drawn, i).to(x.dtype()); };
  if (options_.brightness > 0) x = x * factor(brightness);
  if (options_.contrast > 0) {
    const Tensor mean = op::mean(x, {1, 2, 3}, true);
    x = mean + (x - mean) * factor(contrast);
  }
  if (options_.saturation > 0) {
    expects<ShapeError>(images.size(1) == 3, "Augment: a saturation of images with ", images.size(1),
                        " channels, expected 3: red, green, blue");
    const auto channel = [&](std::int64_t i) { return x.slice(1, i, i + 1); };
    const Tensor grey = channel(0) * 0.299 + channel(1) * 0.587 + channel(2) * 0.114;
    x = grey + (x - grey) * factor(saturation);
  }
  return as_before(x, images.dtype());
}

Tensor Augment::covered(const Tensor& images, const Tensor& drawn) const {
  const std::int64_t height = images.size(2), width = images.size(3);
  const double half = static_cast<double>(options_.cutout) / 2;
  // The middle may be anywhere in the image; whole pixels are covered.
  const auto distance = [&](const Tensor& position, DrawnColumn i, std::int64_t size) {
    const Tensor middle = column_of(drawn, i).to(DType::float64) * static_cast<double>(size);
    return op::abs(position + 0.5 - middle);
  };
  const Tensor far = op::maximum(distance(rows_of(height), top, height), distance(columns_of(width), left, width));
  const Tensor x = as_numbers(images);
  return as_before(op::where(op::less(far, half), options_.cover, x), images.dtype());
}

Mixed Augment::mixed(const Tensor& images, const Tensor& labels, std::int64_t classes, const Tensor& drawn) const {
  check(images, drawn);
  expects<ShapeError>(labels.defined() && labels.shape() == Shape{images.size(0)}, "Augment: labels are ",
                      labels.defined() ? message(labels.shape()) : "undefined", ", expected [", images.size(0), ']');
  const NoGrad no_grad;
  const Tensor part = column_of(drawn, share), flat = part.reshape({images.size(0), 1});
  const auto mix = [](const Tensor& x, const Tensor& own) {
    const Tensor other = op::flip(x, {0});
    return other + (x - other) * own.to(x.dtype());
  };
  return {mix(images, part), mix(op::one_hot(labels, classes), flat)};
}

}  // namespace tern::data
