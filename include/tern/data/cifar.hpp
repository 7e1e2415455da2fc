#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// Mean and deviation of CIFAR-10's training images in [0, 1]: red, green, blue.
inline constexpr std::array<float, 3> cifar_mean{0.4914f, 0.4822f, 0.4465f};
inline constexpr std::array<float, 3> cifar_deviation{0.2470f, 0.2435f, 0.2616f};

/// Images are uint8 [n,3,32,32], labels int64 [n].
struct Cifar {
  Dataset train, test;
  std::vector<std::string> classes;  ///< their names, in label order
};

/// CIFAR-10 from the folder of the published binaries (data_batch_1.bin to data_batch_5.bin, test_batch.bin, and
/// batches.meta.txt with the names), or from a folder that holds cifar-10-batches-bin; or from folders of 32x32 JPEG or
/// PNG images, train/CLASS/IMAGE and test/CLASS/IMAGE. Throws FileError that names the file and what was expected.
Cifar load_cifar10(const std::string& folder);

/// Which of a CIFAR-100 image's two labels is used.
enum class CifarLabels : std::uint8_t {
  fine,   ///< 100 classes
  coarse  ///< 20 groups of classes
};
/// CIFAR-100 from the folder of the published binaries (train.bin, test.bin, fine_label_names.txt,
/// coarse_label_names.txt), or from a folder that holds cifar-100-binary.
Cifar load_cifar100(const std::string& folder, CifarLabels labels = CifarLabels::fine);

}  // namespace tern::data
