#include "tern/data/npz.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "tern/io/npy.hpp"

namespace tern::data {

namespace {

using Arrays = std::map<std::string, Tensor>;

constexpr std::array<const char*, 8> image_names{"x",        "X",      "images",  "data",
                                                 "features", "inputs", "x_train", "train_images"};
constexpr std::array<const char*, 7> label_names{"y",     "labels",  "target",      "targets",
                                                 "label", "y_train", "train_labels"};

std::string list(const Arrays& arrays) {
  std::string text;
  for (const auto& [name, tensor] : arrays) text += message(text.empty() ? "" : ", ", name, ' ', tensor.shape());
  return text.empty() ? "no arrays" : text;
}

template <class Names>
const Tensor& find(const Arrays& arrays, const std::string& wanted, const Names& usual, const char* what,
                   const std::string& file) {
  if (!wanted.empty()) {
    const auto found = arrays.find(wanted);
    expects<FileError>(found != arrays.end(), file, ": found ", list(arrays), ", expected ", wanted);
    return found->second;
  }
  for (const char* name : usual)
    if (const auto found = arrays.find(name); found != arrays.end()) return found->second;
  throw FileError(message(file, ": found ", list(arrays), ", expected an array of ", what,
                          " with a usual name, such as ", usual[0], " or ", usual[2], "; NpzOptions::", what,
                          " names another one"));
}

bool whole_numbers(const Tensor& labels) {
  return labels.rank() == 1 && !is_floating(labels.dtype()) && labels.dtype() != DType::boolean;
}

}  // namespace

Dataset read_npz(const std::string& file, const NpzOptions& options) {
  const Arrays arrays = io::load_npz(file);
  Dataset result{.images = find(arrays, options.images, image_names, "images", file),
                 .labels = find(arrays, options.labels, label_names, "labels", file),
                 .classes = no_classes,
                 .source = file};
  expects<FileError>(
      result.images.rank() >= 1 && result.labels.rank() >= 1 && result.images.size(0) == result.labels.size(0), file,
      ": found images ", result.images.shape(), " and labels ", result.labels.shape(),
      ", expected as many labels as images");
  if (!options.numbers && whole_numbers(result.labels) && result.size() > 0) {
    result.labels = result.labels.to(DType::int64);
    const std::vector<std::int64_t> labels = result.labels.to_vector<std::int64_t>();
    const auto [least, most] = std::ranges::minmax(labels);
    expects<FileError>(least >= 0, file, ": found the class ", least,
                       ", expected none below 0; set NpzOptions::numbers if these are not classes");
    // Each class is an output of a net; a number far above the number of examples is not a class.
    constexpr std::int64_t few = 65536;
    expects<FileError>(most < std::max(few, result.size()), file, ": found the class ", most, " among ", result.size(),
                       " examples, expected classes that count from 0; NpzOptions::numbers says that these are no "
                       "classes");
    result.classes = most + 1;
    if (is_floating(result.images.dtype())) result.images = result.images.to(DType::float32);
  }
  result.check();
  return result;
}

}  // namespace tern::data
