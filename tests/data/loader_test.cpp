#include "tern/data/loader.hpp"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/modes/mode.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;

namespace {

/// Image i holds the byte i; its label is i % 7.
Dataset counted(std::int64_t n, const Shape& image = {2, 3}) {
  Shape shape{n};
  for (const std::int64_t size : image) shape.push_back(size);
  Dataset set{
      .images = Tensor(shape, DType::uint8), .labels = Tensor({n}, DType::int64), .classes = 7, .source = "counted"};
  const auto pixels = set.images.write<std::uint8_t>();
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i / static_cast<std::size_t>(element_count(image)));
  const auto labels = set.labels.write<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 7);
  return set;
}

struct Flat {
  std::vector<std::int64_t> sizes, positions, labels;
  std::vector<float> pixels;
  bool operator==(const Flat&) const = default;
};

Flat flat(const DataLoader& loader, std::int64_t epoch, std::int64_t first = 0) {
  Flat all;
  for (const Batch& batch : loader.epoch(epoch, first)) {
    REQUIRE(batch.images.dtype() == DType::float32);
    REQUIRE(batch.images.size(0) == batch.size);
    REQUIRE(batch.labels.size(0) == batch.size);
    all.sizes.push_back(batch.size);
    all.positions.push_back(batch.position);
    for (const std::int64_t label : batch.labels.to_vector<std::int64_t>()) all.labels.push_back(label);
    for (const float pixel : batch.images.to_vector<float>()) all.pixels.push_back(pixel);
  }
  return all;
}

int threads_of_process() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()));
}

/// Whether there are as many as `expected`; a thread that was joined is listed a moment longer.
bool comes_to_threads(int expected) {
  for (int wait = 0; wait < 200 && threads_of_process() != expected; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return threads_of_process() == expected;
}

/// Memory of a device that is not there: ordinary bytes that the host may not touch.
class FarMemory final : public Memory {
 public:
  std::string_view name() const override { return "far"; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t bytes, void*) override { return std::malloc(bytes); }
  void release(void* pointer, std::size_t, void*) noexcept override { std::free(pointer); }
  void copy_in(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  MemoryStatistics statistics() const override { return {}; }
  void reset_peak() override {}
  void trim() override {}
  void set_limit(std::size_t) override {}
};

FarMemory& far_memory() {
  static FarMemory memory;
  return memory;
}

const Mode& far_mode() {
  static const Mode& registered = [&]() -> const Mode& {
    Mode far = mode("sequential");
    far.memory = &far_memory();
    return register_mode("far", far);
  }();
  return registered;
}

}  // namespace

TEST_CASE("loader: an epoch holds every example once, in an order of (seed, epoch)", "[data]") {
  const DataLoader loader(counted(103), {.batch_size = 10, .seed = 5});
  CHECK(loader.batches() == 11);
  CHECK(loader.examples() == 103);
  const Flat first = flat(loader, 0);
  CHECK(first.sizes == std::vector<std::int64_t>{10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 3});
  std::set<float> seen(first.pixels.begin(), first.pixels.end());
  CHECK(seen.size() == 103);
  for (std::size_t i = 0; i < 103; ++i) {
    const auto example = static_cast<std::int64_t>(std::lround(first.pixels[i * 6] * 255));
    REQUIRE(first.labels[i] == example % 7);
    REQUIRE(first.pixels[i * 6] == static_cast<float>(static_cast<double>(example) / 255));
    REQUIRE(first.pixels[i * 6 + 5] == first.pixels[i * 6]);
  }
  CHECK(flat(loader, 0) == first);
  CHECK(flat(DataLoader(counted(103), {.batch_size = 10, .seed = 5}), 0) == first);
  CHECK(flat(loader, 1).labels != first.labels);
  CHECK(flat(DataLoader(counted(103), {.batch_size = 10, .seed = 6}), 0).labels != first.labels);
}

TEST_CASE("loader: every epoch has an order of its own, in memory, resident and from a source", "[data]") {
  const Dataset set = counted(40, {1});
  std::set<std::vector<float>> orders;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    std::vector<std::vector<float>> found;
    for (const bool resident : {false, true})
      found.push_back(flat(DataLoader(set, {.batch_size = 7, .seed = 11, .resident = resident}), epoch).pixels);
    CHECK(found[0] == found[1]);
    orders.insert(found[0]);
  }
  CHECK(orders.size() == 40);
}

