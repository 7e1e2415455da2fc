#include "tern/io/number.hpp"

#include <bit>
#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace tern::io {

#if !defined(_LIBCPP_VERSION) || _LIBCPP_VERSION >= 200000  // which have a from_chars to compare with
TEST_CASE("numbers in text: strtod reads what from_chars reads, and not more", "[io]") {
  for (const std::string text : {"0",
                                 "-0",
                                 "1",
                                 "-1.5",
                                 "1.",
                                 ".5",
                                 "-.5",
                                 ".",
                                 "-",
                                 "",
                                 "1e3",
                                 "1E+3",
                                 "1e-3",
                                 "1e",
                                 "1e+",
                                 "1.5x",
                                 "0x10",
                                 "-0X1p3",
                                 "x1",
                                 "+1",
                                 "-+1",
                                 "--1",
                                 " 1",
                                 "- 1",
                                 "1 ",
                                 "\t1",
                                 "inf",
                                 "-INF",
                                 "infinity",
                                 "infx",
                                 "nan",
                                 "-nan",
                                 "nan()",
                                 "1e308",
                                 "1e309",
                                 "-1e309",
                                 "1e-400",
                                 "5e-324",
                                 "2e-324",
                                 "4.9e-324",
                                 "1e-310",
                                 "0.1",
                                 "123456789012345678901234567890",
                                 "1,5",
                                 "1_0",
                                 "0e99999",
                                 "1e99999",
                                 "one"}) {
    INFO('"' << text << '"');
    double a = 7, b = 7;
    const auto expected = std::from_chars(text.data(), text.data() + text.size(), a);
    const auto found = detail::read_number_by_strtod(text, b);
    CHECK(found.ptr - text.data() == expected.ptr - text.data());
    CHECK(found.ec == expected.ec);
    CHECK(std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b));
    double c = 7;
    CHECK(read_number(text, c).ec == expected.ec);
    CHECK(std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(c));
  }
}
#endif

TEST_CASE("numbers in text: only the text itself is read", "[io]") {
  const std::string_view digits = "12345";
  double value = 0;
  CHECK(detail::read_number_by_strtod(digits.substr(0, 2), value).ptr == digits.data() + 2);
  CHECK(value == 12);
}

}  // namespace tern::io
