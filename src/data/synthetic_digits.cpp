#include "tern/data/synthetic_digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "data/streams.hpp"

namespace tern::data {

namespace {

// Uses only additions, products, quotients and square roots of floats: IEEE defines every bit of them, so an image is
// the same on every machine. Library sines would differ.

struct Point {
  float x = 0, y = 0;
};
struct Stroke {
  bool curved;  // a spline through the points, else straight lines
  std::vector<Point> points;
};
using Skeleton = std::vector<Stroke>;

constexpr bool curved = true, straight = false;

// The styles of each digit, in a unit box, y downwards.
const std::array<std::vector<Skeleton>, 10>& skeletons() {
  static const std::array<std::vector<Skeleton>, 10> all{{
      // 0: plain, narrow
      {{{curved,
         {{.5f, 0}, {.8f, .16f}, {.86f, .5f}, {.8f, .84f}, {.5f, 1}, {.2f, .84f}, {.14f, .5f}, {.2f, .16f}, {.5f, 0}}}},
       {{curved, {{.55f, 0}, {.74f, .2f}, {.72f, .6f}, {.5f, 1}, {.28f, .8f}, {.28f, .35f}, {.55f, 0}, {.66f, .03f}}}}},
      // 1: a line, with a flag, with a flag and a foot
      {{{straight, {{.5f, 0}, {.5f, 1}}}},
       {{straight, {{.3f, .24f}, {.53f, 0}, {.53f, 1}}}},
       {{straight, {{.32f, .2f}, {.52f, 0}, {.52f, 1}}}, {straight, {{.28f, 1}, {.76f, 1}}}}},
      // 2: with a corner, with a loop
      {{{curved, {{.2f, .24f}, {.32f, .05f}, {.58f, 0}, {.8f, .18f}, {.72f, .45f}, {.45f, .73f}, {.18f, 1}}},
        {straight, {{.18f, 1}, {.85f, .99f}}}},
       {{curved,
         {{.24f, .2f},
          {.45f, 0},
          {.74f, .1f},
          {.74f, .4f},
          {.5f, .75f},
          {.28f, .97f},
          {.17f, .86f},
          {.34f, .78f},
          {.6f, .95f},
          {.87f, .93f}}}}},
      // 3: round, with a flat top
      {{{curved, {{.2f, .12f}, {.46f, 0}, {.75f, .13f}, {.71f, .37f}, {.44f, .47f}}},
        {curved, {{.44f, .47f}, {.73f, .54f}, {.82f, .77f}, {.56f, 1}, {.18f, .9f}}}},
       {{straight, {{.2f, .02f}, {.76f, 0}, {.45f, .4f}}},
        {curved, {{.45f, .4f}, {.74f, .5f}, {.8f, .76f}, {.54f, 1}, {.18f, .92f}}}}},
      // 4: open, closed
      {{{straight, {{.26f, 0}, {.17f, .55f}, {.86f, .53f}}}, {straight, {{.7f, .16f}, {.65f, 1}}}},
       {{straight, {{.64f, 1}, {.66f, 0}, {.14f, .66f}, {.88f, .66f}}}}},
      // 5: with a neck, in one curve
      {{{straight, {{.8f, .01f}, {.3f, 0}, {.26f, .42f}}},
        {curved, {{.26f, .42f}, {.56f, .36f}, {.81f, .6f}, {.7f, .91f}, {.42f, 1}, {.17f, .88f}}}},
       {{straight, {{.76f, 0}, {.4f, .03f}}},
        {curved, {{.4f, .03f}, {.3f, .36f}, {.55f, .45f}, {.75f, .66f}, {.6f, .95f}, {.2f, .97f}}}}},
      // 6: leaning, upright
      {{{curved,
         {{.7f, .02f},
          {.4f, .2f},
          {.22f, .56f},
          {.26f, .87f},
          {.5f, 1},
          {.77f, .86f},
          {.75f, .61f},
          {.52f, .5f},
          {.25f, .68f}}}},
       {{curved,
         {{.4f, 0}, {.26f, .3f}, {.22f, .7f}, {.4f, .98f}, {.68f, .94f}, {.76f, .72f}, {.56f, .56f}, {.26f, .72f}}}}},
      // 7: plain, with a bar, bent
      {{{straight, {{.15f, .03f}, {.82f, .02f}, {.42f, 1}}}},
       {{straight, {{.15f, .03f}, {.83f, .02f}, {.44f, 1}}}, {straight, {{.3f, .5f}, {.76f, .48f}}}},
       {{straight, {{.17f, .18f}, {.19f, .03f}, {.8f, .02f}}},
        {curved, {{.8f, .02f}, {.6f, .4f}, {.48f, .7f}, {.46f, 1}}}}},
      // 8: one stroke, two rings
      {{{curved,
         {{.72f, .12f},
          {.48f, 0},
          {.24f, .2f},
          {.5f, .47f},
          {.78f, .76f},
          {.5f, 1},
          {.22f, .78f},
          {.5f, .47f},
          {.77f, .22f},
          {.68f, .06f}}}},
       {{curved, {{.5f, 0}, {.73f, .12f}, {.7f, .36f}, {.5f, .45f}, {.3f, .36f}, {.27f, .12f}, {.5f, 0}}},
        {curved, {{.5f, .45f}, {.78f, .6f}, {.76f, .88f}, {.5f, 1}, {.24f, .88f}, {.22f, .6f}, {.5f, .45f}}}}},
      // 9: with a straight leg, with a hook
      {{{curved, {{.76f, .22f}, {.56f, 0}, {.28f, .1f}, {.25f, .36f}, {.5f, .5f}, {.75f, .3f}}},
        {straight, {{.76f, .2f}, {.7f, 1}}}},
       {{curved,
         {{.74f, .16f},
          {.52f, 0},
          {.26f, .14f},
          {.28f, .42f},
          {.56f, .46f},
          {.77f, .2f},
          {.78f, .6f},
          {.62f, .94f},
          {.28f, .96f}}}}},
  }};
  return all;
}

/// The random numbers of one image.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  float uniform(float low, float high) { return low + (high - low) * random::uniform(word()); }
  /// Nearly normal with deviation 1, between -3.5 and 3.5: the sum of the four bytes of a word.
  float bell() {
    const std::uint32_t bits = word();
    const std::uint32_t sum = (bits & 255u) + ((bits >> 8) & 255u) + ((bits >> 16) & 255u) + (bits >> 24);
    return (static_cast<float>(sum) - 510) * (1 / 147.8f);
  }
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(word()) * count) >> 32);
  }

 private:
  std::uint32_t word() {
    if (index_ % 4 == 0) words_ = random::philox(seed_, index_ / 4, stream_);
    return words_.word[index_++ % 4];
  }
  std::uint64_t seed_, stream_, index_ = 0;
  random::Words words_{};
};

