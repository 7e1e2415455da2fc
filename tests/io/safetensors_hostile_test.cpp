// Files that lie. Each must be a FileError that names the file and what is wrong with it, before anything is allocated.

#include <limits>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/memory/memory.hpp"

namespace tern::io {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

std::string file_of(const std::string& header, std::size_t buffer_bytes = 0) {
  return little_endian(header.size()) + header + std::string(buffer_bytes, '\0');
}

std::string braced(const std::string& members) { return message('{', members, '}'); }

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return message('"', name, R"(":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, '}');
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return braced(entry("x", dtype, shape, offsets));
}

struct Hostile {
  std::string what, bytes, expected;
};

std::vector<Hostile> hostile_files() {
  const std::string a = entry("a", "U8", "[1]", "[0,1]"), b = entry("b", "U8", "[1]", "[1,2]");
  const auto bad_header = [](std::string what, const std::string& header, std::string expected,
                             std::size_t buffer = 0) {
    return Hostile{std::move(what), file_of(header, buffer), std::move(expected)};
  };
  std::vector<Hostile> files{
      // the length
      {"an empty file", "", "at least 8 bytes, found 0"},
      {"seven bytes", "1234567", "at least 8 bytes, found 7"},
      {"no header behind the length", little_endian(1), "cut short"},
      {"a header longer than the file", little_endian(100) + "{}", "claims 100 bytes, the file holds 2"},
      {"a header of 2^64 - 1 bytes", little_endian(~0ull) + "{}", "the limit is 16777216"},
      {"a header of 2^63 bytes", little_endian(1ull << 63) + "{}", "the limit is 16777216"},
      {"a length that wraps around with the 8", little_endian(~0ull - 7) + "{}", "the limit is 16777216"},
      {"a header just over the limit", little_endian((16u << 20) + 1) + "{}", "raises it"},
      {"another format", "PK\3\4 some zip archive", "not a safetensors file"},
      {"a length of 0", little_endian(0), "expected '{'"},
      // the text
      bad_header("a byte that is not UTF-8", "{\"\xff\":1}", "not valid UTF-8"),
      bad_header("an overlong form", "{\"\xc0\x80\":1}", "not valid UTF-8"),
      bad_header("a surrogate in UTF-8", "{\"\xed\xa0\x80\":1}", "not valid UTF-8"),
      bad_header("a code beyond Unicode", "{\"\xf4\x90\x80\x80\":1}", "not valid UTF-8"),
      bad_header("half a sequence", "{\"\xe2\x82", "not valid UTF-8"),
      bad_header("a list", "[]", "expected '{'"),
      bad_header("a space first", " {}", "expected '{'"),
      bad_header("a byte order mark", "\xef\xbb\xbf{}", "expected '{'"),
      bad_header("something behind the object", "{}x", "nothing but spaces"),
      bad_header("two objects", "{}{}", "nothing but spaces"),
      bad_header("a zero byte behind the object", std::string("{}\0", 3), "nothing but spaces"),
      bad_header("an open object", "{", "expected '\"'"),
      bad_header("an open string", "{\"a", "does not end"),
      bad_header("an open escape", "{\"a\\", "unknown escape"),
      bad_header("an unknown escape", R"({"\q":1})", "unknown escape"),
      bad_header("a short \\u", R"({"\u12":1})", "four hexadecimal digits"),
      bad_header("an open \\u", R"({"\u1)", "four hexadecimal digits"),
      bad_header("a high surrogate alone", R"({"\ud800":1})", "surrogate"),
      bad_header("a low surrogate alone", R"({"\udc00":1})", "surrogate"),
      bad_header("a high surrogate and no low one", R"({"\ud800\u0041":1})", "surrogate"),
      bad_header("a control character", "{\"a\n\":1}", "control character"),
      bad_header("no colon", "{\"a\" 1}", "expected ':'"),
      bad_header("a comma too many", braced(a + ","), "expected '\"'", 1),
      bad_header("a comma too few", braced(a + b), "expected '}'", 2),
      bad_header("single quotes", "{'a':1}", "expected '\"'"),
      bad_header("a comment", "{/* */}", "expected '\"'"),
      bad_header("a number for a tensor", R"({"a":1})", "expected '{'"),
      bad_header("null for a tensor", R"({"a":null})", "expected '{'"),
      bad_header("deep nesting", "{\"a\":" + std::string(100'000, '[') + "}", "expected '{'"),
      bad_header(
          "deep objects",
          [] {
            std::string text;
            for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
            return text;
          }(),
          "unknown key 'a'"),
      // the keys
      bad_header("a repeated tensor", braced(a + "," + a), "'a' is repeated", 2),
      bad_header("a tensor repeated by an escape", braced(a + "," + entry("\\u0061", "U8", "[1]", "[1,2]")),
                 "'a' is repeated", 2),
      bad_header("metadata twice", R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' is repeated"),
      bad_header("a repeated key in the metadata", R"({"__metadata__":{"k":"1","k":"2"}})", "'k' is repeated"),
      bad_header("a number in the metadata", R"({"__metadata__":{"k":1}})", "expected '\"'"),
      bad_header("an object in the metadata", R"({"__metadata__":{"k":{}}})", "expected '\"'"),
      bad_header("null in the metadata", R"({"__metadata__":{"k":null}})", "expected '\"'"),
      bad_header("metadata that is a string", R"({"__metadata__":"k"})", "expected '{'"),
      bad_header("a dtype twice", R"({"x":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                 "'dtype' is repeated", 1),
      bad_header("a shape twice", R"({"x":{"dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1]}})",
                 "'shape' is repeated", 1),
      bad_header("offsets twice", R"({"x":{"dtype":"U8","shape":[],"data_offsets":[0,1],"data_offsets":[0,1]}})",
                 "'data_offsets' is repeated", 1),
      bad_header("an unknown key", R"({"x":{"dtype":"U8","shape":[],"data_offsets":[0,1],"file":"/etc/passwd"}})",
                 "unknown key 'file'", 1),
      bad_header("no dtype", R"({"x":{"shape":[],"data_offsets":[0,1]}})", "expected dtype, shape and data_offsets", 1),
      bad_header("no shape", R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", "expected dtype, shape and data_offsets",
                 1),
      bad_header("no offsets", R"({"x":{"dtype":"U8","shape":[]}})", "expected dtype, shape and data_offsets"),
      bad_header("nothing about a tensor", R"({"x":{}})", "expected dtype, shape and data_offsets"),
      // the dtype
      bad_header("a dtype that is a number", R"({"x":{"dtype":8,"shape":[],"data_offsets":[0,1]}})", "expected '\"'",
                 1),
      bad_header("a dtype in lower case", one("f32", "[]", "[0,4]"), "'f32' is not supported", 4),
      bad_header("an empty dtype", one("", "[]", "[0,4]"), "'' is not supported", 4),
      // the shape
      bad_header("a negative size", one("U8", "[-1]", "[0,1]"), "non-negative integer", 1),
      bad_header("a fraction", one("U8", "[1.5]", "[0,1]"), "expected ']'", 1),
      bad_header("an exponent", one("U8", "[1e0]", "[0,1]"), "expected ']'", 1),
      bad_header("a size in quotes", one("U8", "[\"1\"]", "[0,1]"), "non-negative integer", 1),
      bad_header("a size that is null", one("U8", "[null]", "[0,1]"), "non-negative integer", 1),
      bad_header("a list in the shape", one("U8", "[[1]]", "[0,1]"), "non-negative integer", 1),
      bad_header("a leading zero", one("U8", "[01]", "[0,1]"), "leading zero", 1),
      bad_header("a plus sign", one("U8", "[+1]", "[0,1]"), "non-negative integer", 1),
      bad_header("a shape that is a number", one("U8", "1", "[0,1]"), "expected '['", 1),
      bad_header("a size of 2^64", one("U8", "[18446744073709551616]", "[0,0]"), "beyond 2^63"),
      bad_header("a size of 2^63", one("U8", "[9223372036854775808]", "[0,0]"), "beyond 2^63"),
      bad_header("a size of many digits", one("U8", message('[', std::string(5000, '9'), ']'), "[0,0]"), "beyond 2^63"),
      bad_header("a product of 2^64", one("U8", "[4294967296,4294967296]", "[0,0]"), "overflows"),
      bad_header("a product that wraps to 4", one("F32", "[4611686018427387905]", "[0,4]"), "overflows", 4),
      bad_header("a product that overflows before a zero", one("U8", "[4611686018427387904,4,0]", "[0,0]"),
                 "overflows"),
      bad_header("nine dimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), "more than 8 dimensions", 1),
      bad_header("a million dimensions", one("U8", message('[', std::string(1'000'000, '1'), ']'), "[0,1]"),
                 "beyond 2^63", 1),
      // the offsets
      bad_header("no offset", one("U8", "[1]", "[]"), "two data_offsets", 1),
      bad_header("one offset", one("U8", "[1]", "[0]"), "two data_offsets", 1),
      bad_header("three offsets", one("U8", "[1]", "[0,1,2]"), "more than 2 data_offsets", 1),
      bad_header("a negative offset", one("U8", "[1]", "[-1,0]"), "non-negative integer", 1),
      bad_header("offsets that run backwards", one("U8", "[1]", "[1,0]"), "run backwards", 1),
      bad_header("a hole at the front", one("U8", "[1]", "[1,2]"), "a hole", 2),
      bad_header("a hole in the middle", braced(a + "," + entry("b", "U8", "[1]", "[2,3]")), "a hole", 3),
      bad_header("an overlap", braced(entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]")),
                 "overlap", 3),
      bad_header("two tensors in one place", braced(a + "," + entry("b", "U8", "[1]", "[0,1]")), "overlap", 1),
      bad_header("an empty tensor inside another",
                 braced(entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[0]", "[1,1]")), "overlap", 2),
      bad_header("a byte that no tensor owns", braced(a), "belong to no tensor", 2),
      bad_header("bytes and no tensor", "{}", "belong to no tensor", 8),
      bad_header("a buffer that is cut short", one("F32", "[4]", "[0,16]"), "cut short", 15),
      bad_header("a tensor beyond the end", braced(a + "," + b), "cut short", 1),
      bad_header("a shape larger than its bytes", one("F32", "[1000000]", "[0,4]"),
                 "takes 4000000 bytes, its data_offsets hold 4", 4),
      bad_header("a shape smaller than its bytes", one("F32", "[1]", "[0,8]"), "takes 4 bytes, its data_offsets hold 8",
                 8),
      bad_header("an exabyte", one("F32", "[288230376151711744]", "[0,1152921504606846976]"), "cut short", 4),
      // the values
      {"a bool of 2", file_of(one("BOOL", "[2]", "[0,2]")) + std::string("\1\2", 2), "a BOOL is 0 or 1, found 2"},
  };
  for (const char* dtype :
       {"I16", "U16", "U32", "U64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F4", "C64", "F128"})
    files.push_back(bad_header(message("the dtype ", dtype), one(dtype, "[]", "[0,1]"),
                               message("'", dtype, "' is not supported"), 1));
  return files;
}

}  // namespace

TEST_CASE("safetensors: hostile files are refused by name and reason, and cost no memory", "[io][hostile]") {
  const TemporaryFolder folder;
  const std::string file = folder / "model.safetensors";
  const auto files = hostile_files();
  REQUIRE(files.size() >= 100);
  for (const Hostile& hostile : files) {
    INFO(hostile.what);
    const std::size_t before = host_memory().statistics().in_use;
    host_memory().reset_peak();
    REQUIRE_THAT(said<FileError>([&] { parse_safetensors(as_bytes(hostile.bytes), "given"); }),
                 Catch::Matchers::StartsWith("given: ") && ContainsSubstring(hostile.expected));
    write_bytes(file, hostile.bytes);
    REQUIRE_THAT(said<FileError>([&] { load_safetensors(file); }),
                 Catch::Matchers::StartsWith(file) && ContainsSubstring(hostile.expected));
    CHECK(host_memory().statistics().peak <= before + 64);
  }
}

TEST_CASE("safetensors: a header of a hundred thousand keys ends in time, one more in an error", "[io][hostile]") {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += message(i == 0 ? "" : ",", '"', i, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
  header += "}";
  CHECK(parse_safetensors(as_bytes(file_of(header)), "given", {.header_limit = std::size_t{64} << 20}).tensors.size() ==
        100'000);
  CHECK_THAT(said<FileError>(
                 [&] { parse_safetensors(as_bytes(file_of(header)), "given", {.header_limit = header.size() - 1}); }),
             ContainsSubstring("the limit is"));
  std::string metadata = R"({"__metadata__":{)";
  for (int i = 0; i <= 100'000; ++i) metadata += message(i == 0 ? "" : ",", '"', i, "\":\"\"");
  metadata += "}}";
  CHECK_THAT(said<FileError>([&] { parse_safetensors(as_bytes(file_of(metadata)), "given"); }),
             ContainsSubstring("more than 100000 keys"));
}

TEST_CASE("safetensors: control characters of a hostile name do not reach the message", "[io][hostile]") {
  const std::string name = "\\u001b[2J\\u0007" + std::string(1000, 'n');
  const std::string text = said<FileError>(
      [&] { parse_safetensors(as_bytes(file_of(braced(entry(name, "F31", "[]", "[0,0]")))), "given"); });
  CHECK_THAT(text, ContainsSubstring("'?[2J?nnn"));
  CHECK(text.size() < 400);
}

TEST_CASE("safetensors: every truncation and every changed header byte is an error or a whole file", "[io][hostile]") {
  const std::string good =
      file_of(braced(entry("a", "F32", "[2,1]", "[0,8]") + "," + entry("b", "U8", "[3]", "[8,11]")) + "   ", 11);
  CHECK(parse_safetensors(as_bytes(good), "given").tensors.size() == 2);
  for (std::size_t length = 0; length < good.size(); ++length)
    REQUIRE_THROWS_AS(parse_safetensors(as_bytes(std::string_view(good).substr(0, length)), "given"), FileError);
  REQUIRE_THROWS_AS(parse_safetensors(as_bytes(good + "x"), "given"), FileError);
  int read = 0;
  for (std::size_t i = 0; i < good.size() - 11; ++i)
    for (int value = 0; value < 256; ++value) {
      std::string changed = good;
      changed[i] = static_cast<char>(static_cast<unsigned char>(value));
      try {
        // What is accepted is consistent: 11 bytes of elements, no more.
        std::size_t bytes = 0;
        for (const auto& [name, tensor] : parse_safetensors(as_bytes(changed), "given").tensors)
          bytes += byte_count(tensor.shape(), size_of(tensor.dtype()));
        REQUIRE(bytes == 11);
        ++read;
      } catch (const FileError&) {
      }
    }
  CHECK(read > 0);
}

}  // namespace tern::io
