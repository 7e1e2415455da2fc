#include "tern/core/random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;

namespace {

std::vector<std::uint32_t> words(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  const random::Words result = random::philox(key, low, high);
  return {result.word, result.word + 4};
}

}  // namespace

TEST_CASE("random: the known answers of Philox 4x32-10", "[core]") {
  using Answer = std::vector<std::uint32_t>;
  CHECK(words(0, 0, 0) == Answer{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(~0ull, ~0ull, ~0ull) == Answer{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Answer{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  static_assert(random::philox(0, 0, 0).word[0] == 0x6627e8d5);
  CHECK(random::uniform(0) == 0);
  CHECK(random::uniform(~0u) == 1 - 0x1p-24f);
}

TEST_CASE("random: a generator repeats, continues and takes up its place", "[core]") {
  Generator a(5), b(5), other(6);
  const auto first = rand({100}, a).values();
  CHECK(first == rand({100}, b).values());
  CHECK(first != rand({100}, a).values());
  CHECK(first != rand({100}, other).values());
  CHECK(a.position() == 2);
  Generator c(5);
  c.set_position(1);
  CHECK(c.position() == b.position());
  CHECK(randn({9}, b).values() == randn({9}, c).values());
  Generator copy = b;
  CHECK(rand({3}, copy).values() == rand({3}, b).values());
  Generator skipped(5);
  skipped.skip(b.position());
  CHECK(rand({3}, skipped).values() == rand({3}, b).values());
}

TEST_CASE("random: the same bits in every mode, thread and dtype width", "[core]") {
  Generator start(11);
  const std::vector<double> uniform = rand({1001}, start).values();
  const std::vector<double> normal = randn({1001}, start).values();
  for (const std::string& name : testing::available_modes()) {
    const Device device{name};
    Generator again(11);
    CHECK(rand({1001}, again).values() == uniform);
    CHECK(randn({1001}, again).values() == normal);
  }
  std::vector<double> elsewhere;
  std::thread([&] {
    Generator again(11);
    elsewhere = rand({1001}, again).values();
  }).join();
  CHECK(elsewhere == uniform);
}

TEST_CASE("random: dropout has the same mask in every mode", "[core]") {
  std::vector<double> expected;
  for (const std::string& name : testing::available_modes()) {
    const Device device{name};
    Generator generator(3);
    const std::vector<double> mask = operators::dropout(ones({5000}), 0.3, true, generator).values();
    if (expected.empty()) expected = mask;
    CHECK(mask == expected);
  }
  const auto kept = std::count_if(expected.begin(), expected.end(), [](double value) { return value != 0; });
  CHECK(std::abs(static_cast<double>(kept) / 5000 - 0.7) < 0.03);
}

TEST_CASE("random: ranges and moments", "[core]") {
  Generator generator(1);
  const std::vector<double> uniform = rand({20000}, generator, -2, 3, DType::float64).values();
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= -2);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) < 3);
  CHECK(std::abs(std::accumulate(uniform.begin(), uniform.end(), 0.0) / 20000 - 0.5) < 0.05);
  CHECK(std::count_if(uniform.begin(), uniform.end(), [](double x) { return x > 2; }) == Approx(4000).margin(300));
  const Tensor normal = randn({20000}, generator, 1, 2, DType::float64);
  CHECK(std::abs(operators::mean(normal).item() - 1) < 0.06);
  CHECK(std::abs(operators::var(normal).item() - 4) < 0.2);
  const std::vector<double> whole = randint(-3, 4, {20000}, generator).values();
  const std::set<double> different(whole.begin(), whole.end());
  CHECK(different == std::set<double>{-3, -2, -1, 0, 1, 2, 3});
  CHECK_THROWS_AS(randint(4, 4, {1}, generator), Error);
}

TEST_CASE("random: a permutation holds every position once", "[core]") {
  Generator generator(9);
  std::vector<double> order = randperm(1000, generator).values();
  CHECK(!std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  CHECK(order == arange(0, 1000).values());
  CHECK(randperm(0, generator).numel() == 0);
  CHECK(randperm(1, generator).values() == std::vector<double>{0});
}

TEST_CASE("random: the default generator belongs to its thread and restarts", "[core]") {
  manual_seed(42);
  const std::vector<double> first = operators::dropout(ones({100}), 0.5, true).values();
  const std::vector<double> second = operators::dropout(ones({100}), 0.5, true).values();
  CHECK(first != second);
  manual_seed(42);
  CHECK(operators::dropout(ones({100}), 0.5, true).values() == first);
  std::thread([] { manual_seed(7); }).join();
  CHECK(operators::dropout(ones({100}), 0.5, true).values() == second);
}