/// x to (a x + b y + c, d x + e y + f): from the skeleton's box to pixels.
struct Affine {
  float a, b, c, d, e, f;
  Point operator()(Point p) const { return {a * p.x + b * p.y + c, d * p.x + e * p.y + f}; }
};

Affine random_affine(Draws& draws) {
  const float angle = draws.uniform(-.3f, .3f), shear = draws.uniform(-.35f, .35f);
  const float width = 20 * draws.uniform(.62f, 1.f), height = 20 * draws.uniform(.78f, 1.05f);
  const float square = angle * angle;
  const float sine = angle * (1 - square / 6 * (1 - square / 20)), cosine = 1 - square / 2 * (1 - square / 12);
  // Rotation times shear times scale, around the middle of the box, which moves near the middle of the image.
  const float a = cosine * width, b = (cosine * shear - sine) * height;
  const float d = sine * width, e = (sine * shear + cosine) * height;
  const float x = 14 + draws.uniform(-2.2f, 2.2f), y = 14 + draws.uniform(-2.2f, 2.2f);
  return {a, b, x - (a + b) / 2, d, e, y - (d + e) / 2};
}

Point spline(Point p0, Point p1, Point p2, Point p3, float t) {
  const auto along = [t](float a, float b, float c, float d) {
    return .5f * (2 * b + t * ((c - a) + t * ((2 * a - 5 * b + 4 * c - d) + t * (3 * b - a - 3 * c + d))));
  };
  return {along(p0.x, p1.x, p2.x, p3.x), along(p0.y, p1.y, p2.y, p3.y)};
}

constexpr int digit_side = 28;
using Canvas = std::array<float, digit_side * digit_side>;

