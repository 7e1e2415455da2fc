#include "tern/data/idx.hpp"

#include <zlib.h>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/memory/memory.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

std::string idx_header(int code, const std::vector<std::uint32_t>& shape) {
  std::string bytes{'\0', '\0', static_cast<char>(code), static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) bytes += big_endian(size);
  return bytes;
}

/// `bytes` as gzip packs them.
std::string packed(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string result(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string problem_of(const std::string& bytes, const IdxOptions& options = {}) {
  return said<FileError>([&] { parse_idx(as_bytes(bytes), "given", options); });
}

}  // namespace

TEST_CASE("idx: the dtypes come back, raw and packed", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "f";
  for (const DType dtype : {DType::uint8, DType::int8, DType::int32, DType::float32, DType::float64})
    for (const Shape& shape : {Shape{0}, Shape{5}, Shape{2, 3}, Shape{3, 0, 2}, Shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
      INFO(message(dtype, " ", shape));
      const Tensor x = arange(0, static_cast<double>(element_count(shape)), 1, dtype).reshape(shape);
      write_idx(file, x);
      for (int pack = 0; pack < 2; ++pack) {
        const Tensor y = read_idx(file, {.rank = shape.rank()});
        REQUIRE(y.dtype() == dtype);
        REQUIRE(y.shape() == shape);
        CHECK(y.values() == x.values());
        write_bytes(file, packed(read_bytes(file)));
      }
    }
  CHECK_THROWS_AS(write_idx(file, scalar<std::uint8_t>(1)), ShapeError);
  CHECK_THROWS_AS(write_idx(file, tensor<std::int64_t>({1})), DTypeError);
}

TEST_CASE("idx: elements are big-endian", "[data]") {
  const std::string bytes = idx_header(0x0c, {2}) + big_endian(258) + big_endian(0xffffffff);
  CHECK(parse_idx(as_bytes(bytes), "given").to_vector<std::int32_t>() == std::vector<std::int32_t>{258, -1});
  const std::string floats = idx_header(0x0d, {1}) + big_endian(0x3fc00000);
  CHECK(parse_idx(as_bytes(floats), "given").to_vector<float>() == std::vector<float>{1.5f});
}

TEST_CASE("idx: files that lie are refused by reason, raw and packed, before memory is taken", "[data][hostile]") {
  const std::string good = idx_header(8, {2, 3}) + "123456";
  struct Hostile {
    const char* what;
    std::string bytes, expected;
    IdxOptions options = {};
  };
  const std::vector<Hostile> files{
      {"nothing", "", "ends inside the first 4 bytes"},
      {"three bytes", std::string("\0\0\x08", 3), "ends inside the first 4 bytes"},
      {"another format", "PK\3\4", "two zero bytes, found 80 and 75"},
      {"a text", "<html>404</html>", "two zero bytes"},
      {"a wrong second byte", std::string("\0\1\x08\1", 4) + big_endian(0), "found 0 and 1"},
      {"an unknown type", idx_header(7, {1}) + "1", "unknown IDX element type 7"},
      {"type 0", idx_header(0, {1}) + "1", "unknown IDX element type 0"},
      {"type 255", idx_header(255, {1}) + "1", "unknown IDX element type 255"},
      {"int16", idx_header(11, {1}) + "11", "int16 are not supported"},
      {"int16", idx_header(11, {1}) + "12", "int16 are not supported"},
      {"rank 0", idx_header(8, {}) + "1", "of rank 0"},
      {"rank 9", idx_header(8, std::vector<std::uint32_t>(9, 1)) + "1", "of rank 9"},
      {"rank 255", std::string("\0\0\x08\xff", 4) + std::string(1020, '\0'), "of rank 255"},
      {"labels for images", idx_header(8, {2}) + "12", "expected an IDX file of rank 3, found rank 1", {.rank = 3}},
      {"half a header", idx_header(8, {2, 3}).substr(0, 11), "ends inside its header"},
      {"no sizes", idx_header(8, {2, 3}).substr(0, 4), "ends inside its header"},
      {"one byte short", good.substr(0, good.size() - 1), "= 6 bytes, found only 5"},
      {"no elements", good.substr(0, 12), "= 6 bytes, found only 0"},
      {"one byte long", good + "7", "= 6 bytes, but more follow"},
      {"a byte behind no elements", idx_header(8, {0}) + "7", "= 0 bytes, but more follow"},
      {"4 GiB declared", idx_header(8, {0xffffffff}) + "1", "found only 1"},
      {"more than the limit", idx_header(8, {0xffffffff, 2}) + "1", "declares more than 4294967296 bytes"},
      {"a product of 2^64", idx_header(8, {65536, 65536, 65536, 65536}), "declares more than"},
      {"a product that wraps to 8", idx_header(14, {0x80000001, 0x40000000, 4}) + "12345678", "declares more than"},
      {"an overflow before a zero", idx_header(8, {0xffffffff, 0xffffffff, 0}), "declares more than"},
      {"an overflow behind a zero", idx_header(12, {0, 0xb0000010, 0xfffd67ff}), "declares more than"},
      {"a small limit", good, "declares more than 5 bytes", {.limit = 5}},
      {"float64 over a small limit",
       idx_header(14, {2}) + std::string(16, 'x'),
       "declares more than 15 bytes",
       {.limit = 15}},
  };
  for (const Hostile& hostile : files) {
    INFO(hostile.what);
    const std::size_t before = host_memory().statistics().in_use;
    host_memory().reset_peak();
    REQUIRE_THAT(problem_of(hostile.bytes, hostile.options),
                 Catch::Matchers::StartsWith("given: ") && ContainsSubstring(hostile.expected));
    REQUIRE_THAT(problem_of(packed(hostile.bytes), hostile.options), ContainsSubstring(hostile.expected));
    CHECK(host_memory().statistics().peak == before);
  }
  CHECK(parse_idx(as_bytes(good), "given", {.limit = 6}).numel() == 6);
}

TEST_CASE("idx: damaged gzip data is refused", "[data][hostile]") {
  const std::string content = idx_header(8, {1000}) + std::string(1000, 'x');
  const std::string good = packed(content);
  CHECK(parse_idx(as_bytes(good), "given").numel() == 1000);
  for (std::size_t length = 2; length < good.size(); ++length)
    REQUIRE_THAT(problem_of(good.substr(0, length)), ContainsSubstring("cut short"));
  CHECK_THAT(problem_of(good + "x"), ContainsSubstring("bytes follow the end of the gzip data"));
  CHECK_THAT(problem_of(good + good), ContainsSubstring("bytes follow the end of the gzip data"));
  std::string wrong_sum = good;
  wrong_sum[good.size() - 8] = static_cast<char>(wrong_sum[good.size() - 8] ^ 1);
  CHECK_THAT(problem_of(wrong_sum), ContainsSubstring("damaged (incorrect data check)"));
  std::string wrong_method = good;
  wrong_method[2] = 7;
  CHECK_THAT(problem_of(wrong_method), ContainsSubstring("damaged (unknown compression method)"));
  CHECK_THAT(problem_of("\x1f\x8b"), ContainsSubstring("cut short"));
}

TEST_CASE("idx: a gzip bomb is inflated no further than one byte too many", "[data][hostile]") {
  // 256 MiB of zeros in about 260 kB, behind a header that declares ten bytes.
  const std::string bomb = packed(idx_header(8, {10}) + std::string(std::size_t{256} << 20, '\0'));
  REQUIRE(bomb.size() < 300'000);
  const std::size_t before = host_memory().statistics().in_use;
  host_memory().reset_peak();
  CHECK_THAT(problem_of(bomb), ContainsSubstring("= 10 bytes, but more follow"));
  CHECK(host_memory().statistics().peak == before);
}

TEST_CASE("idx: files are named in the message", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "train-images-idx3-ubyte";
  CHECK_THAT(said<FileError>([&] { read_idx(file); }), ContainsSubstring(file + ": cannot be opened"));
  write_bytes(file, idx_header(8, {7}) + "123");
  CHECK_THAT(said<FileError>([&] { read_idx(file); }),
             ContainsSubstring(file + ": declares uint8 [7] = 7 bytes, found only 3"));
  CHECK_THAT(said<FileError>([&] { read_idx(folder.path()); }), ContainsSubstring("found a folder"));
}

}  // namespace tern::data
