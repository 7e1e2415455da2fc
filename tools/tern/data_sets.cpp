#include "data_sets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "blueprint_file.hpp"
#include "errors.hpp"
#include "fingerprint.hpp"
#include "image_folders.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "tern/data/csv.hpp"
#include "tern/data/mnist.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

bool by_name(const std::string& dataset) {
  const std::vector<std::string> names = dataset_names();
  return std::find(names.begin(), names.end(), dataset) != names.end();
}

// Whether a folder, or one of its usual subfolders, holds the files of MNIST.
bool holds_idx(const std::string& folder) {
  std::error_code ignored;
  for (const char* below : {"", "/MNIST/raw", "/FashionMNIST/raw"})
    for (fs::directory_iterator entry(folder + below, ignored), end; !ignored && entry != end; entry.increment(ignored))
      if (entry->path().filename().string().starts_with("train-images")) return true;
  return false;
}

bool is_table(const std::string& dataset) {
  std::error_code ignored;
  return !by_name(dataset) && !fs::is_directory(dataset, ignored);
}

data::Mnist load_digits(const Settings& settings) {
  data::MnistOptions options;
  options.folder = settings.data;
  options.download = settings.download;
  options.fashion = settings.dataset == "fashion-mnist";
  options.synthetic = settings.dataset == "synthetic-digits";
  options.synthetic_train = settings.limit > 0 ? settings.limit : 12000;
  options.synthetic_test = settings.limit > 0 ? settings.limit : 2000;
  if (!settings.quiet) options.say = say;
  if (!by_name(settings.dataset)) options.folder = settings.dataset;
  data::Mnist digits = data::load_mnist(options);
  if (settings.limit > 0) digits = {digits.train.take(settings.limit), digits.test.take(settings.limit)};
  return digits;
}

