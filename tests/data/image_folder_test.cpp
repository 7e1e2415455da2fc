#include "tern/data/image_folder.hpp"

#include <cmath>
#include <filesystem>

#include "data/image_folders.hpp"
#include "support/catch.hpp"

#if TERN_TEST_IMAGES

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

/// Three classes with 5, 3 and 4 pictures; the red of picture i (in the order of the set) is 10 i.
void write_set(const std::string& root) {
  int red = 0;
  for (const auto& [name, count] : {std::pair("b cat", 5), std::pair("dog", 3), std::pair("zebra", 4)})
    for (int i = 0; i < count; ++i, red += 10) {
      const Picture picture = plain_picture(12 + i, 10, {static_cast<std::uint8_t>(red), 100, 200});
      write_file(message(root, '/', name, '/', i, i % 2 == 0 ? ".PNG" : ".png"), png_of(picture));
    }
}

std::string problem_of(const std::string& folder, const ImageFolderOptions& options = {}) {
  return said<FileError>([&] { ImageFolder(folder, options); });
}

}  // namespace

TEST_CASE("image folder: classes and images are numbered by name", "[data][image]") {
  const TemporaryFolder folder;
  write_set(folder.path());
  write_file(folder / "notes.txt", "not a class");
  write_file(folder / ".cache/x.jpg", "hidden");
  write_file(folder / "dog/.hidden.png", "hidden");
  write_file(folder / "dog/boxes.txt", "not an image");
  write_file(folder / "dog/more/0.jpeg", jpeg_of(plain_picture(10, 10, {80, 100, 200})));
  const ImageFolder set(folder.path() + "/", plain(8, 8));
  CHECK(set.class_names() == std::vector<std::string>{"b cat", "dog", "zebra"});
  REQUIRE(set.size() == 13);
  CHECK(set.classes() == 3);
  CHECK(set.shape() == Shape{3, 8, 8});
  CHECK(set.name() == "images of " + folder.path());
  CHECK(set.file(0) == (folder / "b cat/0.PNG"));
  CHECK(set.file(8) == (folder / "dog/more/0.jpeg"));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < set.size(); ++i) labels.push_back(set.label(i));
  CHECK(labels == std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  const auto examples = examples_of(DataLoader(set, {.batch_size = 4, .shuffle = false}), 0);
  for (std::size_t i : {std::size_t{0}, std::size_t{4}, std::size_t{6}}) {
    CHECK(examples[i][0] == Approx(static_cast<double>(i) / 25.5));
    CHECK(examples[i].back() == static_cast<float>(labels[i]));
  }
  CHECK_THROWS_AS(set.file(13), ShapeError);
  CHECK_THROWS_AS(set.label(-1), ShapeError);
}

TEST_CASE("image folder: an epoch is the same for any number of workers, and each epoch another", "[data][image]") {
  const TemporaryFolder folder;
  for (int i = 0; i < 23; ++i)
    write_file(message(folder.path(), "/class ", i % 4, "/", i, ".jpg"), jpeg_of(smooth_picture(30 + i, 50 - i)));
  ImageFolderOptions options{.size = 20, .short_side = 26, .crop = Crop::random, .mirror = true};
  const ImageFolder set(folder.path(), options);
  const auto expected = examples_of(DataLoader(set, {.batch_size = 5, .seed = 2, .prefetch = 0}), 1);
  REQUIRE(expected.size() == 23);
  for (const int workers : {1, 2, 4})
    CHECK(examples_of(DataLoader(set, {.batch_size = 5, .seed = 2, .workers = workers}), 1) == expected);
  CHECK(examples_of(DataLoader(ImageFolder(folder.path(), options), {.batch_size = 5, .seed = 2}), 1) == expected);
  CHECK(examples_of(DataLoader(set, {.batch_size = 5, .seed = 2}), 2) != expected);
  CHECK(examples_of(DataLoader(set, {.batch_size = 5, .seed = 3}), 1) != expected);
  // Without a shuffle the order stays, the crops do not.
  const DataLoader in_order(set, {.batch_size = 5, .shuffle = false});
  CHECK(examples_of(in_order, 0) != examples_of(in_order, 1));
}

