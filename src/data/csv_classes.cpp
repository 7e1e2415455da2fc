#include "data/csv_classes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>
#include <utility>

#include "tern/io/number.hpp"

namespace tern::data {

namespace {

// Whether a number that from_chars calls out of range is too small for a double, not too large.
bool is_tiny(std::string_view text) {
  const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.find('.'), mark), first = text.find_first_of("123456789");
  std::int64_t exponent = 0;
  if (mark < text.size()) {
    const bool signed_up = text.substr(mark + 1).starts_with('+');
    const auto found = std::from_chars(text.data() + mark + 1 + signed_up, text.data() + text.size(), exponent);
    if (found.ec != std::errc()) return text[mark + 1] == '-';
  }
  constexpr std::int64_t far = std::int64_t{1} << 60;  // longer than any text
  exponent = std::clamp(exponent, -far, far);
  return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) < 0;
}

}  // namespace

std::optional<double> number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = io::read_number(text, value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range && is_tiny(text)) return text[0] == '-' ? -0.0 : 0.0;
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_number_with_comma(std::string_view text) {
  const auto comma = text.find(',');
  if (comma == std::string_view::npos) return false;
  std::string changed(text);
  changed[comma] = '.';
  return number(changed).has_value();
}

bool means_missing(std::string_view text) {
  if (text.empty() || text == "?") return true;
  if (text.size() > 3) return false;
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small == "na" || small == "nan";
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

CsvClasses::CsvClasses(const std::vector<std::string>& known) : fixed_(!known.empty()) {
  for (const std::string& name : known) add(name);
}

std::int64_t CsvClasses::find(std::string_view name) {
  if (last_ >= 0 && names_[static_cast<std::size_t>(last_)] == name) return last_;
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return last_ = found->second;
  return last_ = fixed_ || names_.size() == most ? -1 : add(std::string(name));
}

std::int64_t CsvClasses::add(std::string name) {
  const auto next = static_cast<std::int64_t>(names_.size());
  numbers_.emplace(name, next);
  names_.push_back(std::move(name));
  return next;
}

std::vector<std::int64_t> CsvClasses::sort() {
  std::vector<std::int64_t> order(names_.size()), renumbered(names_.size());
  std::iota(order.begin(), order.end(), 0);
  if (fixed_) return order;
  const bool numbers =
      std::all_of(names_.begin(), names_.end(), [](const auto& name) { return number(name).has_value(); });
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const std::string &a = names_[static_cast<std::size_t>(i)], &b = names_[static_cast<std::size_t>(j)];
    if (!numbers) return a < b;
    return std::pair(*number(a), std::string_view(a)) < std::pair(*number(b), std::string_view(b));
  });
  std::vector<std::string> sorted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(names_[static_cast<std::size_t>(order[i])]);
    renumbered[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  names_ = std::move(sorted);
  return renumbered;
}

}  // namespace tern::data
