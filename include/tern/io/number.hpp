#pragma once
// Numbers in texts.

#include <charconv>
#include <string_view>

namespace tern::io {

/// std::from_chars for a double, also with libc++ before 20, which has it for integers alone. No locale matters.
std::from_chars_result read_number(std::string_view text, double& value);

namespace detail {
/// What `read_number` is where the standard library has nothing.
std::from_chars_result read_number_by_strtod(std::string_view text, double& value);
}  // namespace detail

}  // namespace tern::io
