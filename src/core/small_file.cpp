#include "core/small_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

namespace tern {

std::string content_of(const std::filesystem::path& file) {
  std::string text;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file.c_str(), "rb"), std::fclose);
  if (opened == nullptr) return text;
  char part[4096];
  for (std::size_t read = 0; (read = std::fread(part, 1, sizeof part, opened.get())) > 0;) text.append(part, read);
  return text;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view next_word(std::string_view& text) {
  constexpr std::string_view spaces = " \t\r\n";
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(spaces)));
  const std::string_view word = text.substr(0, text.find_first_of(spaces));
  text.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> number_of(std::string_view word) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace tern