TEST_CASE("image folder: a corrupt image is an error that names it, or left out, or replaced, and counted",
          "[data][image][hostile]") {
  const TemporaryFolder folder;
  write_set(folder.path());
  const std::string whole = jpeg_of(smooth_picture(40, 40));
  write_file(folder / "dog/0.PNG", "this is no image");                 // 5
  write_file(folder / "dog/1.png", whole.substr(0, whole.size() / 2));  // 6
  write_file(folder / "zebra/3.png", "");                               // 11, the last
  ImageFolderOptions options = plain(8, 8);
  const LoaderOptions in_order{.batch_size = 4, .shuffle = false, .workers = 2};

  CHECK_THAT(said<FileError>([&] { examples_of(DataLoader(ImageFolder(folder.path(), options), in_order), 0); }),
             Catch::Matchers::StartsWith(folder / "dog/0.PNG: is neither a JPEG nor a PNG"));

  options.corrupt = OnCorrupt::skip;
  const ImageFolder skipping(folder.path(), options);
  CHECK(skipping.corrupt() == 0);
  const auto kept = examples_of(DataLoader(skipping, in_order), 0);
  REQUIRE(kept.size() == 9);
  CHECK(kept[5][0] == Approx(70 / 255.));
  CHECK(kept[8].back() == 2);
  CHECK(examples_of(DataLoader(skipping, in_order), 1).size() == 9);
  CHECK(skipping.corrupt() == 3);  // each once
  CHECK(skipping.corrupt_files() ==
        std::vector<std::string>{folder / "dog/0.PNG", folder / "dog/1.png", folder / "zebra/3.png"});

  const auto listed = std::make_shared<const ImageFolder>(folder.path(), options);
  const auto filled = examples_of(DataLoader(Replacing(listed), in_order), 0);
  REQUIRE(filled.size() == 12);
  CHECK(listed->corrupt() == 3);
  for (const std::size_t i : {5u, 6u}) {
    CHECK(filled[i][0] == Approx(70 / 255.));
    CHECK(filled[i].back() == 1);
  }
  CHECK(filled[11] == filled[8]);  // the next zebra, from the beginning again
  CHECK_THROWS_AS(listed->prepare(folder / "dog/0.PNG"), FileError);

  // Nothing comes from outside a subset.
  const auto held_out = std::make_shared<const Subset>(listed, std::vector<std::int64_t>{4, 5, 7, 10, 11});
  const auto inside = examples_of(DataLoader(Replacing(held_out), in_order), 0);
  REQUIRE(inside.size() == 5);
  CHECK(inside[1] == inside[2]);
  CHECK(inside[4] == inside[3]);
  const auto without = std::make_shared<const Subset>(listed, std::vector<std::int64_t>{4, 5, 10});
  CHECK_THROWS_AS(examples_of(DataLoader(Replacing(without), in_order), 0), FileError);
}

TEST_CASE("image folder: where nothing can be read, replacing says so", "[data][image][hostile]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.jpg", "nothing");
  write_file(folder / "class/b.jpg", "nothing");
  const Replacing set(std::make_shared<ImageFolder>(folder.path(), ImageFolderOptions{.corrupt = OnCorrupt::skip}));
  CHECK_THAT(said<FileError>([&] { collect(set); }), ContainsSubstring("no example of class 0 can be read"));
  const ImageFolder skipping(folder.path(), {.corrupt = OnCorrupt::skip});
  CHECK(collect(skipping).size() == 0);
}

