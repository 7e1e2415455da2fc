#include "tern/modes/device.hpp"

#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <thread>
#include <type_traits>

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

std::string here() { return current_scope().mode->name; }

/// Puts the process's default mode back.
struct DefaultMode {
  std::string name = here();
  ~DefaultMode() { set_mode(name); }
};

}  // namespace

TEST_CASE("device: guards nest and restore", "[device]") {
  const std::string outside = here();
  {
    const Device a{"sequential"};
    CHECK(here() == "sequential");
    CHECK(a.name() == "sequential");
    CHECK(!a.description().empty());
    CHECK(&a.mode() == &mode("sequential"));
    {
      const Device b{"vectorized"};
      CHECK(here() == "vectorized");
      {
        const Device c{"sequential"};
        CHECK(here() == "sequential");
      }
      CHECK(here() == "vectorized");
    }
    CHECK(here() == "sequential");
  }
  CHECK(here() == outside);
}

TEST_CASE("device: a guard restores when an exception passes", "[device]") {
  const std::string outside = here();
  const Device outer{"sequential"};
  CHECK_THROWS_AS(
      [] {
        const Device inner{"vectorized"};
        const Device innermost(fake_mode());
        op::add(ones({2}), ones({3}));
      }(),
      ShapeError);
  CHECK(here() == "sequential");
  // A guard that cannot be made leaves the scope as it was.
  CHECK_THROWS_AS(Device{"abacus"}, DeviceUnavailable);
  CHECK(here() == "sequential");
  CHECK(op::add(ones({2}), ones({2})).values() == std::vector<double>{2, 2});
  static_cast<void>(outside);
}

TEST_CASE("device: a guard can be neither copied nor moved", "[device]") {
  STATIC_REQUIRE(!std::is_copy_constructible_v<Device>);
  STATIC_REQUIRE(!std::is_move_constructible_v<Device>);
  STATIC_REQUIRE(!std::is_copy_assignable_v<Device>);
  STATIC_REQUIRE(!std::is_move_assignable_v<Device>);
}

TEST_CASE("device: without a name it is the fastest mode present", "[device]") {
  const Device fastest;
  CHECK(fastest.name() == fastest_mode());
  const Device named{"fastest"};
  CHECK(named.name() == fastest_mode());
  bool listed = false;
  for (const ModeStatus& status : modes()) listed = listed || (status.name == fastest_mode() && status.available);
  CHECK(listed);
}

TEST_CASE("device: options hold in their scope", "[device]") {
  const Device outer{"vectorized", {.threads = 3, .precision = Precision::tf32, .deterministic = false}};
  CHECK(current_scope().context.threads == 3);
  CHECK(current_scope().context.precision == Precision::tf32);
  CHECK(!current_scope().context.deterministic);
  {
    const Device inherits{"sequential"};
    CHECK(current_scope().context.threads == 3);
    CHECK(current_scope().context.precision == Precision::tf32);
    CHECK(!current_scope().context.deterministic);
    const Device two{"vectorized", {.threads = 2, .precision = Precision::strict}};
    CHECK(current_scope().context.threads == 2);
    CHECK(current_scope().context.precision == Precision::strict);
    CHECK(!current_scope().context.deterministic);
    const Device exact{"vectorized", {.deterministic = true}};
    CHECK(current_scope().context.deterministic);
  }
  CHECK(current_scope().context.threads == 3);
  CHECK_THROWS_AS((Device{"vectorized", {.threads = -1}}), Error);
}

TEST_CASE("device: an inner scope inherits that transfers are forbidden, and may allow them", "[device]") {
  const Tensor x = ones({4});
  const Device outer(fake_mode(), {.transfers = Transfers::forbid});
  {
    const Device inner(fake_mode(), {.threads = 1});
    CHECK_THROWS_AS(op::mul(x, 2.0), TransferError);
  }
  const Device allows(fake_mode(), {.transfers = Transfers::allow});
  CHECK(op::mul(x, 2.0).values() == std::vector<double>(4, 2));
}

