#include "tern/io/npy.hpp"

#include <bit>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tensor/create.hpp"

namespace tern::io {

using namespace testing;

TEST_CASE("npy: the bytes that NumPy writes", "[io]") {
  const TemporaryFolder folder;
  save_npy(folder / "a.npy", tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}).transpose(0, 1));
  const std::string bytes = read_bytes(folder / "a.npy");
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,2,), }";
  REQUIRE(bytes.size() == 128 + 24);
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(bytes.substr(10, header.size()) == header);
  CHECK(bytes[127] == '\n');
  std::string expected;
  for (const float value : {1.f, 4.f, 2.f, 5.f, 3.f, 6.f}) {
    const std::string word = big_endian(std::bit_cast<std::uint32_t>(value));
    expected.append(word.rbegin(), word.rend());
  }
  CHECK(bytes.substr(128) == expected);
}

TEST_CASE("npy: every dtype that NumPy has, any shape, no torn file", "[io]") {
  const TemporaryFolder folder;
  for (const auto& [dtype, name] : {std::pair{DType::float64, "<f8"},
                                    {DType::float16, "<f2"},
                                    {DType::int32, "<i4"},
                                    {DType::int64, "<i8"},
                                    {DType::uint8, "|u1"},
                                    {DType::boolean, "|b1"}}) {
    save_npy(folder / "a.npy", ones({2}, dtype));
    CHECK(read_bytes(folder / "a.npy").substr(10, 15) == std::string("{'descr': '") + name + "'");
  }
  save_npy(folder / "s.npy", scalar(1.0f));
  CHECK(read_bytes(folder / "s.npy").find("'shape': (), }") != std::string::npos);
  save_npy(folder / "e.npy", zeros({0, 4}));
  CHECK(read_bytes(folder / "e.npy").size() % 64 == 0);
  CHECK_THROWS_AS(save_npy(folder / "b.npy", zeros({1}, DType::bfloat16)), DTypeError);
  CHECK_THROWS_AS(save_npy(folder / "nowhere/b.npy", zeros({1})), FileError);
  CHECK(folder.entries() == 3);
}

}  // namespace tern::io
