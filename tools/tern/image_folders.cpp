#include "image_folders.hpp"

#include <algorithm>
#include <filesystem>

#include "errors.hpp"
#include "fingerprint.hpp"
#include "nets.hpp"
#include "tern/data/image_folder.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

// The named part of a set with parts; no value if the folder does not exist.
std::string part_of(const std::string& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names)
    if (fs::is_directory(folder + "/" + name, ignored)) return folder + "/" + name;
  return {};
}

std::string training_part(const std::string& folder) { return part_of(folder, {"train", "training"}); }
std::string test_part(const std::string& folder) { return part_of(folder, {"val", "validation", "valid", "test"}); }

// The first `limit` examples, taken from all classes in turn, so that few examples are not all of one class.
std::vector<std::int64_t> chosen(const data::ExampleSource& source, std::int64_t limit) {
  std::vector<std::vector<std::int64_t>> by_class(static_cast<std::size_t>(source.classes()));
  for (std::int64_t i = 0; i < source.size(); ++i) by_class[static_cast<std::size_t>(source.label(i))].push_back(i);
  std::vector<std::int64_t> rows;
  for (std::size_t turn = 0; rows.size() < static_cast<std::size_t>(source.size()); ++turn)
    for (const auto& members : by_class)
      if (turn < members.size()) rows.push_back(members[turn]);
  if (limit > 0 && static_cast<std::size_t>(limit) < rows.size()) rows.resize(static_cast<std::size_t>(limit));
  std::sort(rows.begin(), rows.end());
  return rows;
}

Examples subset(const data::ImageFolder& folder, std::vector<std::int64_t> rows) {
  Examples examples{.folder = std::make_shared<data::ImageFolder>(folder)};
  examples.source = std::make_shared<data::Subset>(examples.folder, std::move(rows));
  return examples;
}

// A model stores its classes as JSON, which is UTF-8.
void check_class_names(const data::ImageFolder& folder) {
  for (const std::string& name : folder.class_names()) {
    const std::string text = json_text(name);
    expects<FileError>(parse_json(text, "a name") == name, folder.name(), ": found a class folder named ", text,
                       ", which is not UTF-8; rename it");
  }
}

// A photograph is identified by its name and size: reading all of them would take as long as an epoch.
std::string fingerprint_of(const data::ImageFolder& folder, const std::vector<std::int64_t>& rows) {
  Fingerprint sum;
  for (const std::int64_t row : rows) {
    const std::string file = folder.file(row);
    std::error_code unknown;
    sum.add(fs::path(file).filename().native()).add(static_cast<std::uint64_t>(folder.label(row)));
    const auto bytes = fs::file_size(file, unknown);
    sum.add(static_cast<std::uint64_t>(unknown ? 0 : bytes));
  }
  return sum.text();
}

std::vector<std::int64_t> picked(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& positions) {
  std::vector<std::int64_t> result;
  for (const std::int64_t position : positions) result.push_back(from[static_cast<std::size_t>(position)]);
  return result;
}

}  // namespace

data::ImageFolderOptions options_for(std::int64_t size, bool training, const std::string& corrupt) {
  data::ImageFolderOptions options;
  options.size = size;
  // As 224 is cropped from 256.
  options.short_side = size > 224 && size <= 256 ? 256 : (size * 8 + 6) / 7;
  options.crop = training ? data::Crop::random : data::Crop::center;
  options.mirror = training;
  options.corrupt = corrupt == "skip" ? data::OnCorrupt::skip : data::OnCorrupt::error;
  return options;
}

TrainingData load_folder_to_train(const Settings& settings) {
  const std::string inner = training_part(settings.dataset), root = inner.empty() ? settings.dataset : inner;
  const std::int64_t size = settings.image_size > 0 ? settings.image_size : natural_size(settings);
  const data::ImageFolder train(root, options_for(size, true, settings.corrupt));
  check_class_names(train);
  TrainingData result;
  Blueprint& blueprint = result.blueprint;
  blueprint.input = {3, size, size};
  blueprint.classes = train.class_names();
  expects<FileError>(blueprint.classes.size() >= 2, root, ": found one class folder, expected two or more");
  blueprint.scaling.mean.assign(data::imagenet_mean.begin(), data::imagenet_mean.end());
  blueprint.scaling.deviation.assign(data::imagenet_deviation.begin(), data::imagenet_deviation.end());
  blueprint.source = train.name();
  blueprint.split = settings.split;
  const std::vector<std::int64_t> rows = chosen(train, settings.limit);
  blueprint.examples = static_cast<std::int64_t>(rows.size());
  blueprint.fingerprint = fingerprint_of(train, rows);

  const std::string other = inner.empty() ? std::string() : test_part(settings.dataset);
  expects<UsageError>(other.empty() || (settings.test_fraction == 0 && settings.folds == 0),
                      own_test_part_words(settings.dataset));
  if (!other.empty() && settings.validation.value_or(0) == 0) {
    result.own_test_part = true;
    const data::ImageFolder test(other, options_for(size, false, settings.corrupt));
    expects<FileError>(test.class_names() == train.class_names(), other, ": found other class folders than in ", root,
                       ", expected the same");
    result.train = subset(train, rows);
    result.plain = subset(data::ImageFolder(root, options_for(size, false, settings.corrupt)), rows).source;
    result.held_out = subset(test, chosen(test, settings.limit));
    return result;
  }
  take_parts(blueprint, settings);
  expects<FileError>(blueprint.folds <= blueprint.examples, root, ": found ", blueprint.examples, " images for ",
                     blueprint.folds, " folds, expected one for each at least");
  std::vector<std::int64_t> labels;
  for (const std::int64_t row : rows) labels.push_back(train.label(row));
  const data::SplitRows parts = divided(labels, train.classes(), blueprint);
  result.train = subset(train, picked(rows, parts.train));
  const data::ImageFolder held(root, options_for(size, false, settings.corrupt));
  result.plain = subset(held, picked(rows, parts.train)).source;
  if (!parts.validation.empty()) result.held_out = subset(held, picked(rows, parts.validation));
  return result;
}

Examples load_folder_to_test(const Settings& settings, const Blueprint& blueprint, Part part) {
  const bool all = part == Part::all;
  const std::string inner = all ? test_part(settings.dataset) : training_part(settings.dataset);
  const std::string root = inner.empty() ? settings.dataset : inner;
  expects<UsageError>(blueprint.input[0] == 3, settings.dataset,
                      " is a folder of colour images, but the model takes grey ones");
  const data::ImageFolder folder(root, options_for(blueprint.input[1], false, settings.corrupt));
  expects<FileError>(folder.class_names() == blueprint.classes, root, ": found other class folders than the ",
                     blueprint.classes.size(), " that the model knows, expected ", blueprint.classes[0], ", ",
                     blueprint.classes[1], ", ...");
  std::vector<std::int64_t> rows = chosen(folder, settings.limit);
  if (!all) {
    check_held_out(static_cast<std::int64_t>(rows.size()), fingerprint_of(folder, rows), blueprint, root);
    std::vector<std::int64_t> labels;
    for (const std::int64_t row : rows) labels.push_back(folder.label(row));
    rows = picked(rows, divided(labels, folder.classes(), blueprint).validation);
  }
  return subset(folder, rows);
}

}  // namespace tern::tool
