// Two cards of one machine: "cuda" and "cuda:1".

#include <future>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "support/training.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/profile.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

constexpr int steps = 30;
constexpr std::int64_t images = 64;

std::int64_t moved(const std::string& from, const std::string& to) {
  for (const Transfer& transfer : transfers())
    if (transfer.from == from && transfer.to == to) return transfer.count;
  return 0;
}

}  // namespace

TEST_CASE("cards: trainings at once have the bits that each has alone", "[training][cuda][cards]") {
  if (!has_second_card()) return;
  const std::vector<std::string> devices{"cuda", "cuda:1", "cuda", "cuda:1"};
  std::vector<std::vector<double>> alone;
  for (std::size_t i = 0; i < devices.size(); ++i) alone.push_back(trained(devices[i], i + 1, steps, images));
  for (int round = 0; round < 3; ++round) {
    CHECK(trained_at_once({devices[0], devices[1]}, steps, images) == std::vector(alone.begin(), alone.begin() + 2));
    CHECK(trained_at_once(devices, steps, images) == alone);
  }
  if (mode("cuda").description == mode("cuda:1").description) CHECK(trained("cuda:1", 1, steps, images) == alone[0]);
}

TEST_CASE("cards: a tensor goes straight from one to the other, and to the host", "[training][cuda][cards]") {
  if (!has_second_card()) return;
  for (const std::int64_t size : {1, 1000, 1 << 24}) {
    INFO(size);
    Generator generator{7};
    const Tensor host = rand({size}, generator);
    Tensor x, y;
    {
      const Device first{"cuda"};
      x = op::add(host, 1.0);
    }
    reset_transfers();
    {
      const Device second{"cuda:1"};
      y = op::mul(x, 2.0);
      CHECK(moved("cuda", "cuda:1") == 1);
      (void)op::mul(x, y);
      CHECK(moved("cuda", "cuda:1") == 1);
    }
    {
      const Device first{"cuda"};
      x.fill_(-1);  // the copy may be under way
      CHECK(op::sub(y, x).read<float>()[0] == (host.read<float>()[0] + 1) * 2 + 1);
    }
    CHECK(moved("cuda:1", "cuda") == 1);
    CHECK(moved("cuda", "host") == 1);  // what the host has just read
    CHECK(moved("cuda:1", "host") == 0);
    const auto expected = host.read<float>(), seen = y.read<float>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < size; ++i) wrong += seen[i] == (expected[i] + 1) * 2 ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("cards: one thread works on both in turn, and a profile times both", "[training][cuda][cards]") {
  if (!has_second_card()) return;
  Generator generator{3};
  const Tensor a = rand({96, 200}, generator), b = rand({200, 96}, generator), image = rand({2, 16, 12, 12}, generator),
               weight = rand({24, 16, 3, 3}, generator);
  const auto work = [&] {
    const Tensor product = op::matmul(op::matmul(a, b), a);
    return std::pair{product.values(), op::conv2d(image, weight, Tensor(), {.padding = {1, 1}}).values()};
  };
  for (const Precision precision : {Precision::strict, Precision::tf32, Precision::bf16})
    for (const bool deterministic : {true, false}) {
      const DeviceOptions options{.precision = precision, .deterministic = deterministic};
      const Device first("cuda", options);
      const auto expected = work();
      for (int turn = 0; turn < 3; ++turn) {
        const Device second("cuda:1", options);
        const auto seen = work();
        CHECK(seen.first.size() == expected.first.size());
        if (deterministic && mode("cuda").description == mode("cuda:1").description) CHECK(seen == expected);
        const Device again("cuda", options);
        const auto once_more = work();
        if (deterministic) CHECK(once_more == expected);
      }
    }
  Profile profile;
  for (const char* name : {"cuda", "cuda:1", "cuda"}) {
    const Device device(name);
    (void)work();
  }
  int rows = 0;
  for (const ProfileRow& row : profile.table().rows)
    if (std::string_view(row.name) == "matmul" && row.seconds > 0) ++rows;
  CHECK(rows == 2);
}

TEST_CASE("cards: each has a memory of its own", "[training][cuda][cards]") {
  if (!has_second_card()) return;
  const std::size_t before = memory_statistics("cuda:1").in_use, first = memory_statistics("cuda").in_use;
  const Device device{"cuda:1"};
  const Tensor x = ones({1 << 20}), y = op::add(x, x);
  CHECK(memory_statistics("cuda:1").in_use >= before + (std::size_t{4} << 20));
  CHECK(memory_statistics("cuda").in_use == first);
  CHECK_THROWS_AS(Device("cuda:64"), DeviceUnavailable);
}