std::vector<std::string> class_names(const Settings& settings, std::int64_t classes) {
  if (settings.dataset == "fashion-mnist")
    return {"T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

// Mean and deviation over all pixels of uint8 images, each pixel in [0, 1].
data::Scaling scaling_of_pixels(const Tensor& images) {
  std::array<double, 256> counts{};
  const Tensor whole = images.contiguous();
  for (const std::uint8_t pixel : whole.read<std::uint8_t>()) ++counts[pixel];
  double total = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    const double value = static_cast<double>(i) / 255;
    total += counts[i];
    sum += counts[i] * value;
    squares += counts[i] * value * value;
  }
  const double mean = sum / total, variance = squares / total - mean * mean;
  return {{mean}, {variance > 1e-12 ? std::sqrt(variance) : 1}};
}

data::CsvOptions csv_options(const Settings& settings) {
  data::CsvOptions options;
  options.target = settings.target;
  options.ignore = settings.ignore;
  if (settings.header != "auto") options.header = settings.header == "yes";
  options.missing = settings.missing != "refuse";
  options.categorical = settings.categorical;
  options.find_categorical = true;
  options.numbers.reset();
  if (settings.task != "auto") options.numbers = settings.task == "regression";
  return options;
}

// Reports a target that cannot be learnt before anything starts.
void check_target(const data::Table& table, const Settings& settings) {
  const auto rows = static_cast<std::size_t>(table.labels.numel());
  if (table.numbers()) {
    const std::vector<float> values = table.labels.to_vector<float>();
    expects<FileError>(std::any_of(values.begin(), values.end(), [&](float value) { return value != values[0]; }),
                       settings.dataset, ": found the number ", values[0], " in every row of ", table.target,
                       ", expected different ones; --target names another column");
    return;
  }
  expects<FileError>(table.classes.size() >= 2, settings.dataset, ": found the class '", table.classes.at(0),
                     "' in every row of ", table.target,
                     ", expected at least two classes; --target names another column");
  expects<FileError>(rows < 50 || table.classes.size() <= rows / 2, settings.dataset, ": found ", table.classes.size(),
                     " different values in ", rows, " rows of ", table.target,
                     ", expected classes; --target names another column, --task regression takes it as a number");
}

data::Missing missing_of(const std::string& name) {
  const std::vector<std::string> names = missing_names();
  return static_cast<data::Missing>(std::find(names.begin(), names.end(), name) - names.begin());
}

// The examples of a table, and their row numbers if some were left out because of missing values.
Examples rows_of(const data::Table& table, const data::Dataset& set, const std::string& missing) {
  if (missing != "drop") return {.memory = set};
  const std::vector<std::int64_t> rows = data::whole_rows(table.features);
  expects<FileError>(!rows.empty(), table.source,
                     ": found a missing value in every row, expected complete ones; --missing ",
                     "mean, median or indicator keeps them");
  const auto count = static_cast<std::int64_t>(rows.size());
  if (count == table.features.size(0)) return {.memory = set};
  data::Dataset kept = set;
  kept.images = set.images.index_select(0, tensor(rows, {count}));
  if (set.labels.defined()) kept.labels = set.labels.index_select(0, tensor(rows, {count}));
  return {.memory = kept, .rows = rows};
}

// Sentences about what happened to the columns and rows.
std::vector<std::string> notes_on(const data::Table& table, const Blueprint& blueprint, std::int64_t kept) {
  std::vector<std::string> notes;
  std::string categorical, embedded;
  for (std::size_t c = 0; c < blueprint.encoding.columns.size(); ++c) {
    const data::Column& column = blueprint.encoding.columns[c];
    if (column.categories.empty()) continue;
    const std::int64_t size = blueprint.embedding.empty() ? 0 : blueprint.embedding[c];
    std::string& list = size > 0 ? embedded : categorical;
    list += message(list.empty() ? "" : ", ", column.name, " (", column.categories.size());
    list += size > 0 ? message(" by ", size, ")") : ")";
  }
  if (!categorical.empty()) notes.push_back("Columns of categories, an input for each: " + categorical);
  if (!embedded.empty()) notes.push_back("Columns of categories, each a learned vector: " + embedded);
  std::int64_t missing = 0;
  for (const float value : table.features.to_vector<float>()) missing += std::isnan(value);
  if (missing == 0) return notes;
  const std::int64_t rows = table.features.size(0);
  const std::string found = message(grouped(missing), missing == 1 ? " value is" : " values are", " missing: ");
  if (blueprint.missing == "drop")
    notes.push_back(message(found, grouped(rows - kept), " of ", grouped(rows), " rows are left out."));
  else if (blueprint.missing == "indicator")
    notes.push_back(found + "an extra input per such column says where.");
  else
    notes.push_back(message(found, "each is taken for the ", blueprint.missing, " of its column, or its most frequent ",
                            "category."));
  return notes;
}

// Standardises the regression target: [rows, 1].
void standardise_target(data::Dataset& set, const Blueprint& blueprint) {
  if (blueprint.regression && set.labels.defined())
    set.labels = blueprint.target_scaling.apply(set.labels.reshape({set.labels.numel(), 1}));
}

data::Dataset limited(const data::Dataset& whole, const Settings& settings) {
  return settings.limit > 0 ? whole.take(settings.limit) : whole;
}

data::Split divided(const data::Dataset& whole, const Blueprint& blueprint) {
  if (blueprint.folds > 0) return data::fold(whole, blueprint.folds, blueprint.fold - 1, blueprint.split);
  return data::split(whole, blueprint.held_out(), blueprint.split);
}

TrainingData load_table(const Settings& settings) {
  const data::Table table = data::read_csv(settings.dataset, csv_options(settings));
  check_target(table, settings);
  TrainingData result;
  Blueprint& blueprint = result.blueprint;
  blueprint.table = true;
  blueprint.regression = table.numbers();
  blueprint.classes = table.classes;
  blueprint.missing = settings.missing;
  blueprint.header = table.header;
  blueprint.target = table.header ? table.target : settings.target;
  blueprint.ignore = table.header ? table.ignored : settings.ignore;
  blueprint.source = settings.dataset;
  blueprint.split = settings.split;
  const data::Dataset whole = limited(rows_of(table, table.dataset(), settings.missing).memory, settings);
  blueprint.examples = whole.size();
  blueprint.fingerprint = Fingerprint().add(whole).text();
  take_parts(blueprint, settings);
  expects<FileError>(blueprint.folds <= whole.size(), settings.dataset, ": found ", whole.size(), " examples for ",
                     blueprint.folds, " folds, expected one for each at least");
  data::Split parts = divided(whole, blueprint);
  blueprint.encoding = data::encoding_of(table, parts.train.images, missing_of(settings.missing));
  blueprint.input = {blueprint.encoding.inputs()};
  blueprint.embedding = embeddings_of(settings, blueprint.encoding);
  result.notes = notes_on(table, blueprint, whole.size());
  if (blueprint.regression)
    blueprint.target_scaling = data::scaling_of(parts.train.labels.reshape({parts.train.size(), 1}));
  result.held_out.features = parts.validation.images;
  for (data::Dataset* part : {&parts.train, &parts.validation}) {
    if (part->size() == 0) continue;
    part->images = blueprint.encoding.apply(part->images, table.categories);
    standardise_target(*part, blueprint);
  }
  result.train.memory = parts.train;
  result.held_out.memory = parts.validation;
  return result;
}

TrainingData load_digits_to_train(const Settings& settings) {
  expects<UsageError>(settings.test_fraction == 0 && settings.folds == 0, own_test_part_words(settings.dataset));
  const data::Mnist digits = load_digits(settings);
  TrainingData result;
  result.train.memory = digits.train;
  result.held_out.memory = digits.test;
  result.own_test_part = true;
  Blueprint& blueprint = result.blueprint;
  expects<FileError>(digits.train.size() > 0, settings.dataset, ": found no examples");
  for (int i = 1; i < digits.train.images.rank(); ++i) blueprint.input.push_back(digits.train.images.size(i));
  blueprint.classes = class_names(settings, digits.train.classes);
  blueprint.source = digits.train.source;
  blueprint.examples = digits.train.size();
  blueprint.fingerprint = Fingerprint().add(digits.train).text();
  blueprint.split = settings.split;
  if (settings.validation.value_or(0) > 0) {
    blueprint.validation = *settings.validation;
    data::Split parts = data::split(digits.train, blueprint.validation, settings.split);
    result.train.memory = parts.train;
    result.held_out.memory = parts.validation;
    result.own_test_part = false;
  }
  blueprint.scaling = scaling_of_pixels(result.train.memory.images);
  return result;
}

data::Dataset held_out(const data::Dataset& whole, const Blueprint& blueprint) {
  check_held_out(whole.size(), Fingerprint().add(whole).text(), blueprint, whole.source);
  return divided(whole, blueprint).validation;
}

Examples load_table_to_test(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled) {
  expects<UsageError>(blueprint.table, settings.dataset, " is a table, but the model was trained on images");
  data::CsvOptions options = csv_options(settings);
  options.classes = blueprint.classes;
  options.numbers = blueprint.regression;
  const std::vector<data::Column>& columns = blueprint.encoding.columns;
  options.features = static_cast<std::int64_t>(columns.size());
  options.missing = blueprint.missing != "refuse";
  options.categories.emplace();
  for (const data::Column& column : columns) {
    if (blueprint.header) options.columns.push_back(column.name);
    options.categories->push_back(!column.categories.empty());
  }
  options.labelled = labelled ? data::CsvTarget::required : data::CsvTarget::optional;
  if (options.target.empty()) options.target = blueprint.target;
  // A table that had no header has none when it is read again: a row of words would pass for one.
  if (settings.header == "auto" && !blueprint.header) options.header = false;
  if (options.ignore.empty() || blueprint.header)
    options.ignore.insert(options.ignore.end(), blueprint.ignore.begin(), blueprint.ignore.end());
  const data::Table table = data::read_csv(settings.dataset, options);
  data::Dataset whole{
      .images = table.features, .labels = table.labels, .classes = blueprint.class_count(), .source = table.source};
  if (blueprint.regression) whole.classes = data::no_classes;
  Examples examples = rows_of(table, whole, blueprint.missing);
  data::Dataset& kept = examples.memory;
  if (!kept.labels.defined() && settings.limit > 0 && settings.limit < kept.images.size(0))
    kept.images = kept.images.slice(0, 0, settings.limit);
  if (kept.labels.defined()) kept = limited(kept, settings);
  if (part == Part::held_out) kept = held_out(kept, blueprint);
  kept.images = blueprint.encoding.apply(kept.images, table.categories);
  standardise_target(kept, blueprint);
  if (const auto left_out = table.features.size(0) - static_cast<std::int64_t>(examples.rows.size());
      !examples.rows.empty() && !settings.quiet)
    say(message(counted(left_out, "row"), " with missing values left out of ", table.source));
  return examples;
}

Examples load_digits_to_test(const Settings& settings, const Blueprint& blueprint, Part part) {
  const data::Mnist digits = load_digits(settings);
  const data::Dataset whole = part == Part::held_out ? held_out(digits.train, blueprint)
                              : part == Part::train  ? digits.train
                                                     : digits.test;
  Shape found;
  for (int i = 1; i < whole.images.rank(); ++i) found.push_back(whole.images.size(i));
  expects<FileError>(found == blueprint.input, whole.source, ": found images of ", found, ", expected ",
                     blueprint.input);
  expects<FileError>(whole.classes == blueprint.class_count(), whole.source, ": found ", whole.classes,
                     " classes, expected ", blueprint.class_count());
  return {whole, {}};
}

}  // namespace