TEST_CASE("image folder: an image that can be read again is read again", "[data][image]") {
  const TemporaryFolder folder;
  const std::string image = png_of(plain_picture(9, 9, {70, 70, 70}));
  write_file(folder / "class/a.png", image);
  write_file(folder / "class/b.png", image);
  ImageFolderOptions options = plain(8, 8);
  options.corrupt = OnCorrupt::skip;
  const ImageFolder set(folder.path(), options);
  std::filesystem::rename(folder / "class/a.png", folder / "elsewhere");
  CHECK(collect(set).size() == 1);
  CHECK(set.corrupt_files() == std::vector<std::string>{folder / "class/a.png"});
  std::filesystem::rename(folder / "elsewhere", folder / "class/a.png");
  CHECK(collect(set).size() == 2);
  CHECK(set.corrupt() == 0);
}

TEST_CASE("image folder: folders that hold no set are refused by reason", "[data][image][hostile]") {
  const TemporaryFolder folder;
  CHECK_THAT(problem_of(folder / "nowhere"), ContainsSubstring("nowhere: cannot be listed: No such file"));
  CHECK_THAT(problem_of(folder.path()), ContainsSubstring("holds no class folders; expected FOLDER/CLASS/IMAGE.jpg"));
  write_file(folder / "a.jpg", "image");
  CHECK_THAT(problem_of(folder.path()),
             ContainsSubstring("holds no class folders, but 1 images; move them into a folder per class"));
  CHECK_THAT(problem_of(folder / "a.jpg"), ContainsSubstring("cannot be listed: Not a directory"));
  write_file(folder / "class/a.jpg", "image");
  CHECK(ImageFolder(folder.path()).size() == 1);
  std::filesystem::create_directories(folder / "empty");
  CHECK_THAT(problem_of(folder.path()),
             ContainsSubstring((folder / "empty") + ": the class folder holds no file named"));
  CHECK_THAT(problem_of(folder.path()), ContainsSubstring("put images in, or remove the folder"));
  write_file(folder / "empty/a.webp", "image");
  CHECK_THAT(problem_of(folder.path()), ContainsSubstring("only such as a.webp"));
}

TEST_CASE("image folder: files and folders that may not be read are named", "[data][image][hostile]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.png", png_of(plain_picture(9, 9, {1, 2, 3})));
  std::filesystem::permissions(folder / "class/a.png", std::filesystem::perms(0));
  const Unprivileged nobody;
  if (geteuid() == 0) return;  // root that cannot become another reads everything
  const ImageFolder set(folder.path(), plain(8, 8));
  CHECK_THAT(
      said<FileError>([&] { collect(set); }),
      ContainsSubstring((folder / "class/a.png") + ": cannot be opened: Permission denied; check the permissions"));
}

TEST_CASE("image folder: images that vanish or change meanwhile are errors of their own", "[data][image][hostile]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.png", png_of(plain_picture(9, 9, {1, 2, 3})));
  const ImageFolder set(folder.path(), plain(8, 8));
  std::filesystem::remove(folder / "class/a.png");
  CHECK_THAT(said<FileError>([&] { collect(set); }), ContainsSubstring("a.png: cannot be opened: No such file"));
  std::filesystem::create_directories(folder / "class/a.png");
  CHECK_THAT(said<FileError>([&] { collect(set); }), ContainsSubstring("found a folder"));
}

TEST_CASE("image folder: options are checked", "[data][image]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.png", "");
  const auto with = [&](const ImageFolderOptions& options) { return ImageFolder(folder.path(), options); };
  CHECK_THROWS_AS(with({.size = 0}), ShapeError);
  CHECK_THAT(said<ShapeError>([&] { with({.size = 300}); }),
             ContainsSubstring("expected a short_side from the size, 300"));
  CHECK_THROWS_AS(with({.short_side = 1 << 20}), ShapeError);
  CHECK_THROWS_AS(with({.limit = 0}), ShapeError);
  CHECK_THROWS_AS(with({.mean = {0, NAN, 0}}), NumericError);
  CHECK_THROWS_AS(with({.deviation = {1, 0, 1}}), NumericError);
}

}  // namespace tern::data

#endif
