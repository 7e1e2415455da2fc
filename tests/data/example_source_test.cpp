#include "tern/data/example_source.hpp"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/loader.hpp"
#include "tern/memory/memory.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;

namespace {

/// Example i is {i, two random numbers}; some fail or are left out.
class Counted final : public ExampleSource {
 public:
  explicit Counted(std::int64_t n, std::set<std::int64_t> missing = {}, std::set<std::int64_t> broken = {})
      : n_(n), missing_(std::move(missing)), broken_(std::move(broken)) {}

  std::int64_t size() const override { return n_; }
  std::int64_t classes() const override { return 5; }
  Shape shape() const override { return {3}; }
  std::int64_t label(std::int64_t index) const override { return index == n_ - 1 ? last_label_ : index % 5; }
  std::string name() const override { return "counted"; }
  void set_last_label(std::int64_t label) { last_label_ = label; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override {
    expects<ShapeError>(to.size() == 3, "room for ", to.size());
    // The later an example, the sooner it is done, so that threads finish in another order than they began.
    std::this_thread::sleep_for(std::chrono::microseconds((n_ - index) % 7 * 20));
    expects<FileError>(!broken_.contains(index), "example ", index, " is broken");
    to[0] = static_cast<float>(index);
    to[1] = random::uniform(draw.word[0]);
    to[2] = random::uniform(draw.word[3]);
    if (missing_.contains(index)) return std::nullopt;
    return label(index);
  }

 private:
  std::int64_t n_, last_label_ = (n_ - 1) % 5;
  std::set<std::int64_t> missing_, broken_;
};

struct Flat {
  std::vector<std::int64_t> sizes, labels;
  std::vector<float> values;
  bool operator==(const Flat&) const = default;
};

Flat flat(const DataLoader& loader, std::int64_t epoch) {
  Flat all;
  for (const Batch& batch : loader.epoch(epoch)) {
    REQUIRE(batch.images.shape() == Shape{batch.size, 3});
    REQUIRE(batch.labels.shape() == Shape{batch.size});
    all.sizes.push_back(batch.size);
    for (const std::int64_t label : batch.labels.to_vector<std::int64_t>()) all.labels.push_back(label);
    for (const float value : batch.images.to_vector<float>()) all.values.push_back(value);
  }
  return all;
}

}  // namespace

TEST_CASE("source: an epoch is the same for any number of workers", "[data]") {
  const Counted source(67);
  const Flat expected = flat(DataLoader(source, {.batch_size = 10, .seed = 4, .prefetch = 0}), 3);
  CHECK(expected.sizes == std::vector<std::int64_t>{10, 10, 10, 10, 10, 10, 7});
  for (std::size_t i = 0; i < 67; ++i)
    REQUIRE(expected.labels[i] == static_cast<std::int64_t>(expected.values[3 * i]) % 5);
  for (const int workers : {1, 2, 3, 8})
    for (const int prefetch : {1, 2, 5}) {
      const DataLoader loader(source, {.batch_size = 10, .seed = 4, .prefetch = prefetch, .workers = workers});
      REQUIRE(flat(loader, 3) == expected);
    }
}

TEST_CASE("source: random numbers belong to the example, the epoch and the seed", "[data]") {
  const auto draws = [](std::uint64_t seed, std::int64_t epoch, std::int64_t batch_size, bool shuffle) {
    const Flat all = flat(
        DataLoader(Counted(20), {.batch_size = batch_size, .shuffle = shuffle, .seed = seed, .workers = 2}), epoch);
    std::vector<std::pair<float, float>> sorted(20);
    for (std::size_t i = 0; i < 20; ++i)
      sorted[static_cast<std::size_t>(all.values[3 * i])] = {all.values[3 * i + 1], all.values[3 * i + 2]};
    return sorted;
  };
  const auto expected = draws(1, 0, 4, true);
  CHECK(draws(1, 0, 7, false) == expected);
  CHECK(draws(1, 1, 4, true) != expected);
  CHECK(draws(2, 0, 4, true) != expected);
  CHECK(std::set<std::pair<float, float>>(expected.begin(), expected.end()).size() == 20);
}

// Philox at one stream gives a Generator there the same words.
TEST_CASE("source: its random numbers are nobody else's", "[data]") {
  std::set<std::pair<std::uint32_t, std::uint32_t>> words;
  class Recorded final : public ExampleSource {
   public:
    explicit Recorded(std::set<std::pair<std::uint32_t, std::uint32_t>>& words) : words_(words) {}
    std::int64_t size() const override { return 50; }
    std::int64_t classes() const override { return 1; }
    Shape shape() const override { return {1}; }
    std::int64_t label(std::int64_t) const override { return 0; }
    std::string name() const override { return "recorded"; }
    std::optional<std::int64_t> read(std::int64_t, const random::Words& draw, std::span<float>) const override {
      words_.emplace(draw.word[0], draw.word[1]);
      return 0;
    }

   private:
    std::set<std::pair<std::uint32_t, std::uint32_t>>& words_;
  } recorded(words);
  const std::shared_ptr<const ExampleSource> source(std::shared_ptr<void>(), &recorded);
  const DataLoader loader(source, {.seed = 9, .prefetch = 0});
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    for (const Batch& batch : loader.epoch(epoch)) CHECK(batch.size == 50);
  REQUIRE(words.size() == 1000);
  // A Generator from 0, the orders of epochs, the split, drawn trials, drawn images.
  for (std::uint64_t owner = 0; owner < 16; ++owner) {
    if (owner == 7) continue;
    for (std::uint64_t stream = 0; stream < 20; ++stream)
      for (std::uint64_t i = 0; i < 50; ++i) {
        const random::Words other = random::philox(9, i, (owner << 60) + stream);
        REQUIRE_FALSE(words.contains({other.word[0], other.word[1]}));
      }
  }
}

TEST_CASE("source: examples left out make their batch smaller", "[data]") {
  const Counted source(12, {1, 3, 4, 5, 11});
  for (const int prefetch : {0, 2}) {
    const DataLoader loader(source, {.batch_size = 3, .shuffle = false, .prefetch = prefetch, .workers = 2});
    const Flat all = flat(loader, 0);
    CHECK(all.sizes == std::vector<std::int64_t>{2, 3, 2});  // the second batch is empty and passed over
    CHECK(all.labels == std::vector<std::int64_t>{0, 2, 1, 2, 3, 4, 0});
    std::vector<float> numbers;
    for (std::size_t i = 0; i < all.labels.size(); ++i) numbers.push_back(all.values[3 * i]);
    CHECK(numbers == std::vector<float>{0, 2, 6, 7, 8, 9, 10});
  }
}

TEST_CASE("source: the first failure in order is thrown where its batch is requested", "[data]") {
  const Counted source(40, {}, {13, 17, 14, 30});
  for (const int workers : {1, 2, 5})
    for (const int prefetch : {0, 1, 4}) {
      const DataLoader loader(source, {.batch_size = 6, .shuffle = false, .prefetch = prefetch, .workers = workers});
      int batches = 0;
      auto epoch = loader.epoch(0);
      const auto problem = said<FileError>([&] {
        for (const Batch& batch : epoch) batches += batch.size == 6;
      });
      CHECK(problem == "example 13 is broken");
      CHECK(batches == 2);
      CHECK(epoch.begin() == epoch.end());
      CHECK(flat(DataLoader(Counted(4), {.batch_size = 4}), 0).sizes.size() == 1);
    }
}

TEST_CASE("source: what a loader knows without reading", "[data]") {
  const auto source = std::make_shared<const Counted>(10);
  const DataLoader loader(source, {.batch_size = 4, .drop_last = true});
  CHECK(loader.batches() == 2);
  CHECK(loader.examples() == 8);
  CHECK(loader.labels().to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  CHECK(loader.dataset().classes == 5);
  CHECK(loader.dataset().source == "counted");
  CHECK_THAT(said<ShapeError>([&] { loader.images(); }), ContainsSubstring("counted: a source keeps no images"));
  CHECK_THAT(said<ShapeError>([&] { DataLoader(source, {.resident = true}); }), ContainsSubstring("collect(source)"));
  CHECK_THAT(said<ShapeError>([&] { DataLoader(source, {.mean = 1}); }), ContainsSubstring("give them to the source"));
  CHECK_THROWS_AS(DataLoader(source, {.workers = -1}), ShapeError);
  CHECK_THROWS_AS(DataLoader(std::shared_ptr<const ExampleSource>()), ShapeError);
  CHECK(flat(DataLoader(Counted(0)), 0).sizes.empty());
}

TEST_CASE("source: a loader reads no further ahead than requested", "[data]") {
  class Watched final : public ExampleSource {
   public:
    explicit Watched(std::atomic<int>& reads) : reads_(&reads) {}
    std::int64_t size() const override { return 40; }
    std::int64_t classes() const override { return 1; }
    Shape shape() const override { return {1}; }
    std::int64_t label(std::int64_t) const override { return 0; }
    std::string name() const override { return "watched"; }
    std::optional<std::int64_t> read(std::int64_t, const random::Words&, std::span<float> to) const override {
      to[0] = 1;
      ++*reads_;
      return 0;
    }

   private:
    std::atomic<int>* reads_;
  };
  std::atomic<int> reads{0};
  const DataLoader loader(Watched(reads), {.batch_size = 2, .prefetch = 3, .workers = 2});
  int batches = 0;
  for (const Batch& batch : loader.epoch(0)) {
    batches += static_cast<int>(batch.size) / 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(batches < 4 ? 30 : 0));
    CHECK(reads <= 2 * (batches + 3));
  }
  CHECK(batches == 20);
  CHECK(reads == 40);
}

TEST_CASE("source: memory that runs out is thrown in the loop, and the loader lives on", "[data]") {
  class Large final : public ExampleSource {
   public:
    std::int64_t size() const override { return 4; }
    std::int64_t classes() const override { return 1; }
    Shape shape() const override { return {1 << 22}; }
    std::int64_t label(std::int64_t) const override { return 0; }
    std::string name() const override { return "large"; }
    std::optional<std::int64_t> read(std::int64_t, const random::Words&, std::span<float> to) const override {
      to[0] = 1;
      return 0;
    }
  };
  const DataLoader loader(Large(), {.batch_size = 2, .workers = 2});
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

TEST_CASE("source: a subset chooses, orders and repeats", "[data]") {
  const auto source = std::make_shared<const Counted>(10);
  const Subset subset(source, {7, 2, 2});
  CHECK(subset.size() == 3);
  CHECK(subset.name() == "3 examples of counted");
  const Flat all = flat(DataLoader(subset, {.shuffle = false}), 0);
  CHECK(all.labels == std::vector<std::int64_t>{2, 2, 2});
  CHECK(std::vector<float>{all.values[0], all.values[3], all.values[6]} == std::vector<float>{7, 2, 2});
  CHECK_THAT(said<ShapeError>([&] { Subset(source, {10}); }),
             ContainsSubstring("index 10 is outside the 10 examples of counted"));
  CHECK_THROWS_AS(Subset(source, {-1}), ShapeError);
  CHECK_THROWS_AS(Subset(nullptr, {}), ShapeError);
}

TEST_CASE("source: collected, it is a Dataset", "[data]") {
  const Dataset all = collect(Counted(40, {3, 20}));
  CHECK_NOTHROW(all.check());
  CHECK(all.images.shape() == Shape{38, 3});
  CHECK(all.source == "counted");
  CHECK(all.classes == 5);
  CHECK(all.images.read<float>()[9] == 4);
  CHECK(all.labels.to_vector<std::int64_t>()[3] == 4);
  const DataLoader resident(all, {.batch_size = 7, .resident = true});
  CHECK(flat(resident, 0).values.size() == 38 * 3);
  CHECK(collect(Counted(0)).size() == 0);
  for (const std::int64_t label : {-1, 5}) {
    Counted wrong(8);
    wrong.set_last_label(label);
    CHECK_THAT(said<NumericError>([&] { DataLoader{wrong}; }), ContainsSubstring("at position 7 is outside [0, 5)"));
  }
}

}  // namespace tern::data
