#include "graph/batch_text.hpp"

#include <cctype>
#include <charconv>
#include <limits>

namespace tern::graph {

namespace {

// Sizes of files are not trusted: what is larger than any tensor is refused before it is multiplied.
constexpr std::int64_t largest = std::int64_t{1} << 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool read_integer(std::string_view& text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string written(const Linear& number) {
  if (number.each == 0) return std::to_string(number.fixed);
  std::string text = "{";
  if (number.each == -1)
    text += '-';
  else if (number.each != 1)
    text += std::to_string(number.each);
  text += 'n';
  if (number.fixed > 0) text += '+';
  if (number.fixed != 0) text += std::to_string(number.fixed);
  return text + '}';
}

std::string written_shape(const std::vector<Linear>& shape) {
  std::string text = "[";
  for (const Linear& size : shape) text += (text.size() > 1 ? "," : "") + written(size);
  return text + ']';
}

Linear read_linear(std::string_view& text) {
  Linear number;
  const std::string_view whole = text.substr(0, 40);
  const auto need = [&](bool fits) { expects<GraphError>(fits, "graph: '", whole, "' does not begin with a number"); };
  if (!text.starts_with('{')) {
    need(read_integer(text, number.fixed));
    need(number.fixed > -largest && number.fixed < largest);
    return number;
  }
  text.remove_prefix(1);
  if (text.starts_with("-n")) {
    number.each = -1;
    text.remove_prefix(1);
  } else if (!read_integer(text, number.each)) {
    number.each = 1;
  }
  need(text.starts_with('n'));
  text.remove_prefix(1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    need(!text.empty() && is_digit(text[0]));
  }
  if (!text.starts_with('}')) need(read_integer(text, number.fixed));
  need(text.starts_with('}'));
  text.remove_prefix(1);
  need(number.each > -largest && number.each < largest && number.fixed > -largest && number.fixed < largest);
  return number;
}

std::string text_at(std::string_view text, std::int64_t n) {
  expects<GraphError>(n >= 0 && n < largest, "graph: a batch of ", n);
  std::string result;
  while (!text.empty()) {
    if (!text.starts_with('{')) {
      result += text[0];
      text.remove_prefix(1);
      continue;
    }
    const Linear number = read_linear(text);
    const auto value = static_cast<__int128>(number.each) * n + number.fixed;
    expects<GraphError>(
        value > std::numeric_limits<std::int64_t>::min() && value < std::numeric_limits<std::int64_t>::max(),
        "graph: ", written(number), " is out of range for a batch of ", n);
    result += std::to_string(static_cast<std::int64_t>(value));
  }
  return result;
}

Linear joined_number(std::int64_t at_a, std::int64_t a, std::int64_t at_b, std::int64_t b) {
  if (at_a == at_b) return {at_a, 0};
  const std::int64_t each = (at_b - at_a) / (b - a);
  const Linear number{at_a - each * a, each};
  expects<GraphError>(number.at(b) == at_b, "graph: ", at_a, " at a batch of ", a, " and ", at_b, " at ", b,
                      " are not one multiple of it");
  return number;
}

std::string joined_text(std::string_view at_a, std::int64_t a, std::string_view at_b, std::int64_t b) {
  std::string result;
  const auto differ = [&] {
    throw GraphError(message("graph: '", at_a, "' and '", at_b, "' differ in more than sizes"));
  };
  char before = ' ';
  while (!at_a.empty() && !at_b.empty()) {
    // A number that is no part of a name or of a fraction.
    const bool starts = !std::isalnum(static_cast<unsigned char>(before)) && before != '_' && before != '.';
    std::string_view rest_a = at_a, rest_b = at_b;
    std::int64_t number_a = 0, number_b = 0;
    if (starts && (is_digit(at_a[0]) || at_a[0] == '-') && read_integer(rest_a, number_a) &&
        read_integer(rest_b, number_b) && !rest_a.starts_with('.') && !rest_a.starts_with('e')) {
      result += number_a == number_b ? std::to_string(number_a) : written(joined_number(number_a, a, number_b, b));
      at_a = rest_a;
      at_b = rest_b;
      before = '0';
      continue;
    }
    if (at_a[0] != at_b[0]) differ();
    before = at_a[0];
    result += before;
    at_a.remove_prefix(1);
    at_b.remove_prefix(1);
  }
  if (at_a.size() != at_b.size()) differ();
  return result;
}

}  // namespace tern::graph
