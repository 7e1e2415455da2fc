#pragma once
// Numbers and text formatted for the report.

#include <cstdint>
#include <string>

namespace tern::study {

std::string escape(const std::string& text);  ///< for HTML
/// `digits` significant ones, with commas between thousands: "12,400", "0.031".
std::string number(double value, int digits = 3);
std::string count(std::int64_t value);                 ///< "60,965,224"
std::string duration(double seconds, int digits = 3);  ///< "66 us" with the Greek letter, "1.23 ms", "4.5 s", "12 min"
std::string bytes(double size);                        ///< "17.9 GB"
std::string times(double ratio);                       ///< "210x" with the multiplication sign
std::string percent(double share);
/// For SVG: one digit after the point.
std::string coordinate(double value);

}  // namespace tern::study
