#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// Mean and deviation of MNIST's training images in [0, 1], for to_float and LoaderOptions.
inline constexpr double mnist_mean = 0.1307;
inline constexpr double mnist_deviation = 0.3081;

struct MnistOptions {
  std::string folder = {};       ///< folder of the four files, raw or .gz, or a root with MNIST/raw below it; empty:
                                 ///< searched
  bool download = false;         ///< fetch missing files (about 11 MB) with curl or wget, checked by SHA-256
  bool fashion = false;          ///< FashionMNIST instead of MNIST
  bool synthetic = false;        ///< generate digits without looking for files
  bool allow_synthetic = false;  ///< generate digits if no folder was named and none has the files; otherwise FileError
  std::int64_t synthetic_train = 60000;
  std::int64_t synthetic_test = 10000;
  std::uint64_t synthetic_seed = 1;
  std::vector<std::string> mirrors = {};  ///< URLs of folders to download from; empty: the known ones
  std::function<void(const std::string& sentence)> say = {};  ///< called before a download starts
};

/// Images are uint8 [n,1,28,28], labels int64 [n].
struct Mnist {
  Dataset train, test;
};

/// Looks in `folder`, else $TERN_DATA_DIR, else the cache folder ($XDG_CACHE_HOME/tern or ~/.cache/tern); then
/// downloads there if requested. Digits are generated only on request; `source` and `synthetic` of the result say where
/// they come from. Throws FileError that names the files, the folder and what to do.
Mnist load_mnist(const MnistOptions& options = {});

}  // namespace tern::data
