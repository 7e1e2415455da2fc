#include "tern/data/cifar.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <sstream>
#include <utility>

#include "data/paths.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/io/file.hpp"

namespace tern::data {

namespace {

constexpr std::int64_t side = 32, pixels = 3 * side * side;

/// The format of a published set: records of label bytes followed by pixels.
struct PublishedRecords {
  std::vector<std::string> train;
  std::string test, names;
  std::int64_t classes;
  std::size_t label_bytes, label;  // the number of label bytes, and the one that is read
};

Dataset read_records(const std::string& folder, const std::vector<std::string>& names, const PublishedRecords& set) {
  const std::size_t record = set.label_bytes + static_cast<std::size_t>(pixels);
  std::vector<std::byte> bytes;
  std::vector<std::string> file_of;  // of each record's file, for messages
  for (const std::string& name : names) {
    const io::InputFile file(folder + "/" + name);
    expects<FileError>(file.size() > 0 && file.size() % record == 0, file.name(), ": holds ", file.size(),
                       " bytes, expected a multiple of ", record, ": ", set.label_bytes, " of labels and ", pixels,
                       " of pixels for each image; it was cut short, or is another file");
    const std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(file.size()));
    file.read(0, std::span(bytes).subspan(begin));
    file_of.insert(file_of.end(), static_cast<std::size_t>(file.size()) / record, file.name());
  }
  const auto count = static_cast<std::int64_t>(file_of.size());
  Dataset result{.images = Tensor({count, 3, side, side}, DType::uint8),
                 .labels = Tensor({count}, DType::int64),
                 .classes = set.classes,
                 .source = names.size() == 1 ? folder + "/" + names[0] : folder};
  std::uint8_t* image = result.images.write<std::uint8_t>().data();
  std::int64_t* label = result.labels.write<std::int64_t>().data();
  for (std::size_t i = 0; i < file_of.size(); ++i) {
    const std::span<const std::byte> whole = std::span(bytes).subspan(i * record, record);
    *label = std::to_integer<std::int64_t>(whole[set.label]);
    expects<FileError>(*label < set.classes, file_of[i], ": found the label ", *label, ", expected one below ",
                       set.classes);
    ++label;
    image = std::ranges::transform(whole.subspan(set.label_bytes), image, [](std::byte value) {
              return std::to_integer<std::uint8_t>(value);
            }).out;
  }
  return result;
}

// One name per line. If only the images were copied, names are numbers.
std::vector<std::string> read_names(const std::string& path, std::int64_t classes) {
  std::vector<std::string> names;
  if (is_file(path)) {
    const io::InputFile file(path);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) names.push_back(line);
    }
    expects<FileError>(static_cast<std::int64_t>(names.size()) == classes, path, ": found ", names.size(),
                       " names of classes, expected ", classes);
  } else {
    for (std::int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  }
  return names;
}

Cifar read_published(const std::string& folder, const PublishedRecords& set) {
  return {read_records(folder, set.train, set), read_records(folder, {set.test}, set),
          read_names(folder + "/" + set.names, set.classes)};
}

/// The bytes of images that are already 32 pixels wide and high.
Dataset read_images(const ImageFolder& images) {
  Dataset result = collect(images);
  const std::span<const float> values = result.images.read<float>();
  Tensor bytes(result.images.shape(), DType::uint8);
  std::ranges::transform(values, bytes.write<std::uint8_t>().begin(),
                         [](float value) { return static_cast<std::uint8_t>(std::lround(255 * value)); });
  result.images = bytes;
  return result;
}

Cifar read_folders(const std::string& folder) {
  const ImageFolderOptions options{.size = side, .short_side = side, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};
  const ImageFolder train(folder + "/train", options), test(folder + "/test", options);
  expects<FileError>(train.class_names() == test.class_names(), folder, ": train and test have different classes");
  return {read_images(train), read_images(test), train.class_names()};
}

std::string place_of(const std::string& root, const char* below, const PublishedRecords& set) {
  for (const std::string& folder : {root, root + "/" + below})
    if (is_file(folder + "/" + set.test)) return folder;
  return {};
}

}  // namespace

Cifar load_cifar10(const std::string& folder) {
  const PublishedRecords set{
      .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      .test = "test_batch.bin",
      .names = "batches.meta.txt",
      .classes = 10,
      .label_bytes = 1,
      .label = 0};
  const std::string place = place_of(folder, "cifar-10-batches-bin", set);
  if (!place.empty()) return read_published(place, set);
  expects<FileError>(is_folder(folder + "/train") && is_folder(folder + "/test"), folder,
                     ": expected CIFAR-10's binaries (test_batch.bin and data_batch_1.bin to data_batch_5.bin, there "
                     "or in cifar-10-batches-bin), or folders train and test with a folder of images for each class");
  return read_folders(folder);
}

Cifar load_cifar100(const std::string& folder, CifarLabels labels) {
  const bool fine = labels == CifarLabels::fine;
  const PublishedRecords set{.train = {"train.bin"},
                             .test = "test.bin",
                             .names = fine ? "fine_label_names.txt" : "coarse_label_names.txt",
                             .classes = fine ? 100 : 20,
                             .label_bytes = 2,
                             .label = fine ? std::size_t{1} : std::size_t{0}};
  const std::string place = place_of(folder, "cifar-100-binary", set);
  expects<FileError>(!place.empty(), folder,
                     ": expected CIFAR-100's binaries, train.bin and test.bin, there or in cifar-100-binary");
  return read_published(place, set);
}

}  // namespace tern::data
