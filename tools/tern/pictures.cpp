#include "pictures.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "tern/io/number.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t wrong_ones = 12, all_ones = 24, most_features = 8;

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = static_cast<unsigned>(bytes[i]) << 16;
    if (i + 1 < bytes.size()) group |= static_cast<unsigned>(bytes[i + 1]) << 8;
    if (i + 2 < bytes.size()) group |= bytes[i + 2];
    text += digits[group >> 18];
    text += digits[(group >> 12) & 63];
    text += i + 1 < bytes.size() ? digits[(group >> 6) & 63] : '=';
    text += i + 2 < bytes.size() ? digits[group & 63] : '=';
  }
  return text;
}

}  // namespace

Json pixels_of(const Tensor& image, const data::Scaling& scaling, std::int64_t largest) {
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  const std::int64_t step = std::max<std::int64_t>(1, (std::max(height, width) + largest - 1) / largest);
  const auto values = image.to_vector<float>();
  const auto mean_of = [&](std::int64_t c, std::int64_t top, std::int64_t left) {
    const std::int64_t bottom = std::min(top + step, height), right = std::min(left + step, width);
    double sum = 0;
    for (std::int64_t y = top; y < bottom; ++y)
      for (std::int64_t x = left; x < right; ++x)
        sum += static_cast<double>(values[static_cast<std::size_t>((c * height + y) * width + x)]);
    return sum / static_cast<double>((bottom - top) * (right - left));
  };
  std::vector<std::uint8_t> bytes;
  for (std::int64_t y = 0; y < height; y += step)
    for (std::int64_t x = 0; x < width; x += step)
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const double value = mean_of(c, y, x) * scaling.deviation[channel] + scaling.mean[channel];
        bytes.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0))));
      }
  return {{"width", (width + step - 1) / step},
          {"height", (height + step - 1) / step},
          {"channels", channels},
          {"data", base64(bytes)}};
}

// Largest errors first.
std::vector<std::size_t> far_and_near(const Prediction& prediction) {
  const auto error = [&](std::size_t i) { return std::abs(prediction.values[i] - prediction.truths[i]); };
  std::vector<std::size_t> order(prediction.values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return error(a) > error(b); });
  // The others are spread over the rest.
  std::vector<std::size_t> chosen;
  const std::size_t far = std::min(order.size(), wrong_ones), others = std::min(order.size(), all_ones) - far;
  for (std::size_t i = 0; i < far; ++i) chosen.push_back(order[i]);
  for (std::size_t i = 0; i < others; ++i) chosen.push_back(order[far + i * (order.size() - far) / others]);
  return chosen;
}

// A number as in the table: the shortest one that reads as the same float.
double as_read(float value) {
  char text[64];
  const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  (void)io::read_number({text, end}, result);
  return result;
}

// A target, which is stored as a standardised float, with as many digits as that distinguishes.
double target_as_read(double value, const data::Scaling& scaling) {
  const int digits = std::clamp(5 - static_cast<int>(std::floor(std::log10(scaling.deviation[0]))), 0, 40);
  const std::string text = fixed(value, digits);
  (void)io::read_number(text, value);
  return value + 0.0;  // no -0
}

// `read` holds the features of the table, one element per column.
Json features_of(const Tensor& values, const Tensor& read, const Blueprint& blueprint) {
  Json features = Json::object();
  const auto inputs = values.to_vector<float>();
  const auto numbers = read.to_vector<float>();
  std::size_t first = 0, position = 0;
  for (const data::Column& column : blueprint.encoding.columns) {
    if (features.size() == most_features) break;
    const auto own = inputs.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = static_cast<std::ptrdiff_t>(column.categories.size());
    const float number = numbers[position++];
    if (column.indicator && own[std::max<std::ptrdiff_t>(1, count)] == 1)
      features[column.name] = "missing";
    else if (count == 0 && std::isnan(number))
      features[column.name] = "missing";
    else if (count == 0)
      features[column.name] = as_read(number);
    else if (const auto one = std::find(own, own + count, 1.0f); one != own + count)
      features[column.name] = column.categories[static_cast<std::size_t>(one - own)];
    else
      features[column.name] = "unknown";
    first += static_cast<std::size_t>(column.inputs());
  }
  return features;
}

Json pairs_of(const Prediction& prediction) {
  constexpr std::size_t most = 1000;
  const std::size_t count = prediction.values.size(), shown = std::min(count, most);
  Json pairs = Json::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t row = i * count / shown;
    pairs.push_back({prediction.truths[row], prediction.values[row]});
  }
  return pairs;
}

Json example_predictions(const TrainingData& data, const Blueprint& blueprint, const Prediction& prediction) {
  const auto features = [&](std::int64_t row) {
    return features_of(data.held_out.example(row, blueprint), data.held_out.features.slice(0, row, row + 1), blueprint);
  };
  if (blueprint.regression) {
    Json examples = Json::array();
    for (const std::size_t i : far_and_near(prediction))
      examples.push_back({{"actual", target_as_read(prediction.truths[i], blueprint.target_scaling)},
                          {"predicted", prediction.values[i]},
                          {"features", features(prediction.rows[i])}});
    return examples;
  }
  const std::vector<std::int64_t>& labels = prediction.actual;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < labels.size() && chosen.size() < wrong_ones; ++i)
    if (labels[i] != prediction.predicted[i]) chosen.push_back(i);
  // The right ones are spread over the set, which may be sorted by class.
  const std::size_t stride = std::max<std::size_t>(1, labels.size() / (all_ones - chosen.size()));
  for (std::size_t first = 0; first < stride; ++first)
    for (std::size_t i = first; i < labels.size() && chosen.size() < all_ones; i += stride)
      if (labels[i] == prediction.predicted[i]) chosen.push_back(i);
  Json examples = Json::array();
  for (const std::size_t i : chosen) {
    Json example{{"actual", blueprint.classes[static_cast<std::size_t>(labels[i])]},
                 {"predicted", blueprint.classes[static_cast<std::size_t>(prediction.predicted[i])]},
                 {"score", prediction.score_of(i)}};
    const Tensor values = data.held_out.example(prediction.rows[i], blueprint);
    if (blueprint.table) {
      example["features"] = features(prediction.rows[i]);
    } else if (blueprint.input[0] == 1 || blueprint.input[0] == 3) {
      example["pixels"] = pixels_of(values, blueprint.scaling);
    }
    examples.push_back(example);
  }
  return examples;
}

}  // namespace tern::tool
