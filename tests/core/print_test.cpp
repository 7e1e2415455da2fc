// Tensors as text.

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

/// The text without its first line.
std::string rows(const Tensor& x, const PrintOptions& options = {}) {
  const std::string text = to_string(x, options);
  return text.substr(text.find('\n') + 1);
}

}  // namespace

TEST_CASE("print: dtype, shape, place and rows", "[core]") {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 60}, {2, 3});
  CHECK(message(x) ==
        "float32 [2,3] in host\n"
        "[[ 1.  2.  3.]\n"
        " [ 4.  5. 60.]]");
  CHECK(message(x.transpose(0, 1)) ==
        "float32 [3,2] in host\n"
        "[[ 1.  4.]\n"
        " [ 2.  5.]\n"
        " [ 3. 60.]]");
  CHECK(message(Tensor()) == "undefined tensor");
  CHECK(to_string(empty({2, 0})) == "float32 [2,0]\n[]");
  CHECK(rows(scalar(2.5)) == "2.5000");
}

TEST_CASE("print: numbers of one width, whole, with digits or with exponents", "[core]") {
  CHECK(rows(tensor<double>({0.5, -1.25, 10})) == "[ 0.5000 -1.2500 10.0000]");
  CHECK(rows(tensor<double>({0.5, -1.25, 10}), {.precision = 2}) == "[ 0.50 -1.25 10.00]");
  CHECK(rows(tensor<double>({1e-6, 2})) == "[1.0000e-06 2.0000e+00]");
  CHECK(rows(tensor<double>({1e9, 2})) == "[1.0000e+09 2.0000e+00]");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(rows(tensor<double>({1, -infinity, std::nan(""), infinity})) == "[  1. -inf  nan  inf]");
  CHECK(rows(tensor<std::int64_t>({-1, 1000, std::numeric_limits<std::int64_t>::max()})) ==
        "[                 -1                1000 9223372036854775807]");
  CHECK(rows(tensor<bool>({true, false})) == "[ true false]");
  CHECK(rows(tensor<std::uint8_t>({7, 200})) == "[  7 200]");
  CHECK(rows(tensor<float>({1.5F, 2}, {2}).to(DType::bfloat16)) == "[1.5000 2.0000]");
}

TEST_CASE("print: matrices are apart, long rows go on, many elements are left out", "[core]") {
  CHECK(rows(arange(0, 8).reshape({2, 2, 2})) ==
        "[[[0 1]\n"
        "  [2 3]]\n"
        "\n"
        " [[4 5]\n"
        "  [6 7]]]");
  CHECK(rows(arange(0, 12), {.width = 12}) ==
        "[ 0  1  2  3\n"
        "  4  5  6  7\n"
        "  8  9 10 11]");
  CHECK(rows(arange(0, 2000)) == "[   0    1    2 ... 1997 1998 1999]");
  CHECK(rows(arange(0, 1000)).find("...") == std::string::npos);
  CHECK(rows(arange(0, 40).reshape({8, 5}), {.threshold = 10, .edge = 1}) ==
        "[[ 0 ...  4]\n"
        " ...\n"
        " [35 ... 39]]");
}

TEST_CASE("print: looking moves nothing", "[core]") {
  const Tensor x = arange(0, 5);
  const Device device{"debug"};
  const Tensor y = operators::add(x.to(DType::float32), 1);
  const std::uint64_t version = y.storage().version();
  const Device strict{"debug", {.transfers = Transfers::forbid}};
  CHECK(message(y) == "float32 [5] in debug\n[1. 2. 3. 4. 5.]");
  CHECK(y.storage().version() == version);
}