TEST_CASE("device: guards may end in any order", "[device]") {
  const std::string outside = here();
  auto first = std::make_unique<Device>("sequential");
  auto second = std::make_unique<Device>(fake_mode());
  first.reset();
  CHECK(here() == "fake");
  {
    const Device third{"vectorized"};
    second.reset();
    CHECK(here() == "vectorized");
  }
  CHECK(here() == outside);
}

TEST_CASE("device: a guard may end in another thread, or after its own", "[device]") {
  const std::string outside = here();
  auto elsewhere = std::make_unique<Device>("sequential");
  std::thread([&] {
    elsewhere.reset();
    CHECK(here() == outside);
  }).join();
  { const Device next(fake_mode()); }
  CHECK(here() == outside);

  std::vector<std::unique_ptr<Device>> kept;
  for (int i = 0; i < 3; ++i) std::thread([&] { kept.push_back(std::make_unique<Device>(fake_mode())); }).join();
  std::thread([&] {
    CHECK(here() == outside);
    const Device own{"sequential"};
    kept.clear();
    CHECK(here() == "sequential");
  }).join();
  CHECK(here() == outside);
}

TEST_CASE("device: an operator that has begun keeps its scope when the default mode changes", "[device]") {
  const DefaultMode restore;
  set_mode("sequential");
  const Scope& begun = current_scope();
  set_mode("vectorized");
  CHECK(here() == "vectorized");
  CHECK(begun.mode->name == "sequential");
  set_mode("sequential");
  CHECK(&current_scope() == &begun);
}

TEST_CASE("device: a scope belongs to its thread", "[device]") {
  const std::string default_name = here();
  const Device fake(fake_mode());
  std::string seen, after;
  std::thread([&] {
    seen = here();
    const Device own{"sequential"};
    after = here();
  }).join();
  CHECK(seen == default_name);
  CHECK(after == "sequential");
  CHECK(here() == "fake");
}

TEST_CASE("device: a worker takes up the scope of another thread", "[device]") {
  const Device outer(fake_mode(), {.transfers = Transfers::forbid, .threads = 5});
  const Scope scope = current_scope();
  std::string seen;
  int threads = 0;
  Transfers policy = Transfers::allow;
  std::thread([&] {
    const Device inherited(scope);
    seen = here();
    threads = current_scope().context.threads;
    policy = current_scope().transfers;
  }).join();
  CHECK(seen == "fake");
  CHECK(threads == 5);
  CHECK(policy == Transfers::forbid);
}

TEST_CASE("device: many threads, each in its own mode", "[device]") {
  fake_mode();
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const std::string name = t % 2 ? "sequential" : "vectorized";
      const Tensor x = full({257}, static_cast<double>(t));
      for (int i = 0; i < 50; ++i) {
        const Device device{name, {.threads = 1}};
        const Tensor sum = op::sum(op::add(x, x));
        wrong[t] += here() != name || sum.item() != 257.0 * 2 * static_cast<double>(t);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(8, 0));
}

