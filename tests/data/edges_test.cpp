// Edges of what prepares data: half pixels, ties, even counts, ends of a window.

#include <cmath>
#include <filesystem>
#include <numeric>

#include "pictures.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/augment.hpp"
#include "tern/data/cifar.hpp"
#include "tern/data/csv.hpp"
#include "tern/data/encoding.hpp"
#include "tern/data/fingerprint.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

// Columns of what Augment::draw returns.
constexpr int brightness = 5, contrast = 6, top = 8, left = 9;

Tensor drawn_with(const Augment& augment, std::int64_t count, int column, float value) {
  Tensor drawn = augment.draw(0, zeros({count}, DType::int64)).clone();
  const auto values = drawn.write<float>();
  const auto width = static_cast<std::size_t>(drawn.size(1));
  for (std::size_t i = static_cast<std::size_t>(column); i < values.size(); i += width) values[i] = value;
  return drawn;
}

Encoding encoded(const std::string& text, Missing missing) {
  const Table table = parse_csv(as_bytes(text), "t.csv", {.missing = true, .find_categorical = true});
  return encoding_of(table, table.features, missing);
}

}  // namespace

TEST_CASE("augment: a square covers the pixels whose middles it holds, in numbers of the normalised image",
          "[data][augment]") {
  const Augment augment({.cutout = 2, .mean = {0.5}, .deviation = {0.25}});
  Tensor drawn = drawn_with(augment, 1, top, 0.5f);
  drawn.write<float>()[left] = 0.5f;
  const std::vector<double> found = augment(ones({1, 1, 4, 4}), drawn).values();
  std::vector<double> expected(16, 1);
  for (const std::size_t i : {5u, 6u, 9u, 10u}) expected[i] = -2;  // 0 before it was normalised
  for (std::size_t i = 0; i < 16; ++i) CHECK(found[i] == Approx(expected[i]));
}

TEST_CASE("augment: each change draws numbers of its own, and bytes are rounded to the nearest", "[data][augment]") {
  const Augment augment({.brightness = 0.5, .contrast = 0.5, .cutout = 1});
  const Tensor drawn = augment.draw(0, arange(0, 20).to(DType::int64));
  const std::vector<float> all = drawn.to_vector<float>();
  const auto width = static_cast<std::size_t>(drawn.size(1));
  for (std::size_t row = 0; row < all.size(); row += width) {
    CHECK(all[row + brightness] != all[row + contrast]);
    CHECK(all[row + brightness] != Approx(0.5f + all[row + top]));
  }
  const Augment brighter({.brightness = 0.5});
  const Tensor images = full({1, 1, 1, 2}, 101, DType::uint8);
  CHECK(brighter(images, drawn_with(brighter, 1, brightness, 0.75f)).values() == std::vector<double>{76, 76});
}

TEST_CASE("encoding: even counts, ties, and holes that are shown", "[data]") {
  CHECK(encoded("x,k\n1,a\n2,b\n3,a\n10,b\n,a\n", Missing::median).columns[0].fill == 2.5);
  CHECK(encoded("x,k\n1,a\n2,b\n6,a\n,b\n", Missing::median).columns[0].fill == 2);
  const Encoding ties = encoded("x,k\nred,a\nblue,b\nred,a\nblue,b\n?,a\n", Missing::mean);
  CHECK(ties.columns[0].fill == 0);  // of two that are as frequent the first
  const Encoding shown = encoded("x,y,k\n1,5,a\n,6,b\n3,7,a\n", Missing::indicator);
  CHECK(shown.columns[0].indicator);
  CHECK(shown.columns[0].fill == 2);
  CHECK_FALSE(shown.columns[1].indicator);
}

TEST_CASE("encoding: more than a thousand categories are refused, however many rows there are", "[data]") {
  std::string text = "x,k\n";
  for (int i = 0; i < 3003; ++i) text += message("word", i % 1001, ",", i % 2 == 0 ? "a" : "b", "\n");
  CHECK_THAT(said<FileError>([&] { encoded(text, Missing::refuse); }),
             ContainsSubstring("found 1001 different texts in x"));
}

TEST_CASE("csv: places behind quoted lines, and behind a line end that the window cuts in two", "[data]") {
  CHECK_THAT(said<FileError>([&] { parse_csv(as_bytes("1,2,k\n\"a\nb\"z,2,k\n"), "t.csv", {}); }),
             ContainsSubstring("t.csv:3:3: found more text after a closing quote"));
  std::string text = "111,2,a\r\n";
  constexpr int rows = 40000;
  for (int i = 1; i < rows; ++i) text += i % 2 == 0 ? "1,2,a\r\n" : "1,2,b\r\n";
  REQUIRE(text[(std::size_t{256} << 10) - 1] == '\r');
  text += "x,2,a\r\n";
  CHECK_THAT(said<FileError>([&] { parse_csv(as_bytes(text), "t.csv", {}); }),
             ContainsSubstring(message("t.csv:", rows + 1, ":1: found 'x'")));
}

TEST_CASE("fingerprint: of every element, their number and their shape", "[data]") {
  const auto of = [](const auto&... parts) {
    Fingerprint sum;
    (sum.add(parts), ...);
    return sum.text();
  };
  const Tensor six = arange(0, 6).to(DType::float32);
  CHECK(of(six.reshape({2, 3})) != of(six.reshape({3, 2})));
  CHECK(of(std::string_view("abc")) != of(std::string_view("abd")));
  CHECK(of(std::string_view("ab"), std::string_view("")) != of(std::string_view("ab")));
  Dataset set{.images = ones({2, 3}), .labels = tensor<std::int64_t>({0, 1}), .classes = 2};
  const std::string before = of(set);
  set.labels = tensor<std::int64_t>({1, 0});
  CHECK(of(set) != before);
}

TEST_CASE("cifar: an empty file is none of its files", "[data][cifar]") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) write_bytes(folder / message("data_batch_", i, ".bin"), std::string(3073, '\1'));
  write_bytes(folder / "test_batch.bin", std::string(3073, '\1'));
  CHECK(load_cifar10(folder.path()).train.size() == 5);
  write_bytes(folder / "data_batch_3.bin", "");
  CHECK_THAT(said<FileError>([&] { load_cifar10(folder.path()); }), ContainsSubstring("data_batch_3.bin: holds 0"));
}

#if TERN_TEST_IMAGES
TEST_CASE("cifar: every byte of an image in a folder comes back", "[data][cifar]") {
  const TemporaryFolder folder;
  Picture picture{.width = 32, .height = 32, .channels = 3, .pixels = std::vector<std::uint8_t>(32 * 32 * 3)};
  std::iota(picture.pixels.begin(), picture.pixels.end(), std::uint8_t{0});
  for (const char* const part : {"train", "test"})
    for (const char* const name : {"cat", "dog"}) {
      std::filesystem::create_directories(folder / message(part, '/', name));
      write_bytes(folder / message(part, '/', name, "/0.png"), png_of(picture));
    }
  const Tensor images = load_cifar10(folder.path()).train.images;
  const std::vector<std::uint8_t> bytes = images.to_vector<std::uint8_t>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 1024; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      wrong += bytes[channel * 1024 + i] != picture.pixels[3 * i + channel];
  CHECK(wrong == 0);
}
#endif

}  // namespace tern::data
