#include "tern/data/mnist.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "data/paths.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/data/idx.hpp"
#include "tern/data/synthetic_digits.hpp"
#include "tern/io/download.hpp"
#include "tern/io/file.hpp"
#include "tern/io/sha256.hpp"

namespace tern::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> file_names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/// A published set, with the SHA-256 of each delivered file (.gz).
struct Published {
  const char* title;
  const char* folder;  // below the root, above /raw
  const char* about;
  std::array<const char*, 4> sums;
  std::vector<std::string> mirrors;
};

const Published& published(bool fashion) {
  static const Published mnist{
      "MNIST",
      "MNIST",
      "11.6 MB, by Y. LeCun, C. Cortes and C. Burges, licence CC BY-SA 3.0",
      {"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
       "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
       "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
       "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
      {"https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"}};
  static const Published fashion_mnist{"FashionMNIST",
                                       "FashionMNIST",
                                       "30.9 MB, by Zalando Research, licence MIT",
                                       {"3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                                        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                                        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                                        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"},
                                       // No TLS there: the checksums protect.
                                       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"}};
  return fashion ? fashion_mnist : mnist;
}

/// SHA-256 of the unpacked MNIST files.
constexpr std::array<const char*, 4> unpacked_sums{"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                                                   "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                                                   "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                                                   "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Empty if there is no home folder.
std::string cache_folder() {
  if (const std::string folder = variable("XDG_CACHE_HOME"); folder.starts_with('/')) return folder + "/tern";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tern";
}

/// The file in `folder`, raw or gzipped.
std::optional<std::string> find(const std::string& folder, const char* name) {
  for (const char* ending : {"", ".gz"})
    if (std::string path = folder + "/" + name + ending; is_file(path)) return path;
  return std::nullopt;
}

bool complete(const std::string& folder) {
  for (const char* name : file_names)
    if (!find(folder, name)) return false;
  return true;
}

std::string missing(const std::string& folder) {
  std::string list;
  for (const char* name : file_names)
    if (!find(folder, name)) list += message(list.empty() ? "" : ", ", name, "[.gz]");
  return list;
}

/// Where a user may keep the files below `root`: directly, or as torchvision does.
std::array<std::string, 2> places(const std::string& root, const Published& set) {
  return {root, root + "/" + set.folder + "/raw"};
}

void fetch(const std::string& folder, const Published& set, const MnistOptions& options) {
  const std::vector<std::string>& mirrors = options.mirrors.empty() ? set.mirrors : options.mirrors;
  expects<FileError>(!mirrors.empty(), folder, ": no address to download from");
  if (options.say)
    options.say(message("downloading ", set.title, " (", set.about, ") from ", mirrors[0], " to ", folder));
  io::make_folders(folder);
  for (std::size_t i = 0; i < file_names.size(); ++i) {
    if (find(folder, file_names[i])) continue;
    std::vector<std::string> addresses;
    for (const std::string& mirror : mirrors) addresses.push_back(mirror + "/" + file_names[i] + ".gz");
    io::download(addresses, folder + "/" + file_names[i] + ".gz", set.sums[i]);
  }
}

/// The checksum of a download's content, in the form of an IDX file.
std::string unpacked_sum(const Tensor& tensor) {
  io::Sha256 sum;
  std::vector<std::byte> header{std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(tensor.rank())};
  for (const std::int64_t size : tensor.shape())
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<std::byte>(size >> shift));
  sum.update(header);
  sum.update(io::readable_bytes(tensor));
  return sum.hexadecimal();
}

struct Part {
  const char* title;
  std::size_t images, labels;  // positions in `file_names`
};

Dataset read_part(const std::string& folder, const Published& set, const Part& part, bool verify) {
  const auto read = [&](std::size_t i, int rank) {
    const std::string file = find(folder, file_names[i]).value_or(folder + "/" + file_names[i]);
    Tensor tensor = read_idx(file, {.rank = rank});
    expects<FileError>(tensor.dtype() == DType::uint8, file, ": expected uint8 elements, found ", tensor.dtype());
    expects<FileError>(!verify || unpacked_sum(tensor) == unpacked_sums[i], file,
                       ": the unpacked bytes do not have the published SHA-256; delete the file and fetch it again");
    return std::pair(file, tensor);
  };
  const auto [images_file, images] = read(part.images, 3);
  const auto [labels_file, labels] = read(part.labels, 1);
  expects<FileError>(images.size(1) == 28 && images.size(2) == 28, images_file, ": expected images of 28 x 28, found ",
                     images.shape());
  expects<FileError>(images.size(0) == labels.size(0), labels_file, ": ", labels.size(0), " labels for the ",
                     images.size(0), " images of ", images_file, "; the files do not belong together");
  Dataset result{.images = images.reshape({images.size(0), 1, 28, 28}),
                 .labels = Tensor(labels.shape(), DType::int64),
                 .classes = 10,
                 .source = message(set.title, ' ', part.title, " set in ", folder)};
  const auto from = labels.read<std::uint8_t>();
  std::copy(from.begin(), from.end(), result.labels.write<std::int64_t>().begin());
  result.check();
  return result;
}

Mnist read_folder(const std::string& folder, const Published& set, bool verify) {
  return {.train = read_part(folder, set, {"training", 0, 1}, verify),
          .test = read_part(folder, set, {"test", 2, 3}, verify)};
}

Mnist draw(const MnistOptions& options) {
  // Far beyond the training images, so that no test image equals one of them.
  constexpr std::int64_t test_begins = std::int64_t{1} << 40;
  return {.train = synthetic_digits(options.synthetic_train, {.seed = options.synthetic_seed}),
          .test = synthetic_digits(options.synthetic_test, {.seed = options.synthetic_seed, .first = test_begins})};
}

}  // namespace

Mnist load_mnist(const MnistOptions& options) {
  if (options.synthetic) return draw(options);
  const Published& set = published(options.fashion);
  const std::string named = options.folder.empty() ? variable("TERN_DATA_DIR") : options.folder;
  const std::string root = named.empty() ? cache_folder() : named;
  if (!root.empty()) {
    const auto folders = places(root, set);
    for (const std::string& folder : folders)
      if (complete(folder)) return read_folder(folder, set, false);
    if (options.download) {
      fetch(folders[1], set, options);
      return read_folder(folders[1], set, !options.fashion);
    }
  }
  if (named.empty() && options.allow_synthetic && !options.fashion) return draw(options);
  if (root.empty())
    throw FileError(
        "load_mnist: no folder was named, and neither XDG_CACHE_HOME nor HOME is set; name a folder, or draw digits "
        "(MnistOptions::synthetic)");
  const char* const origin = !options.folder.empty() ? "the folder that was named"
                             : !named.empty()        ? "the folder of TERN_DATA_DIR"
                                                     : "the cache folder";
  std::error_code ignored;
  throw FileError(message("load_mnist: ", root, " (", origin, ')',
                          fs::is_directory(root, ignored) ? " lacks " : " does not exist; it should hold ",
                          missing(root), ", there or in ", set.folder,
                          "/raw below it. Put the four files there, name another folder, or allow the download from ",
                          published(options.fashion).mirrors[0],
                          " (MnistOptions::download); MnistOptions::synthetic generates digits instead"));
}

}  // namespace tern::data