TEST_CASE("device: the vectorized mode keeps its threads, whatever the sizes", "[device]") {
  const std::filesystem::path tasks = "/proc/self/task";
  if (!std::filesystem::exists(tasks)) return;  // only Linux tells
  const Device device{"vectorized", {.threads = 4}};
  const auto threads_after = [&](std::int64_t elements) {
    op::relu(ones({elements}));
    std::set<std::string> ids;
    for (const auto& entry : std::filesystem::directory_iterator(tasks)) ids.insert(entry.path().filename());
    return ids;
  };
  const std::set<std::string> before = threads_after(4'000'000);
  CHECK(before.size() >= 4);
  for (const std::int64_t elements : {100'000, 150'000, 200'000, 4'000'000}) CHECK(threads_after(elements) == before);
}

TEST_CASE("device: set_mode is the default of every thread without a guard", "[device]") {
  const DefaultMode restore;
  set_mode("sequential");
  CHECK(here() == "sequential");
  std::string elsewhere;
  std::thread([&] { elsewhere = here(); }).join();
  CHECK(elsewhere == "sequential");
  {
    const Device guard{"vectorized"};
    set_mode("sequential");
    CHECK(here() == "vectorized");
  }
  CHECK(here() == "sequential");
  CHECK_THROWS_AS(set_mode("abacus"), DeviceUnavailable);
  CHECK(here() == "sequential");
  CHECK_THROWS_AS(set_mode("auto"), DeviceUnavailable);
  set_mode("fastest");
  CHECK(here() == fastest_mode());
}

TEST_CASE("device: an unknown mode is named with those there are", "[device]") {
  CHECK_THROWS_WITH(Device{"abacus"}, ContainsSubstring("mode \"abacus\" is unknown") &&
                                          ContainsSubstring("sequential") && ContainsSubstring("vectorized") &&
                                          ContainsSubstring("cuda"));
  CHECK_THROWS_AS(mode(""), DeviceUnavailable);
  CHECK_THROWS_AS(Device{"Sequential"}, DeviceUnavailable);
}

TEST_CASE("device: a tensor changes modes in the middle of a computation", "[device]") {
  Tensor w = ones({4, 4}).set_requires_grad();
  Tensor h;
  {
    const Device device(fake_mode());
    h = op::linear(full({2, 4}, 0.5), w);
  }
  Tensor loss;
  {
    const Device device{"vectorized"};
    h = op::tanh(h);
  }
  {
    const Device device{"sequential"};
    loss = op::sum(h);
  }
  const Device device(second_fake_mode());
  loss.backward();
  const double expected = 2 * 0.5 * (1 - std::tanh(2.0) * std::tanh(2.0));
  for (const double value : w.grad().values()) CHECK(value == Approx(expected));
}

TEST_CASE("device: synchronize returns in every mode", "[device]") {
  for (const char* name : {"sequential", "vectorized"}) {
    Device device{name};
    (void)op::add(ones({2}), ones({2}));
    device.synchronize();
  }
}

TEST_CASE("device: memory statistics", "[device]") {
  host_memory().reset_peak();
  const MemoryStatistics before = memory_statistics("vectorized");
  {
    Tensor x({1 << 20});
    x.fill_(1);
    const MemoryStatistics now = memory_statistics("vectorized");
    CHECK(now.in_use >= before.in_use + (std::size_t{1} << 22));
    CHECK(now.reserved >= now.in_use);
    CHECK(now.peak >= now.in_use);
  }
  CHECK(memory_statistics("vectorized").in_use == before.in_use);
  CHECK(memory_statistics("vectorized").peak >= before.in_use + (std::size_t{1} << 22));
  host_memory().trim();
  CHECK(memory_statistics("vectorized").reserved <= before.reserved + (std::size_t{1} << 22));
}

TEST_CASE("device: a limit of the host's memory", "[device]") {
  host_memory().trim();
  host_memory().set_limit(memory_statistics("sequential").reserved + (1 << 20));
  CHECK_THROWS_AS(zeros({1 << 24}), OutOfMemory);
  CHECK_THROWS_WITH(zeros({1 << 24}), ContainsSubstring("limit"));
  CHECK(ones({3}).values() == std::vector<double>{1, 1, 1});
  host_memory().set_limit(0);
  CHECK(zeros({1 << 24}).numel() == 1 << 24);
}

TEST_CASE("device: what another thread keeps for reuse does not count against the limit", "[device]") {
  std::promise<void> kept, done;
  std::thread other([&] {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 64; ++i) tensors.push_back(ones({8 * 1024}));  // 2 MiB
    tensors.clear();
    kept.set_value();
    done.get_future().wait();
  });
  kept.get_future().wait();
  host_memory().set_limit(memory_statistics("sequential").in_use + (std::size_t{1} << 20));
  CHECK_NOTHROW(ones({128 * 1024}));
  CHECK_THROWS_AS(ones({512 * 1024}), OutOfMemory);
  host_memory().set_limit(0);
  done.set_value();
  other.join();
}
