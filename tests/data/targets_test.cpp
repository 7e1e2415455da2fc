// Examples whose labels are no classes: numbers, rows, images; in memory, from files and of sources.

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/summary.hpp"
#include "tern/data/csv.hpp"
#include "tern/data/loader.hpp"
#include "tern/data/npz.hpp"
#include "tern/io/npy.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;

namespace {

/// Example i is i in every element, and so is its target, plus a half.
Dataset numbered(std::int64_t n, DType images, DType labels, const Shape& target) {
  const auto filled = [n](const Shape& example, DType dtype) {
    Tensor rows = arange(0, static_cast<double>(n), 1, DType::float32).reshape({n, 1});
    const std::int64_t count = element_count(example);
    Shape shape{n};
    for (const std::int64_t size : example) shape.push_back(size);
    return rows.expand({n, count}).contiguous().reshape(shape).to(dtype);
  };
  return {
      .images = filled({2, 3}, images), .labels = filled(target, labels), .classes = no_classes, .source = "numbered"};
}

/// Squares, made on request: the label is the number of the example.
class Squares final : public ExampleSource {
 public:
  std::int64_t size() const override { return 11; }
  std::int64_t classes() const override { return 11; }
  Shape shape() const override { return {1}; }
  std::int64_t label(std::int64_t index) const override { return index; }
  std::string name() const override { return "squares"; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    to[0] = static_cast<float>(index * index);
    return index;
  }
};

}  // namespace

TEST_CASE("targets: of any dtype and shape, with the examples they belong to", "[data][targets]") {
  for (const std::string& mode : testing::available_modes()) {
    const Device device(mode);
    for (const DType images : {DType::float32, DType::uint8, DType::int64, DType::float64})
      for (const DType labels : {DType::float32, DType::float64, DType::uint8, DType::boolean, DType::int64})
        for (const Shape& target : {Shape{}, Shape{2}, Shape{1, 4, 4}})
          for (const bool resident : {false, true}) {
            INFO(mode << ' ' << name_of(images) << ' ' << name_of(labels) << ' ' << target << ' ' << resident);
            const Dataset set = numbered(23, images, labels, target);
            const DataLoader loader{set, {.batch_size = 5, .seed = 4, .workers = 2, .resident = resident}};
            const std::vector<double> order = loader.order(1).values();
            std::size_t seen = 0;
            for (const Batch& batch : loader.epoch(1)) {
              REQUIRE(batch.labels.dtype() == labels);
              REQUIRE(batch.labels.rank() == target.rank() + 1);
              REQUIRE(batch.labels.size(0) == batch.size);
              REQUIRE(batch.images.dtype() == (images == DType::uint8 ? DType::float32 : images));
              for (std::int64_t i = 0; i < batch.size; ++i) {
                const double example = order[seen++], scale = images == DType::uint8 ? 255 : 1;
                CHECK(batch.images[i].values().back() == Approx(example / scale));
                CHECK(batch.labels[i].flatten(0).values().back() ==
                      (labels == DType::boolean ? static_cast<double>(example != 0) : example));
              }
            }
            CHECK(seen == 23);
          }
  }
}

TEST_CASE("targets: the same batches for any number of workers, and shares of ranks", "[data][targets]") {
  const Dataset set = numbered(19, DType::float32, DType::float32, {2});
  std::vector<double> whole;
  for (const Batch& batch : DataLoader{set, {.batch_size = 6}}.epoch(0))
    for (const double value : batch.labels.values()) whole.push_back(value);
  for (const int workers : {1, 3}) {
    std::vector<double> labels;
    for (const Batch& batch : DataLoader{set, {.batch_size = 6, .prefetch = 1, .workers = workers}}.epoch(0))
      for (const double value : batch.labels.values()) labels.push_back(value);
    CHECK(labels == whole);
  }
  std::vector<double> parts;
  for (const int rank : {0, 1})
    for (const Batch& batch : DataLoader{set, {.batch_size = 19, .share = {.rank = rank, .ranks = 2}}}.epoch(0))
      for (const double value : batch.labels.values()) parts.push_back(value);
  CHECK(parts == whole);
}

TEST_CASE("targets: of a source, by its labels", "[data][targets]") {
  const Tensor targets = (arange(0, 22, 1, DType::float32) / 2).reshape({11, 2});
  const DataLoader loader{Squares(), {.batch_size = 4, .workers = 2, .targets = targets}};
  std::int64_t seen = 0;
  for (const Batch& batch : loader.epoch(0)) {
    REQUIRE(batch.labels.shape() == Shape{batch.size, 2});
    for (std::int64_t i = 0; i < batch.size; ++i, ++seen)
      CHECK(batch.images[i].item() == batch.labels[i][0].item() * batch.labels[i][0].item());
  }
  CHECK(seen == 11);
  CHECK_THAT(said<ShapeError>([&] { DataLoader(Squares(), {.targets = zeros({10})}); }),
             ContainsSubstring("squares: targets [10], expected a row for each of the 11 labels"));
  CHECK_THROWS_AS(DataLoader(numbered(3, DType::float32, DType::float32, {}), {.targets = zeros({3})}), ShapeError);
}

