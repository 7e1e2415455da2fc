#include "tern/data/loader.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "data/conversion.hpp"
#include "data/pipeline.hpp"
#include "data/streams.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

namespace {

/// A Dataset as a source of examples: its rows, as float32.
class DatasetRows final : public ExampleSource {
 public:
  DatasetRows(Dataset dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)), convert_(options.mean, options.deviation) {
    dataset_.check();
    dataset_.images = dataset_.images.contiguous();
    dataset_.labels = dataset_.labels.contiguous();
    for (int dim = 1; dim < dataset_.images.rank(); ++dim) shape_.push_back(dataset_.images.size(dim));
  }

  const Dataset& dataset() const { return dataset_; }
  std::int64_t size() const override { return dataset_.size(); }
  std::int64_t classes() const override { return dataset_.classes; }
  Shape shape() const override { return shape_; }
  std::string name() const override { return dataset_.source; }
  /// With no_classes, the example's number, which selects its row.
  std::int64_t label(std::int64_t index) const override {
    if (dataset_.classes == no_classes) return index;
    return dataset_.labels.read<std::int64_t>()[static_cast<std::size_t>(index)];
  }

  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    const auto count = static_cast<std::int64_t>(to.size());
    if (dataset_.images.dtype() == DType::uint8)
      convert_(dataset_.images.read<std::uint8_t>().data() + index * count, count, to.data());
    else if (count > 0)
      std::memcpy(to.data(), dataset_.images.read<float>().data() + index * count, to.size_bytes());
    return label(index);
  }

 private:
  Dataset dataset_;  // contiguous
  Conversion convert_;
  Shape shape_;
};

/// What is known about a source without reading an example.
Dataset described(const ExampleSource& source) {
  Dataset dataset{
      .labels = Tensor({source.size()}, DType::int64), .classes = source.classes(), .source = source.name()};
  const auto labels = dataset.labels.write<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = source.label(static_cast<std::int64_t>(i));
    expects<NumericError>(labels[i] >= 0 && labels[i] < dataset.classes, dataset.source, ": label ", labels[i],
                          " at position ", i, " is outside [0, ", dataset.classes, ')');
  }
  return dataset;
}

int default_workers() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16); }

}  // namespace

struct DataLoader::State {
  std::shared_ptr<const ExampleSource> source;
  Dataset dataset;
  LoaderOptions options;
  bool in_memory;
  Tensor targets;  // the rows of batch labels; undefined if labels are classes
  std::once_flag converted;
  Tensor whole;  // every image as float32, once requested

  State(const std::shared_ptr<const DatasetRows>& rows, LoaderOptions chosen)
      : source(rows), dataset(rows->dataset()), options(std::move(chosen)), in_memory(true) {
    check_options();
    expects<ShapeError>(
        !options.targets.defined(), dataset.source,
        ": targets of LoaderOptions are for a source; the labels of a Dataset with no_classes are its own");
    if (dataset.classes == no_classes) targets = dataset.labels;
    if (options.resident) images();
  }

  State(std::shared_ptr<const ExampleSource> examples, LoaderOptions chosen)
      : source(std::move(examples)), options(std::move(chosen)), in_memory(false) {
    expects<ShapeError>(source != nullptr, "DataLoader: expected a source of examples, found null");
    check_options();
    expects<ShapeError>(!options.resident, source->name(),
                        ": a source makes its examples on request; pass collect(source) to keep them resident");
    expects<ShapeError>(options.mean == 0 && options.deviation == 1, source->name(),
                        ": mean and deviation of LoaderOptions are for a Dataset of uint8; give them to the source");
    dataset = described(*source);
    if (!options.targets.defined()) return;
    targets = options.targets.contiguous();
    expects<ShapeError>(targets.rank() >= 1 && targets.size(0) == dataset.classes, source->name(), ": targets ",
                        targets.shape(), ", expected a row for each of the ", dataset.classes, " labels");
  }

  /// Whether the pipeline's threads make the images, as float32.
  bool piped() const {
    if (options.resident) return false;
    return !in_memory || dataset.images.dtype() == DType::uint8 || dataset.images.dtype() == DType::float32;
  }

  void check_options() const {
    expects<ShapeError>(options.batch_size >= 1, "DataLoader: expected a batch_size of 1 or more, found ",
                        options.batch_size);
    expects<ShapeError>(options.prefetch >= 0, "DataLoader: expected to prefetch 0 batches or more, found ",
                        options.prefetch);
    options.share.check("DataLoader");
    expects<ShapeError>(options.workers >= 0, "DataLoader: expected 0 workers or more, found ", options.workers);
  }