namespace {

TrainingData read_training_data(const Settings& settings) {
  expects<UsageError>(!settings.dataset.empty(),
                      "--dataset is missing: FILE.csv, DIR, mnist, fashion-mnist or synthetic-digits");
  expects<UsageError>(settings.folds == 0 || settings.fold > 0,
                      "--folds trains each fold in turn, which tern train does; --fold N is one of them");
  expects<UsageError>(settings.fold == 0 || settings.folds > 0, "--fold ", settings.fold,
                      " is one of the parts that --folds K cuts the examples into; --folds is missing");
  expects<UsageError>(settings.fold <= settings.folds, "--fold ", settings.fold, " is not one of --folds ",
                      settings.folds);
  expects<UsageError>(settings.folds == 0 || (settings.test_fraction == 0 && !settings.validation),
                      "--folds holds out every fold in turn, in place of --validation and --test-fraction");
  const double validation = settings.validation.value_or(0.2);
  expects<UsageError>(settings.test_fraction == 0 || settings.test_fraction + validation < 1, "--test-fraction ",
                      settings.test_fraction, " and --validation ", validation,
                      " leave nothing to train on; their sum must be below 1");
  if (is_table(settings.dataset)) return load_table(settings);
  if (by_name(settings.dataset) || holds_idx(settings.dataset)) return load_digits_to_train(settings);
  return load_folder_to_train(settings);
}

Examples read_test_data(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled) {
  if (is_table(settings.dataset)) return load_table_to_test(settings, blueprint, part, labelled);
  expects<UsageError>(!blueprint.table, settings.dataset, " is a set of images, but the model was trained on a table");
  if (by_name(settings.dataset) || holds_idx(settings.dataset)) return load_digits_to_test(settings, blueprint, part);
  return load_folder_to_test(settings, blueprint, part == Part::train ? Part::all : part);
}

// Replaces the names of library members by those of options.
std::string by_options(std::string text) {
  static const std::array<std::pair<std::string_view, std::string_view>, 5> names{{
      {"CsvOptions::missing", "--missing of the training"},
      {"CsvOptions::categorical", "--categorical"},
      {"CsvOptions::header", "--header yes or no"},
      {"CsvOptions::numbers, where false,", "--task classification"},
      {"MnistOptions::download", "--download"},
  }};
  for (const auto& [member, option] : names)
    for (auto at = text.find(member); at != std::string::npos; at = text.find(member, at + option.size()))
      text.replace(at, member.size(), option);
  return text;
}

// A label out of range, or images that do not match their labels, are data errors like any other.
template <class Load>
auto of_data(const Settings& settings, Load load) -> decltype(load()) {
  const auto fault = [&](const Error& error) { return FileError(settings.dataset + ": " + error.what()); };
  try {
    return load();
  } catch (const FileError& error) {
    throw FileError(by_options(error.what()));
  } catch (const NumericError& error) {
    throw fault(error);
  } catch (const ShapeError& error) {
    throw fault(error);
  } catch (const DTypeError& error) {
    throw fault(error);
  }
}

}  // namespace

std::string fingerprint_of(const TrainingData& data) {
  Fingerprint sum;
  sum.add(json_text(to_json(data.blueprint)));
  for (const Examples* part : {&data.train, &data.held_out}) {
    sum.add(static_cast<std::uint64_t>(part->size()));
    if (part->memory.images.defined()) sum.add(part->memory);
    for (std::int64_t i = 0; part->source && i < part->size(); ++i)
      sum.add(static_cast<std::uint64_t>(part->source->label(i)));
  }
  return sum.text();
}

TrainingData load_training_data(const Settings& settings) {
  return of_data(settings, [&] { return read_training_data(settings); });
}

Examples load_test_data(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled) {
  return of_data(settings, [&] { return read_test_data(settings, blueprint, part, labelled); });
}

}  // namespace tern::tool