TEST_CASE("loader: ahead, on demand and resident give the same bits", "[data]") {
  for (const bool shuffle : {true, false})
    for (const bool drop_last : {true, false}) {
      LoaderOptions options{
          .batch_size = 8, .shuffle = shuffle, .seed = 3, .drop_last = drop_last, .mean = 0.1307, .deviation = 0.3081};
      options.prefetch = 0;
      const Flat on_demand = flat(DataLoader(counted(45), options), 2);
      CHECK(on_demand.sizes.size() == (drop_last ? 5u : 6u));
      for (const int prefetch : {1, 2, 7}) {
        options.prefetch = prefetch;
        CHECK(flat(DataLoader(counted(45), options), 2) == on_demand);
      }
      options.resident = true;
      CHECK(flat(DataLoader(counted(45), options), 2) == on_demand);
    }
}

TEST_CASE("loader: without a shuffle the order is the set's, and order() tells it", "[data]") {
  const Dataset set = counted(20, {1});
  const DataLoader plain(set, {.batch_size = 6, .shuffle = false});
  CHECK(flat(plain, 4).labels == set.labels.to_vector<std::int64_t>());
  const DataLoader shuffled(set, {.batch_size = 6, .seed = 1});
  const auto order = shuffled.order(9).to_vector<std::int64_t>();
  const Flat epoch = flat(shuffled, 9);
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(epoch.labels[i] == order[i] % 7);
  CHECK(shuffled.images().shape() == Shape{20, 1});
  CHECK(shuffled.images().dtype() == DType::float32);
  CHECK(shuffled.labels().shape() == Shape{20});
}

TEST_CASE("loader: an epoch goes on where a checkpoint stopped", "[data]") {
  for (const bool resident : {false, true}) {
    const DataLoader loader(counted(50), {.batch_size = 8, .seed = 1, .resident = resident});
    const Flat whole = flat(loader, 3), rest = flat(loader, 3, 4);
    CHECK(rest.positions == std::vector<std::int64_t>{4, 5, 6});
    CHECK(rest.labels == std::vector<std::int64_t>(whole.labels.begin() + 32, whole.labels.end()));
    CHECK(flat(loader, 3, 7).sizes.empty());
    CHECK(flat(loader, 3, 99).sizes.empty());
  }
}

TEST_CASE("loader: float images pass through, empty and short sets are fine", "[data]") {
  Dataset set = counted(5);
  set.images = to_float(set.images);
  const DataLoader loader(set, {.batch_size = 2, .shuffle = false, .mean = 9, .deviation = 9});
  CHECK(flat(loader, 0).pixels == set.images.to_vector<float>());
  CHECK(flat(DataLoader(counted(0)), 0).sizes.empty());
  CHECK(flat(DataLoader(counted(3), {.batch_size = 4, .drop_last = true}), 0).sizes.empty());
  CHECK(DataLoader(counted(3), {.batch_size = 4, .drop_last = true}).examples() == 0);
  CHECK(flat(DataLoader(counted(3), {.batch_size = 4}), 0).sizes == std::vector<std::int64_t>{3});
}