  const Tensor& images() {
    expects<ShapeError>(in_memory, dataset.source,
                        ": a source keeps no images; collect(source) is a Dataset that does");
    std::call_once(converted, [&] {
      whole = dataset.images.dtype() == DType::uint8 ? to_float(dataset.images, options.mean, options.deviation)
                                                     : dataset.images;
    });
    return whole;
  }

  std::int64_t batches() const {
    const std::int64_t n = dataset.size(), size = options.batch_size;
    return options.drop_last ? n / size : n / size + (n % size != 0);
  }

  Tensor order(std::int64_t epoch) const {
    if (!options.shuffle) return arange(0, static_cast<double>(dataset.size()));
    Generator generator(options.seed);
    generator.set_position(streams::shuffle + static_cast<std::uint64_t>(epoch));
    return randperm(dataset.size(), generator);
  }

  Pipeline::Plan plan(std::int64_t epoch, std::int64_t first) const {
    const int workers = options.workers > 0 ? options.workers : in_memory ? 1 : default_workers();
    // Rows of a Dataset cost less than handing one over, so a thread takes several; an image is worth its own
    // hand-over.
    const std::int64_t share = (options.batch_size + workers - 1) / workers;
    return {.source = source,
            .order = order(epoch),
            .first = first,
            .count = batches(),
            .batch_size = options.batch_size,
            .share = options.share,
            .seed = options.seed,
            .epoch = epoch,
            .workers = workers,
            .prefetch = options.prefetch,
            .grain = in_memory ? share : 1};
  }

  /// A batch gathered in the mode from the resident set; without a shuffle, views of it.
  Batch gather(const Tensor& order, std::int64_t position) {
    const std::int64_t start = position * options.batch_size;
    const std::int64_t all = std::min(options.batch_size, dataset.size() - start);
    const Rows rows = options.share.rows(all);
    const std::int64_t begin = start + rows.begin, end = start + rows.end;
    Batch batch{.size = rows.size(), .position = position, .first = rows.begin, .whole = all};
    if (options.shuffle) {
      const Tensor index = order.slice(0, begin, end);
      batch.images = operators::index_select(images(), 0, index);
      batch.labels = operators::index_select(dataset.labels, 0, index);
    } else {
      batch.images = images().slice(0, begin, end);
      batch.labels = dataset.labels.slice(0, begin, end);
    }
    return batch;
  }
};

/// One pass: batches of the pipeline, or gathered from the resident set.
struct DataLoader::Epoch::Pass {
  std::shared_ptr<State> state;
  Pipeline::Plan plan;
  std::optional<Pipeline> pipeline;
  std::int64_t position;
  Batch current;

  Pass(std::shared_ptr<State> shared, std::int64_t epoch, std::int64_t first)
      : state(std::move(shared)), plan(state->plan(epoch, first)), position(first) {
    if (state->piped()) pipeline.emplace(plan);
  }

  bool advance() {
    if (pipeline) {
      if (!pipeline->next(current)) return false;
      if (state->targets.defined()) {
        const Device host(reference_mode());
        current.labels = operators::index_select(state->targets, 0, current.labels);
      }
      return true;
    }
    if (position >= plan.count) return false;
    std::optional<Device> host;  // rows that do not stay on the device are gathered on the host
    if (!state->options.resident) host.emplace(reference_mode());
    current = state->gather(plan.order, position++);
    return true;
  }
};

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options)
    : state_(std::make_shared<State>(std::make_shared<const DatasetRows>(dataset, options), options)) {}

DataLoader::DataLoader(std::shared_ptr<const ExampleSource> source, const LoaderOptions& options)
    : state_(std::make_shared<State>(std::move(source), options)) {}

DataLoader::Epoch DataLoader::epoch(std::int64_t epoch, std::int64_t first_batch) const {
  expects<ShapeError>(epoch >= 0 && first_batch >= 0, "DataLoader: epochs and batches count from 0, found ", epoch,
                      " and ", first_batch);
  return Epoch(std::make_unique<Epoch::Pass>(state_, epoch, first_batch));
}

std::int64_t DataLoader::batches() const { return state_->batches(); }
std::int64_t DataLoader::examples() const {
  return std::min(state_->batches() * state_->options.batch_size, state_->dataset.size());
}
const LoaderOptions& DataLoader::options() const { return state_->options; }
const Dataset& DataLoader::dataset() const { return state_->dataset; }
Tensor DataLoader::order(std::int64_t epoch) const { return state_->order(epoch); }
const Tensor& DataLoader::images() const { return state_->images(); }
const Tensor& DataLoader::labels() const { return state_->dataset.labels; }

DataLoader::Epoch::Epoch(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;
bool DataLoader::Epoch::advance() { return pass_->advance(); }
const Batch& DataLoader::Epoch::current() const { return pass_->current; }

}  // namespace tern::data
