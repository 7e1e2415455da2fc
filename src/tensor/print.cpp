// Tensors as text: rows as NumPy and torch print them.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>

#include "tern/modes/mode.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

namespace {

/// The printed elements, in row-major order, and their format.
class Printer {
 public:
  Printer(const Tensor& tensor, const PrintOptions& options)
      : tensor_(tensor), options_(options), whole_(tensor.numel() <= options.threshold) {
    with_type_of(tensor.dtype(), [&]<class T>(T) {
      std::vector<T> elements;
      for_each_shown(0, 0, [&](std::int64_t place) { elements.push_back(element<T>(place)); });
      if constexpr (std::is_same_v<T, bool>) {
        for (const bool value : elements) words_.emplace_back(value ? "true" : "false");
      } else if constexpr (std::is_integral_v<T>) {
        for (const T value : elements) words_.push_back(std::to_string(value));
      } else {
        std::vector<double> numbers;
        for (const T value : elements) numbers.push_back(convert<double>(value));
        write_numbers(numbers);
      }
    });
    for (const std::string& word : words_) longest_ = std::max(longest_, word.size());
  }

  std::string text() {
    write(0, 0);
    return std::move(text_);
  }

 private:
  /// Printed positions of a dimension; -1 stands for those left out.
  std::vector<std::int64_t> shown(int dim) const {
    std::vector<std::int64_t> positions;
    const std::int64_t size = tensor_.shape()[dim], edge = std::max<std::int64_t>(options_.edge, 1);
    const bool cut = !whole_ && size > 2 * edge;
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut && i == edge) {
        positions.push_back(-1);
        i = size - edge;
      }
      positions.push_back(i);
    }
    return positions;
  }

  template <class Visit>
  void for_each_shown(int dim, std::int64_t place, const Visit& visit) const {
    if (tensor_.numel() == 0) return;
    if (dim == tensor_.rank()) return visit(place);
    for (const std::int64_t i : shown(dim))
      if (i >= 0) for_each_shown(dim + 1, place + i * tensor_.strides()[dim], visit);
  }

  template <class T>
  T element(std::int64_t place) const {
    T value{};
    const auto position = static_cast<std::size_t>(tensor_.offset() + place) * sizeof(T);
    tensor_.storage().peek(position, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// Whole numbers have no digits after the point; an exponent is used if plain digits would hide much.
  void write_numbers(const std::vector<double>& numbers) {
    double smallest = INFINITY, largest = 0;
    bool integers = true;
    for (const double number : numbers) {
      if (!std::isfinite(number)) continue;
      integers = integers && number == std::nearbyint(number);
      if (number == 0) continue;
      smallest = std::min(smallest, std::abs(number));
      largest = std::max(largest, std::abs(number));
    }
    const bool exponent =
        largest >= 1e8 || (largest > 0 && !integers && (smallest < 1e-4 || largest / smallest > 1000));
    for (const double number : numbers) {
      if (!std::isfinite(number)) {
        words_.emplace_back(std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        continue;
      }
      char word[512];  // the longest double has 309 digits before the point
      const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
      const int precision = !exponent && integers ? 0 : std::clamp(options_.precision, 0, 100);
      const auto end = std::to_chars(word, word + sizeof word, number, format, precision).ptr;  // independent of the
                                                                                                // locale
      words_.emplace_back(word, end);
      if (!exponent && integers) words_.back() += '.';
    }
  }

  void write(int dim, int indent) {
    if (dim == tensor_.rank()) {
      text_ += std::string(longest_ - words_[next_].size(), ' ') + words_[next_];
      ++next_;
      return;
    }
    text_ += '[';
    const bool row = dim + 1 == tensor_.rank();
    bool first = true;
    std::size_t column = static_cast<std::size_t>(indent) + 1;
    for (const std::int64_t i : tensor_.numel() == 0 ? std::vector<std::int64_t>{} : shown(dim)) {
      const std::size_t width = i < 0 ? 3 : longest_;
      const bool full = row && column + 1 + width > static_cast<std::size_t>(std::max(options_.width, 0));
      if (!first && (full || !row)) {
        // Blank lines between matrices, one per dimension above them.
        text_ += std::string(row ? 1 : static_cast<std::size_t>(tensor_.rank() - dim - 1), '\n');
        text_ += std::string(static_cast<std::size_t>(indent) + 1, ' ');
        column = static_cast<std::size_t>(indent) + 1;
      } else if (!first) {
        text_ += ' ';
        ++column;
      }
      if (i < 0)
        text_ += "...";
      else
        write(dim + 1, indent + 1);
      column += width;
      first = false;
    }
    text_ += ']';
  }

  const Tensor& tensor_;
  const PrintOptions& options_;
  bool whole_;
  std::vector<std::string> words_;
  std::size_t longest_ = 0, next_ = 0;
  std::string text_;
};

/// " in host and cuda", or nothing if no element was written yet.
std::string places_of(const Tensor& tensor) {
  std::string names;
  tensor.storage().for_each_valid(
      [&](const Memory& memory) { names += (names.empty() ? " in " : " and ") + std::string(memory.name()); });
  return names;
}

}  // namespace

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  if (!tensor.defined()) return "undefined tensor";
  return message(tensor.dtype(), ' ', tensor.shape(), places_of(tensor), '\n', Printer(tensor, options).text());
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }

}  // namespace tern