TEST_CASE("loader: options and data are checked at once", "[data]") {
  CHECK_THROWS_AS(DataLoader(counted(3), {.batch_size = 0}), ShapeError);
  CHECK_THROWS_AS(DataLoader(counted(3), {.prefetch = -1}), ShapeError);
  CHECK_THROWS_AS(DataLoader(counted(3), {.deviation = 0}), NumericError);
  CHECK_THROWS_AS(DataLoader(Dataset()), ShapeError);
  CHECK_THROWS_AS(DataLoader(counted(3)).epoch(-1), ShapeError);
  Dataset wrong = counted(3);
  wrong.classes = 2;
  CHECK_THAT(said<NumericError>([&] { DataLoader{wrong}; }), ContainsSubstring("counted: label 2 at position 2"));
  wrong = counted(3);
  wrong.labels = wrong.labels.clone();
  wrong.labels.write<std::int64_t>()[1] = -1;
  CHECK_THAT(said<NumericError>([&] { DataLoader{wrong}; }), ContainsSubstring("counted: label -1 at position 1"));
}

TEST_CASE("loader: a batch outlives the loop, the loader and the set", "[data]") {
  std::vector<Batch> kept;
  {
    const DataLoader loader(counted(30), {.batch_size = 10, .shuffle = false});
    for (const Batch& batch : loader.epoch(0)) kept.push_back(batch);
  }
  REQUIRE(kept.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(kept[i].images.read<float>()[0] == static_cast<float>(static_cast<double>(10 * i) / 255));
  auto orphan = DataLoader(counted(30), {.batch_size = 10}).epoch(0);
  int count = 0;
  for (const Batch& batch : orphan) count += batch.size == 10;
  CHECK(count == 3);
}

TEST_CASE("loader: leaving early stops the thread", "[data]") {
  const DataLoader loader(counted(200), {.batch_size = 2, .prefetch = 3});
  const int before = threads_of_process();
  for (int i = 0; i < 100; ++i) {
    for (const Batch& batch : loader.epoch(i))
      if (batch.position == i % 5) break;
    const auto unused = loader.epoch(i);
  }
  CHECK(comes_to_threads(before));
  const auto problem = [&] {
    for (const Batch& batch : loader.epoch(0)) throw Error(message("at ", batch.position));
  };
  CHECK_THROWS_AS(problem(), Error);
  CHECK(comes_to_threads(before));
}

TEST_CASE("loader: what fails in the thread is thrown in the loop, and the loader lives on", "[data]") {
  const DataLoader loader(counted(8, {1 << 20}), {.batch_size = 4});
  host_memory().trim();
  host_memory().set_limit(host_memory().statistics().reserved + (1 << 20));
  int batches = 0;
  const auto problem = said<OutOfMemory>([&] {
    for (const Batch& batch : loader.epoch(0)) batches += batch.size > 0;
  });
  host_memory().set_limit(0);
  CHECK_THAT(problem, ContainsSubstring("host memory"));
  CHECK(batches == 0);
  for (const Batch& batch : loader.epoch(0)) batches += batch.size > 0;
  CHECK(batches == 2);
}

TEST_CASE("loader: the thread inherits the scope and uploads ahead", "[data]") {
  const DataLoader loader(counted(20), {.batch_size = 5});
  {
    const Device far(far_mode());
    int there = 0;
    for (const Batch& batch : loader.epoch(0))
      there += batch.images.storage().valid_in(far_memory()) && batch.labels.storage().valid_in(far_memory());
    CHECK(there == 4);
  }
  const Device strict(far_mode(), {.transfers = Transfers::forbid});
  CHECK_THROWS_AS(
      [&] {
        for (const Batch& batch : loader.epoch(0)) CHECK(batch.size == 0);
      }(),
      TransferError);
}

TEST_CASE("loader: resident, an epoch moves only its order", "[data]") {
  const DataLoader loader(counted(64, {10}), {.batch_size = 8, .resident = true});
  const Device far(far_mode());
  for (const Batch& batch : loader.epoch(0)) REQUIRE(batch.images.storage().valid_in(far_memory()));
  reset_transfers();
  for (const Batch& batch : loader.epoch(1)) REQUIRE(batch.images.storage().valid_in(far_memory()));
  std::int64_t bytes = 0, count = 0;
  for (const Transfer& transfer : transfers()) {
    bytes += transfer.bytes;
    count += transfer.count;
  }
  CHECK(count == 1);
  CHECK(bytes == 64 * 8);
}

}  // namespace tern::data
