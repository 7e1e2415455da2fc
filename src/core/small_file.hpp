#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

/// A small file of the system, read at once; empty where it cannot be read.
std::string content_of(const std::filesystem::path& file);

/// Takes the first line off the text.
std::string_view next_line(std::string_view& text);
/// Takes spaces and the word behind them off the text; empty at the end.
std::string_view next_word(std::string_view& text);
/// The number that a word is, in decimal digits.
std::optional<std::uint64_t> number_of(std::string_view word);

}  // namespace tern
