#include "augment_sheet.hpp"

#include <algorithm>
#include <set>

#include "errors.hpp"
#include "pictures.hpp"
#include "sheet.hpp"
#include "tern/operators/operators.hpp"
#include "text.hpp"
#include "training.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t most_rows = 8;
constexpr std::int64_t epochs_shown = 7;

std::int64_t label_of(const Examples& examples, std::int64_t i) {
  return examples.source ? examples.source->label(i) : examples.memory.labels.slice(0, i, i + 1).item<std::int64_t>();
}

// One example of each class, then others, from the whole set.
std::vector<std::int64_t> chosen(const Examples& examples) {
  std::vector<std::int64_t> rows;
  std::set<std::int64_t> classes;
  for (std::int64_t i = 0; i < examples.size() && rows.size() < most_rows; ++i)
    if (classes.insert(label_of(examples, i)).second) rows.push_back(i);
  for (std::int64_t i = 0; i < examples.size() && rows.size() < most_rows; ++i)
    if (std::find(rows.begin(), rows.end(), i) == rows.end()) rows.push_back(i);
  return rows;
}

// The examples as an epoch of the training reads them, before augmentation.
Tensor brought(const Examples& examples, const std::shared_ptr<const data::ExampleSource>& source,
               const std::vector<std::int64_t>& rows, std::int64_t epoch, const Settings& settings,
               const Blueprint& blueprint) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (!source) return scaled(examples.memory.select(tensor(rows, {count})).images, blueprint);
  const auto whole = std::make_shared<const data::Replacing>(source);
  const data::DataLoader loader(std::make_shared<const data::Subset>(whole, rows),
                                {.batch_size = count, .shuffle = false, .seed = settings.seed, .workers = 1});
  for (const data::Batch& batch : loader.epoch(epoch)) return batch.images;
  throw FileError(source->name() + ": none of the pictures of the sheet can be read");
}

std::string caption_of(std::int64_t epoch, const Tensor& shares, std::int64_t row, const Blueprint& blueprint) {
  std::string text = message("epoch ", epoch + 1);
  if (!shares.defined()) return text;
  for (std::int64_t c = 0; c < blueprint.class_count(); ++c)
    if (const double share = shares.slice(0, row, row + 1).slice(1, c, c + 1).item(); share >= 0.005)
      text += message("\n", fixed(100 * share, 0), " % ", blueprint.classes[static_cast<std::size_t>(c)]);
  return text;
}

}  // namespace

void write_augment_sheet(const Settings& settings, const TrainingData& data) {
  const Blueprint& blueprint = data.blueprint;
  expects<UsageError>(!blueprint.table, "--augment-sheet is for pictures; ", blueprint.source, " is a table");
  const std::vector<std::int64_t> rows = chosen(data.train);
  const auto count = static_cast<std::int64_t>(rows.size());
  expects<FileError>(count > 0, blueprint.source, ": found no examples to show");
  const data::Augment augment(augment_of(settings, blueprint));
  const Tensor numbers = tensor(rows, {count});
  std::vector<std::int64_t> labels;
  for (const std::int64_t row : rows) labels.push_back(label_of(data.train, row));

  std::vector<SheetPart> parts(rows.size());
  const auto show = [&](const Tensor& images, const auto& caption) {
    for (std::int64_t i = 0; i < count; ++i)
      parts[static_cast<std::size_t>(i)].pictures.push_back(
          {.pixels = pixels_of(images.slice(0, i, i + 1).squeeze(0), blueprint.scaling), .caption = caption(i)});
  };
  show(brought(data.train, data.plain ? data.plain : data.train.source, rows, 0, settings, blueprint),
       [&](std::int64_t i) {
         return blueprint.classes[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])] + "\nas it is";
       });
  for (std::int64_t epoch = 0; epoch < epochs_shown; ++epoch) {
    const Tensor drawn = augment.draw(epoch, numbers);
    Tensor images = augment(brought(data.train, data.train.source, rows, epoch, settings, blueprint), drawn), shares;
    if (augment.options().mix > 0) {
      data::Mixed mixed = augment.mixed(images, tensor(labels, {count}), blueprint.class_count(), drawn);
      images = mixed.images;
      shares = mixed.labels;
    }
    show(images, [&](std::int64_t i) { return caption_of(epoch, shares, i, blueprint); });
  }
  write_sheet(settings.augment_sheet, "Pictures in training",
              message(blueprint.source, ": on the left the originals, then what the first ", epochs_shown,
                      " epochs train on. Each epoch draws other changes, from --seed ", settings.seed, '.'),
              parts, true);
}

}  // namespace tern::tool
