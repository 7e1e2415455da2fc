#include "tern/data/mnist.hpp"

#include <array>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/places.hpp"
#include "tern/data/idx.hpp"
#include "tern/io/sha256.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

/// The four files of a set with `train` and `test` examples.
void write_set(const std::string& folder, std::int64_t train, std::int64_t test) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, std::int64_t n) {
    write_idx(folder + "/" + name + "-images-idx3-ubyte", full({n, 28, 28}, 7, DType::uint8));
    write_idx(folder + "/" + name + "-labels-idx1-ubyte", arange(0, static_cast<double>(n), 1, DType::uint8));
  };
  write("train", train);
  write("t10k", test);
}

/// No folder but those of the test is looked into.
struct Isolated {
  TemporaryFolder folder;
  Variable data{"TERN_DATA_DIR", ""};
  Variable cache{"XDG_CACHE_HOME", folder / "cache"};
};

}  // namespace

TEST_CASE("mnist: the folder that is named comes first, then TERN_DATA_DIR, then the cache", "[data]") {
  const Isolated isolated;
  const TemporaryFolder& folder = isolated.folder;
  write_set(folder / "named", 1, 1);
  write_set(folder / "torch/MNIST/raw", 2, 1);
  write_set(folder / "cache/tern/MNIST/raw", 3, 1);
  CHECK(load_mnist().train.size() == 3);
  {
    const Variable data("TERN_DATA_DIR", folder / "torch");
    CHECK(load_mnist().train.size() == 2);
    const Mnist named = load_mnist({.folder = folder / "named"});
    CHECK(named.train.size() == 1);
    CHECK(named.train.source == "MNIST training set in " + (folder / "named"));
    CHECK(named.test.source == "MNIST test set in " + (folder / "named"));
    CHECK(!named.train.synthetic);
    CHECK(named.train.images.shape() == Shape{1, 1, 28, 28});
    CHECK(named.train.classes == 10);
  }
  write_set(folder / "torch/FashionMNIST/raw", 4, 1);
  CHECK(load_mnist({.folder = folder / "torch", .fashion = true}).train.size() == 4);
}

TEST_CASE("mnist: where nothing is found digits are drawn on request, but not in place of a folder that was named",
          "[data]") {
  const Isolated isolated;
  const TemporaryFolder& folder = isolated.folder;
  const Mnist drawn = load_mnist({.allow_synthetic = true, .synthetic_train = 30, .synthetic_test = 20});
  CHECK(drawn.train.synthetic);
  CHECK(drawn.train.size() == 30);
  CHECK(drawn.test.size() == 20);
  CHECK(drawn.train.images.slice(0, 0, 20).to_vector<std::uint8_t>() != drawn.test.images.to_vector<std::uint8_t>());

  const std::string cache = said<FileError>([] { load_mnist(); });
  CHECK_THAT(cache, ContainsSubstring("MnistOptions::download") && ContainsSubstring("MnistOptions::synthetic"));
  CHECK_THAT(cache, ContainsSubstring(folder / "cache/tern") && ContainsSubstring("cache folder") &&
                        ContainsSubstring("does not exist") && ContainsSubstring("allow the download"));
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    CHECK_THAT(cache, ContainsSubstring(name));
  CHECK_THROWS_AS(load_mnist({.folder = folder / "none"}), FileError);
  CHECK_THROWS_AS(load_mnist({.fashion = true}), FileError);

  write_set(folder / "part", 1, 1);
  std::filesystem::remove(folder / "part/t10k-labels-idx1-ubyte");
  const std::string part = said<FileError>([&] { load_mnist({.folder = folder / "part"}); });
  CHECK_THAT(part, ContainsSubstring(folder / "part") && ContainsSubstring("lacks t10k-labels-idx1-ubyte[.gz]") &&
                       !ContainsSubstring("train-images"));
  const Variable data("TERN_DATA_DIR", folder / "elsewhere");
  CHECK_THAT(said<FileError>([] { load_mnist(); }), ContainsSubstring("the folder of TERN_DATA_DIR"));
  CHECK(load_mnist({.synthetic = true, .synthetic_train = 10, .synthetic_test = 10}).test.synthetic);
}

