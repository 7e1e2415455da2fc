#pragma once
// Parses numbers.

#include <charconv>
#include <string_view>

namespace tern::io {

/// std::from_chars for a double, also with libc++ before 20, which has it for integers only. Independent of the locale.
std::from_chars_result read_number(std::string_view text, double& value);

namespace detail {
/// The `read_number` for standard libraries without it.
std::from_chars_result read_number_by_strtod(std::string_view text, double& value);
}  // namespace detail

}  // namespace tern::io