// Ink along a segment: full inside the radius, fading over one pixel; the darkest stroke wins.
void draw_segment(Canvas& canvas, Point from, Point to, float radius) {
  const float reach = radius + .5f;
  const auto low = [&](float a, float b) {
    return std::clamp(static_cast<int>(std::min(a, b) - reach), 0, digit_side - 1);
  };
  const auto high = [&](float a, float b) {
    return std::clamp(static_cast<int>(std::max(a, b) + reach) + 1, 0, digit_side - 1);
  };
  const float dx = to.x - from.x, dy = to.y - from.y, length = dx * dx + dy * dy;
  for (int row = low(from.y, to.y); row <= high(from.y, to.y); ++row)
    for (int column = low(from.x, to.x); column <= high(from.x, to.x); ++column) {
      const float px = static_cast<float>(column) + .5f - from.x, py = static_cast<float>(row) + .5f - from.y;
      const float along = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.f, 1.f) : 0.f;
      const float x = px - along * dx, y = py - along * dy;
      const float ink = std::clamp(reach - std::sqrt(x * x + y * y), 0.f, 1.f);
      float& pixel = canvas[static_cast<std::size_t>(row) * digit_side + static_cast<std::size_t>(column)];
      pixel = std::max(pixel, ink);
    }
}

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Affine& place, float wobble, float radius, Draws& draws) {
  std::vector<Point> points;
  for (const Point& p : stroke.points)
    points.push_back(place({p.x + wobble * draws.bell(), p.y + wobble * draws.bell()}));
  const auto at = [&](std::size_t i) { return points[std::min(i, points.size() - 1)]; };
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const int pieces = stroke.curved ? 6 : 1;
    Point last = points[i];
    for (int piece = 1; piece <= pieces; ++piece) {
      const float t = static_cast<float>(piece) / static_cast<float>(pieces);
      const Point next = stroke.curved ? spline(at(i == 0 ? 0 : i - 1), at(i), at(i + 1), at(i + 2), t) : points[i + 1];
      draw_segment(canvas, last, next, radius);
      last = next;
    }
  }
}

// Rounds halves up.
std::uint8_t to_byte(float value) {
  const float above = std::clamp(value, 0.f, 255.f) + .5f;
  return static_cast<std::uint8_t>(above);
}

void draw_digit(std::uint8_t* image, std::int64_t digit, Draws draws) {
  Canvas canvas{};
  const auto& styles = skeletons()[static_cast<std::size_t>(digit)];
  const Skeleton& skeleton = styles[draws.below(styles.size())];
  const Affine place = random_affine(draws);
  const float radius = draws.uniform(.7f, 1.8f), wobble = draws.uniform(.005f, .05f);
  for (const Stroke& stroke : skeleton) draw_stroke(canvas, stroke, place, wobble, radius, draws);
  // One image in four also has a short stray line at a random place.
  if (draws.below(4) == 0) {
    const Point from{draws.uniform(2, 26), draws.uniform(2, 26)};
    const Point to{from.x + draws.uniform(-8, 8), from.y + draws.uniform(-8, 8)};
    draw_segment(canvas, from, to, draws.uniform(.4f, 1.1f));
  }
  const float ink = draws.uniform(160, 255), noise = draws.uniform(0, 30);
  for (std::size_t i = 0; i < canvas.size(); ++i) image[i] = to_byte(ink * canvas[i] + noise * draws.bell());
}

// Each ten images hold every digit once, in a random order.
std::int64_t digit_of(std::uint64_t seed, std::uint64_t number) {
  std::int64_t order[]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Draws draws(seed, streams::digits + number / 10);
  for (std::size_t i = 9; i > 0; --i) std::swap(order[i], order[draws.below(i + 1)]);
  return order[number % 10];
}

}  // namespace

Dataset synthetic_digits(std::int64_t n, const SyntheticOptions& options) {
  expects<ShapeError>(n >= 0 && options.first >= 0, "synthetic_digits: expected a number of images, found ", n,
                      " from ", options.first);
  Dataset digits{.images = Tensor({n, 1, digit_side, digit_side}, DType::uint8),
                 .labels = Tensor({n}, DType::int64),
                 .classes = 10,
                 .source = message("synthetic digits, seed ", options.seed),
                 .synthetic = true};
  const auto images = digits.images.write<std::uint8_t>();
  const auto labels = digits.labels.write<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::uint64_t number = static_cast<std::uint64_t>(options.first) + i;
    labels[i] = digit_of(options.seed, number);
    draw_digit(images.data() + i * digit_side * digit_side, labels[i], Draws(options.seed, number));
  }
  return digits;
}

}  // namespace tern::data
