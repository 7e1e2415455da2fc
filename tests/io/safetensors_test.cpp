#include "tern/io/safetensors.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::io {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.dtype() == b.dtype());
  REQUIRE(a.shape() == b.shape());
  CHECK(a.values() == b.values());
}

}  // namespace

TEST_CASE("safetensors: every dtype and shape comes back", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "model.safetensors";
  std::map<std::string, Tensor> tensors;
  for (const DTypeFacts& facts : dtype_facts)
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{2, 3}, Shape{3, 0, 2}, Shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
      Tensor counted = arange(0, static_cast<double>(element_count(shape))).reshape(shape);
      tensors.emplace(message(facts.dtype, shape), operators::cast(counted, facts.dtype));
    }
  tensors.emplace("line\nbreak \"quotes\" \\ \x01 \xc3\xa9", scalar(1.5f));
  const std::map<std::string, std::string> metadata{
      {"format", "tern"}, {"", "empty key"}, {"tab\t", "\"\\/\b\f\n\r\x1f"}};
  save_safetensors(file, tensors, metadata);
  const Safetensors loaded = load_safetensors(file);
  CHECK(loaded.metadata == metadata);
  REQUIRE(loaded.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    check_same(loaded.tensors.at(name), tensor);
  }
}

TEST_CASE("safetensors: bits survive: NaN, infinities, -0, subnormals", "[io]") {
  const TemporaryFolder folder;
  const std::vector<float> values{std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY, -0.f, 1e-45f};
  save_safetensors(folder / "f", {{"x", tensor(values, {5})}});
  const auto loaded = load_safetensors(folder / "f").tensors.at("x").to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(std::bit_cast<std::uint32_t>(loaded[i]) == std::bit_cast<std::uint32_t>(values[i]));
}

TEST_CASE("safetensors: views are written as they look", "[io]") {
  const TemporaryFolder folder;
  const Tensor x = arange(0, 12, 1, DType::float32).reshape({3, 4});
  save_safetensors(
      folder / "f",
      {{"transposed", x.transpose(0, 1)}, {"part", x.slice(0, 1, 3)}, {"wide", x.slice(0, 0, 1).expand({2, 4})}});
  const auto loaded = load_safetensors(folder / "f").tensors;
  check_same(loaded.at("transposed"), x.transpose(0, 1).contiguous());
  check_same(loaded.at("part"), x.slice(0, 1, 3));
  CHECK(loaded.at("wide").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("safetensors: the same content gives the same bytes, largest elements first", "[io]") {
  const TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{
      {"a", tensor<std::uint8_t>({1, 2, 3})}, {"b", tensor({1.0, 2.0})}, {"c", tensor({1.0f})}};
  save_safetensors(folder / "1", tensors, {{"k", "v"}});
  save_safetensors(folder / "2", tensors, {{"k", "v"}});
  const std::string bytes = read_bytes(folder / "1");
  CHECK(bytes == read_bytes(folder / "2"));
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
      R"("c":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},"a":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}})";
  CHECK(bytes.substr(8, header.size()) == header);
  const auto length = static_cast<unsigned char>(bytes[0]);
  CHECK(length % 8 == 0);
  CHECK(bytes.substr(1, 7) == std::string(7, '\0'));
  CHECK(bytes.substr(8u + length) == std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40", 16) +
                                         std::string("\0\0\x80\x3f", 4) + std::string("\1\2\3", 3));
}

TEST_CASE("safetensors: a file of the reference writer is read", "[io]") {
  // safetensors.numpy.save({"w": float16 [[0,1,2],[3,4,5]], "n": int64 scalar 7, "e": float32 [0,4], "m": bool
  // [true,false,true]}, metadata={"format": "np", "note": "é"}), with the header that it wrote.
  std::string header =
      R"({"__metadata__":{"format":"np","note":"é"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[8,20]},)"
      R"("m":{"dtype":"BOOL","shape":[3],"data_offsets":[20,23]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>(static_cast<unsigned char>(std::uint64_t{header.size()} >> (8 * i)));
  file += header;
  file += std::string("\x07\0\0\0\0\0\0\0", 8) + std::string("\0\0\0\x3c\0\x40\0\x42\0\x44\0\x45", 12) +
          std::string("\1\0\1", 3);
  const Safetensors loaded = parse_safetensors(as_bytes(file), "memory");
  CHECK(loaded.metadata.at("note") == "é");
  CHECK(loaded.tensors.at("n").item<std::int64_t>() == 7);
  CHECK(loaded.tensors.at("e").shape() == Shape{0, 4});
  CHECK(loaded.tensors.at("w").values() == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(loaded.tensors.at("m").values() == std::vector<double>{1, 0, 1});
}

TEST_CASE("safetensors: what cannot be saved is named, and nothing is written", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "f";
  const Tensor x = scalar(1.f);
  CHECK_THAT(said<FileError>([&] {
               save_safetensors(file, {{"gone", Tensor()}});
             }),
             ContainsSubstring("'gone' is undefined"));
  CHECK_THAT(said<FileError>([&] { save_safetensors(file, {{"__metadata__", x}}); }), ContainsSubstring("reserved"));
  CHECK_THAT(said<FileError>([&] { save_safetensors(file, {{"bad\xff", x}}); }), ContainsSubstring("not UTF-8"));
  CHECK_THAT(said<FileError>([&] {
               save_safetensors(file, {{"x", x}}, {{"k", "\xc0\x80"}});
             }),
             ContainsSubstring("not UTF-8"));
  CHECK_THAT(said<FileError>([&] {
               save_safetensors(folder / "none/f", {{"x", x}});
             }),
             ContainsSubstring("none/f: cannot be written"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("safetensors: a write that fails at any byte leaves the older file", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "f";
  save_safetensors(file, {{"old", scalar(1.f)}});
  const std::map<std::string, Tensor> tensors{{"x", arange(0, 100, 1, DType::float32)}, {"y", arange(0, 9)}};
  save_safetensors(folder / "whole", tensors);
  const auto size = std::filesystem::file_size(folder / "whole");
  for (rlim_t limit = 0; limit < size; limit += 13) {
    const FileSizeLimit full(limit);
    REQUIRE_THAT(said<FileError>([&] { save_safetensors(file, tensors); }), ContainsSubstring("writing failed"));
  }
  CHECK(load_safetensors(file).tensors.count("old") == 1);
  CHECK(folder.entries() == 2);
}

}  // namespace tern::io
