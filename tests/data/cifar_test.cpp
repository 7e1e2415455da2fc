#include "tern/data/cifar.hpp"

#include <filesystem>

#include "pictures.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/image.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;
using testing::write_bytes;
namespace fs = std::filesystem;

namespace {

/// A record: its labels, and pixels that all are `first`, but for the last one.
std::string record(std::initializer_list<int> labels, int first, int last) {
  std::string bytes;
  for (const int label : labels) bytes += static_cast<char>(label);
  bytes += std::string(3071, static_cast<char>(first));
  return bytes + static_cast<char>(last);
}

void write_ten(const std::string& folder) {
  for (int i = 1; i <= 5; ++i)
    write_bytes(folder + "/data_batch_" + std::to_string(i) + ".bin", record({i}, 10 * i, 1) + record({9 - i}, 200, i));
  write_bytes(folder + "/test_batch.bin", record({7}, 255, 0));
}

constexpr const char* ten_names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\r\ntruck\r\n\n";

}  // namespace

TEST_CASE("cifar: the published binaries of ten classes", "[data][cifar]") {
  const testing::TemporaryFolder root;
  fs::create_directory(root / "cifar-10-batches-bin");
  const std::string folder = root / "cifar-10-batches-bin";
  write_ten(folder);
  for (const std::string& named : {folder, root.path()}) {
    const Cifar set = load_cifar10(named);
    CHECK(set.train.images.shape() == Shape{10, 3, 32, 32});
    CHECK(set.train.images.dtype() == DType::uint8);
    CHECK(set.train.labels.values() == std::vector<double>{1, 8, 2, 7, 3, 6, 4, 5, 5, 4});
    CHECK(set.train.images[4].values().front() == 30);
    CHECK(set.train.images[4].values().back() == 1);
    CHECK(set.train.images[9].values().back() == 5);
    CHECK(set.test.images.values().front() == 255);
    CHECK(set.test.labels.values() == std::vector<double>{7});
    CHECK(set.test.source == folder + "/test_batch.bin");
    CHECK(set.classes.at(9) == "9");
    set.train.check();
  }
  write_bytes(folder + "/batches.meta.txt", ten_names);
  CHECK(load_cifar10(root.path()).classes.at(8) == "ship");
  write_bytes(folder + "/batches.meta.txt", "one\ntwo\n");
  CHECK_THAT(said<FileError>([&] { load_cifar10(folder); }),
             ContainsSubstring("batches.meta.txt: found 2 names of classes, expected 10"));
}

TEST_CASE("cifar: a hundred classes, or their twenty groups", "[data][cifar]") {
  const testing::TemporaryFolder folder;
  write_bytes(folder / "train.bin", record({19, 99}, 1, 2) + record({0, 5}, 3, 4));
  write_bytes(folder / "test.bin", record({3, 42}, 5, 6));
  const Cifar fine = load_cifar100(folder.path()), coarse = load_cifar100(folder.path(), CifarLabels::coarse);
  CHECK(fine.train.labels.values() == std::vector<double>{99, 5});
  CHECK(fine.train.classes == 100);
  CHECK(coarse.train.labels.values() == std::vector<double>{19, 0});
  CHECK(coarse.test.labels.values() == std::vector<double>{3});
  CHECK(coarse.classes.size() == 20);
  CHECK(fine.train.images.values().back() == 4);
}

TEST_CASE("cifar: torn, wrong and missing files are named", "[data][cifar]") {
  const testing::TemporaryFolder folder;
  const auto load = [&] { load_cifar10(folder.path()); };
  CHECK_THAT(said<FileError>(load), ContainsSubstring(folder.path() + ": expected CIFAR-10's binaries"));
  write_ten(folder.path());
  write_bytes(folder / "data_batch_3.bin", record({1}, 0, 0).substr(1));
  CHECK_THAT(said<FileError>(load),
             ContainsSubstring("data_batch_3.bin: holds 3072 bytes, expected a multiple of 3073"));
  write_bytes(folder / "data_batch_3.bin", record({10}, 0, 0));
  CHECK_THAT(said<FileError>(load), ContainsSubstring("data_batch_3.bin: found the label 10, expected one below 10"));
  fs::remove(folder / "data_batch_3.bin");
  CHECK_THAT(said<FileError>(load), ContainsSubstring("data_batch_3.bin"));
  CHECK_THAT(said<FileError>([&] { load_cifar100(folder.path()); }),
             ContainsSubstring("expected CIFAR-100's binaries, train.bin and test.bin"));
}

#if TERN_TEST_IMAGES
TEST_CASE("cifar: folders of images keep their bytes", "[data][cifar]") {
  const testing::TemporaryFolder folder;
  for (const char* part : {"train", "test"})
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(folder / (std::string(part) + "/" + name));
      for (const char* image : {"0.png", "1.png"})
        write_bytes(folder / (std::string(part) + "/" + name + "/" + image),
                    testing::png_of(testing::smooth_picture(32, 32)));
    }
  const Cifar set = load_cifar10(folder.path());
  CHECK(set.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(set.train.labels.values() == std::vector<double>{0, 0, 1, 1});
  CHECK(set.train.images[2].values() == read_image(folder / "train/dog/0.png").values());
  fs::rename(folder / "test/dog", folder / "test/wolf");
  CHECK_THAT(said<FileError>([&] { load_cifar10(folder.path()); }),
             ContainsSubstring("train and test have different classes"));
}
#endif

}  // namespace tern::data