TEST_CASE("targets: sets are taken, selected, split and checked", "[data][targets]") {
  const Dataset set = numbered(20, DType::float32, DType::float64, {3});
  CHECK(set.size() == 20);
  CHECK(set.take(4).labels.shape() == Shape{4, 3});
  const Split parts = split(set, 0.25, 1);
  CHECK(parts.validation.size() == 5);
  CHECK(parts.train.size() == 15);
  CHECK(parts.train.classes == no_classes);
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(parts.validation.images[i].values().front() == parts.validation.labels[i].values().front());
  Dataset wrong = set;
  wrong.labels = wrong.labels.slice(0, 0, 19);
  CHECK_THAT(said<ShapeError>([&] { wrong.check(); }), ContainsSubstring("[20,2,3] and [19,3]"));
  wrong = set;
  wrong.classes = 0;
  CHECK_THROWS_AS(wrong.check(), DTypeError);
}

TEST_CASE("targets: a CSV file whose last column is a number", "[data][targets]") {
  const std::string text = "size,rooms,price\n50,2,100.5\n80,3,2e2\n20,1,-3\n";
  const Table table = parse_csv(testing::as_bytes(text), "homes.csv", {.numbers = true});
  CHECK(table.labels.dtype() == DType::float32);
  CHECK(table.labels.values() == std::vector<double>{100.5, 200, -3});
  CHECK(table.features.shape() == Shape{3, 2});
  CHECK(table.target == "price");
  CHECK(table.classes.empty());
  CHECK(table.dataset().classes == no_classes);
  table.dataset().check();
  const auto fails = [](const std::string& bytes, const CsvOptions& options) {
    return said<FileError>([&] { parse_csv(testing::as_bytes(bytes), "homes.csv", options); });
  };
  CHECK_THAT(fails("a,b\n1,2\n3,\n", {.numbers = true}),
             ContainsSubstring("homes.csv:3:3: found nothing in b, expected a number"));
  CHECK_THAT(fails("a,b\n1,2\n3,large\n", {.numbers = true}), ContainsSubstring("found 'large' in b"));
  CHECK_THAT(fails("0,1\n5,2\n6,3\n", {.numbers = true}), ContainsSubstring("this may be a header"));
  CHECK(parse_csv(testing::as_bytes("4,9\n5,2\n"), "homes.csv", {.numbers = true}).labels.size(0) == 2);
}

TEST_CASE("targets: arrays of a NumPy file", "[data][targets]") {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "set.npz";
  const Tensor x = arange(0, 12, 1, DType::float64).reshape({4, 3});
  io::save_npz(
      file,
      {{"x_train", x}, {"y_train", tensor<std::int32_t>({2, 0, 1, 2})}, {"prices", rand_like(x, default_generator())}});
  const Dataset classes = read_npz(file);
  CHECK(classes.classes == 3);
  CHECK(classes.labels.dtype() == DType::int64);
  CHECK(classes.images.dtype() == DType::float32);
  CHECK(classes.labels.values() == std::vector<double>{2, 0, 1, 2});
  CHECK(read_npz(file, {.numbers = true}).classes == no_classes);
  CHECK(read_npz(file, {.numbers = true}).labels.dtype() == DType::int32);
  const Dataset prices = read_npz(file, {.images = "x_train", .labels = "prices"});
  CHECK(prices.classes == no_classes);
  CHECK(prices.labels.shape() == Shape{4, 3});
  CHECK_THAT(said<FileError>([&] { read_npz(file, {.labels = "z"}); }),
             ContainsSubstring("found prices [4,3], x_train [4,3], y_train [4], expected z"));
  io::save_npz(file, {{"x", x}, {"y", tensor<std::int64_t>({1, -1, 0, 0})}});
  CHECK_THAT(said<FileError>([&] { read_npz(file); }), ContainsSubstring("found the class -1"));
  io::save_npz(file, {{"x", x}, {"y", tensor<std::int64_t>({1, 0, 0, 1}).to(DType::boolean)}});
  CHECK(read_npz(file).classes == no_classes);  // answers, not classes
  CHECK(read_npz(file).labels.dtype() == DType::boolean);
  for (const std::int64_t far : {INT64_MAX, std::int64_t{1'000'000'000'000'000}, std::int64_t{65536}}) {
    io::save_npz(file, {{"x", x}, {"y", tensor<std::int64_t>({1, far, 0, 0})}});
    CHECK_THAT(said<FileError>([&] { read_npz(file); }),
               ContainsSubstring(message("found the class ", far)) && ContainsSubstring("NpzOptions::numbers"));
    CHECK(read_npz(file, {.numbers = true}).classes == no_classes);
  }
  io::save_npz(file, {{"x", x}, {"y", zeros({3})}});
  CHECK_THAT(said<FileError>([&] { read_npz(file); }), ContainsSubstring("expected as many labels as images"));
  io::save_npz(file, {{"pixels", x}});
  CHECK_THAT(said<FileError>([&] { read_npz(file); }), ContainsSubstring("NpzOptions::images names another one"));
}

}  // namespace tern::data