TEST_CASE("mnist: files that do not belong together are named", "[data]") {
  const Isolated isolated;
  const std::string folder = isolated.folder / "set";
  const auto problem = [&] { return said<FileError>([&] { load_mnist({.folder = folder}); }); };
  write_set(folder, 2, 2);
  write_idx(folder + "/train-labels-idx1-ubyte", zeros({3}, DType::uint8));
  CHECK_THAT(problem(), ContainsSubstring("3 labels for the 2 images"));
  write_set(folder, 2, 2);
  write_idx(folder + "/t10k-images-idx3-ubyte", zeros({2, 27, 28}, DType::uint8));
  CHECK_THAT(problem(), ContainsSubstring("expected images of 28 x 28, found [2,27,28]"));
  write_idx(folder + "/t10k-images-idx3-ubyte", zeros({2, 28, 28}, DType::float32));
  CHECK_THAT(problem(), ContainsSubstring("expected uint8 elements, found float32"));
  std::filesystem::copy_file(folder + "/train-labels-idx1-ubyte", folder + "/t10k-images-idx3-ubyte",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THAT(problem(), ContainsSubstring("expected an IDX file of rank 3, found rank 1"));
  write_set(folder, 2, 12);
  CHECK_THAT(said<NumericError>([&] { load_mnist({.folder = folder}); }),
             ContainsSubstring("label 10 at position 10 is outside [0, 10)"));
}

TEST_CASE("mnist: a download that brings other bytes is refused and leaves nothing", "[data]") {
  if (std::system("curl --version > /dev/null 2>&1") != 0) {
    WARN("skipped: curl is not installed");
    return;
  }
  const Isolated isolated;
  const TemporaryFolder& folder = isolated.folder;
  write_bytes(folder / "train-images-idx3-ubyte.gz", "not those");
  std::string reported;
  MnistOptions options{
      .folder = folder / "target", .download = true, .mirrors = {"file://" + folder.path(), "file:///none"}};
  options.say = [&](const std::string& sentence) { reported = sentence; };
  CHECK_THAT(said<FileError>([&] { load_mnist(options); }), ContainsSubstring("SHA-256") &&
                                                                ContainsSubstring("440fcabf73cc546f") &&
                                                                ContainsSubstring("file:///none"));
  CHECK_THAT(reported,
             ContainsSubstring("downloading MNIST (11.6 MB") && ContainsSubstring(folder / "target/MNIST/raw"));
  CHECK(std::filesystem::is_empty(folder / "target/MNIST/raw"));
}

TEST_CASE("mnist: the real files", "[data]") {
  const std::string folder = shared_data("mnist");
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: no MNIST in " << folder);
    return;
  }
  const Mnist mnist = load_mnist({.folder = folder});
  REQUIRE(mnist.train.images.shape() == Shape{60000, 1, 28, 28});
  REQUIRE(mnist.test.images.shape() == Shape{10000, 1, 28, 28});
  // The sums of the unpacked files, header included.
  const std::string train_header = std::string("\0\0\x08\3", 4) + big_endian(60000) + big_endian(28) + big_endian(28);
  io::Sha256 sum;
  sum.update(as_bytes(train_header));
  sum.update(std::as_bytes(mnist.train.images.read<std::uint8_t>()));
  CHECK(sum.hexadecimal() == "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db");
  const std::string test_header = std::string("\0\0\x08\3", 4) + big_endian(10000) + big_endian(28) + big_endian(28);
  io::Sha256 test_sum;
  test_sum.update(as_bytes(test_header));
  test_sum.update(std::as_bytes(mnist.test.images.read<std::uint8_t>()));
  CHECK(test_sum.hexadecimal() == "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7");

  CHECK(mnist.train.labels.slice(0, 0, 5).to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 0, 4, 1, 9});
  CHECK(mnist.test.labels.slice(0, 0, 5).to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 2, 1, 0, 4});
  std::array<int, 10> counts{};
  for (const std::int64_t label : mnist.train.labels.read<std::int64_t>()) ++counts[static_cast<std::size_t>(label)];
  CHECK(counts == std::array<int, 10>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  double total = 0, squares = 0;
  for (const std::uint8_t pixel : mnist.train.images.read<std::uint8_t>()) {
    total += pixel / 255.0;
    squares += pixel / 255.0 * (pixel / 255.0);
  }
  const double mean = total / (60000.0 * 784);
  CHECK(mean == Approx(mnist_mean).margin(1e-4));
  CHECK(std::sqrt(squares / (60000.0 * 784) - mean * mean) == Approx(mnist_deviation).margin(1e-4));
}

}  // namespace tern::data
