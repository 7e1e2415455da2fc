#include "tern/io/npy.hpp"

#include <bit>
#include <span>
#include <string_view>

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

namespace {

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}
std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A .npy file of version 1 with this header.
std::string npy(const std::string& header, const std::string& elements) {
  std::string start("\x93NUMPY\x01\x00", 8);
  start.push_back(static_cast<char>(header.size()));
  start.push_back(0);
  return start + header + elements;
}

// What Python's zipfile makes, packed and with the fields of numpy.savez_compressed: a, int64 [3], and b, big-endian
// float32 [2,3] in Fortran's order.
constexpr std::string_view packed_by_python =
    "504b03042d000000080000002100f4157056ffffffffffffffff05001400612e6e70790100100098000000000000004d00000000"
    "0000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a"
    "17672416a402f91ac63a9a3a0ab50a1400aeff50c0ce800418191800504b03042d00000008000000210064ca6971ffffffffffff"
    "ffff05001400622e6e707901001000980000000000000057000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a0"
    "6e9766a2aea3a09e965f54529498179f5f94920a120f292a4d050a17672416a402b91a463a0ac69a3a0ab50ae4032efb06060607"
    "062006120e20f602203ec0c00000504b01022d032d000000080000002100f41570564d0000009800000005000000000000000000"
    "0000800100000000612e6e7079504b01022d032d00000008000000210064ca697157000000980000000500000000000000000000"
    "00800184000000622e6e7079504b0506000000000200020066000000120100000000";

}  // namespace

TEST_CASE("npy: what was saved is loaded", "[io]") {
  const TemporaryFolder folder;
  Generator generator(3);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::int32, DType::int64, DType::uint8,
                            DType::boolean, DType::int8})
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}, Shape{3, 0}}) {
      const Tensor saved = randint(0, 2, shape, generator).to(dtype);
      save_npy(folder / "a.npy", saved);
      const Tensor loaded = load_npy(folder / "a.npy");
      CHECK(loaded.dtype() == dtype);
      CHECK(loaded.shape() == shape);
      CHECK(loaded.values() == saved.values());
    }
}

TEST_CASE("npy: both byte orders, Fortran's order, other headers", "[io]") {
  using Values = std::vector<double>;
  const std::string big =
      npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n", from_hex("00000102ffffffff"));
  CHECK(parse_npy(bytes_of(big), "x").values() == Values{258, -1});
  const std::string fortran = npy("{'shape': (2, 3), 'fortran_order': True, 'descr': '|u1'}", from_hex("010402050306"));
  const Tensor matrix = parse_npy(bytes_of(fortran), "x");
  CHECK(matrix.shape() == Shape{2, 3});
  CHECK(matrix.values() == Values{1, 2, 3, 4, 5, 6});
  std::string later = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", from_hex("0500"));
  later[6] = 2;
  later.insert(10, 2, '\0');
  CHECK(parse_npy(bytes_of(later), "x").values() == Values{1, 0});
}

TEST_CASE("npy: what is no such file is named", "[io]") {
  const auto refused = [](const std::string& bytes) { return parse_npy(bytes_of(bytes), "file.npy"); };
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  CHECK_NOTHROW(refused(npy(header, std::string(8, 0))));
  CHECK_THROWS_WITH(refused(npy(header, "abc")), "file.npy: 3 bytes of elements, expected 8 for float32 [2]");
  CHECK_THROWS_WITH(refused("PK"), "file.npy: this is not a NumPy file; numpy.save writes one");
  CHECK_THROWS_WITH(refused(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "")),
                    Catch::ContainsSubstring("type '<c8'") && Catch::ContainsSubstring("astype"));
  for (const char* bad :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (a,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (4611686018427387904, 4)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9223372036854775807)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1,1,1,1,1,1,1,1,1)}", "{'other': '<f4'}"}) {
    INFO(bad);
    CHECK_THROWS_AS(refused(npy(bad, "")), FileError);
  }
  std::string torn = npy(header, std::string(8, 0));
  for (std::size_t size = 0; size < torn.size(); ++size) CHECK_THROWS_AS(refused(torn.substr(0, size)), FileError);
  torn[6] = 9;
  CHECK_THROWS_AS(refused(torn), FileError);
}

TEST_CASE("npz: what was saved is loaded, and what Python packs", "[io]") {
  using Values = std::vector<double>;
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{"weight", tensor<float>({1, 2, 3, 4}, {2, 2}).transpose(0, 1)},
                              {"labels", tensor<std::int64_t>({7})},
                              {"none", zeros({0, 3})}});
  const auto loaded = load_npz(folder / "a.npz");
  CHECK(loaded.size() == 3);
  CHECK(loaded.at("weight").values() == Values{1, 3, 2, 4});
  CHECK(loaded.at("labels").item<std::int64_t>() == 7);
  CHECK(loaded.at("none").shape() == Shape{0, 3});
  save_npz(folder / "e.npz", {});
  CHECK(load_npz(folder / "e.npz").empty());
  CHECK_THROWS_AS(save_npz(folder / "b.npz", {{"half", zeros({1}, DType::bfloat16)}}), DTypeError);
  CHECK(folder.entries() == 2);
  const auto packed = parse_npz(bytes_of(from_hex(packed_by_python)), "packed.npz");
  CHECK(packed.at("a").to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 7, std::int64_t{1} << 40});
  CHECK(packed.at("b").shape() == Shape{2, 3});
  CHECK(packed.at("b").values() == Values{1, 3, 5, 2, 4, 6});
}

TEST_CASE("npz: a damaged file is refused, wherever the damage is", "[io]") {
  const std::string whole = from_hex(packed_by_python);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(parse_npz(bytes_of(whole.substr(0, size)), "torn"), FileError);
  // A flipped bit is found by the check sum, or stands where nothing is read.
  int found = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    try {
      parse_npz(bytes_of(damaged), "damaged");
    } catch (const FileError&) {
      ++found;
    }
  }
  CHECK(found > static_cast<int>(whole.size()) / 3);
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{"x", tensor<std::uint8_t>({1, 2, 3})}});
  std::string stored = read_bytes(folder / "a.npz");
  CHECK_NOTHROW(parse_npz(bytes_of(stored), "stored"));
  stored[stored.find("\x01\x02\x03")] = 9;
  CHECK_THROWS_WITH(parse_npz(bytes_of(stored), "stored"), Catch::ContainsSubstring("check sum"));
  CHECK_THROWS_WITH(parse_npz(bytes_of("no zip, but long enough for one"), "x"),
                    "x: this is not an .npz file; numpy.savez writes one");
}

TEST_CASE("npz: entries that lie over each other are refused", "[io]") {
  // Many entries of one stream would unpack to many times what the file is honest about.
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{"a", arange(0, 4)}, {"b", arange(0, 4)}});
  std::string bytes = read_bytes(folder / "a.npz");
  CHECK_NOTHROW(parse_npz(bytes_of(bytes), "apart"));
  const std::size_t second = bytes.rfind("PK\x01\x02");
  for (std::size_t i = 0; i < 4; ++i) bytes[second + 42 + i] = '\0';  // where the entry says that it begins
  CHECK_THROWS_WITH(parse_npz(bytes_of(bytes), "over"), Catch::ContainsSubstring("over: two of its arrays overlap"));
}

}  // namespace tern::io
