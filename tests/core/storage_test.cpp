#include "tern/tensor/storage.hpp"

#include <thread>
#include <utility>

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

std::int64_t moves(const std::string& from, const std::string& to) {
  for (const Transfer& transfer : transfers())
    if (transfer.from == from && transfer.to == to) return transfer.count;
  return 0;
}
std::int64_t all_moves() {
  std::int64_t sum = 0;
  for (const Transfer& transfer : transfers()) sum += transfer.count;
  return sum;
}

std::vector<std::string>& sentences() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

TEST_CASE("storage: bytes move once, when they are needed", "[core][transfers]") {
  const Tensor a = tensor<float>({1, 2, 3}), b = tensor<float>({10, 20, 30});
  reset_transfers();
  Tensor sum;
  {
    const Device fake(fake_mode());
    sum = op::add(a, b);
    CHECK(moves("host", "fake") == 2);
    sum = op::add(op::mul(sum, a), b);
    CHECK(moves("host", "fake") == 2);
    CHECK(all_moves() == 2);
    CHECK(a.storage().valid_in(fake_memory()));
    CHECK(a.storage().valid_in(host_memory()));
    CHECK(!sum.storage().valid_in(host_memory()));
  }
  CHECK(sum.values() == std::vector<double>{21, 64, 129});
  CHECK(moves("fake", "host") == 1);
  (void)sum.values();
  (void)op::add(sum, sum);
  CHECK(all_moves() == 3);
  const std::vector<Transfer> ledger = transfers();
  for (const Transfer& transfer : ledger) CHECK(transfer.bytes == 12 * transfer.count);
  reset_transfers();
  CHECK(transfers().empty());
}

TEST_CASE("storage: a write makes the other copies stale", "[core][transfers]") {
  Tensor x = ones({4});
  {
    const Device fake(fake_mode());
    (void)op::add(x, x);
  }
  CHECK(x.storage().valid_in(fake_memory()));
  x.write<float>()[0] = 5;
  CHECK(!x.storage().valid_in(fake_memory()));
  CHECK(x.storage().valid_in(host_memory()));
  {
    const Device fake(fake_mode());
    CHECK(op::add(x, x).values() == std::vector<double>{10, 2, 2, 2});
    x.slice(0, 1, 2).fill_(7);
    CHECK(!x.storage().valid_in(host_memory()));
  }
  CHECK(x.values() == std::vector<double>{5, 7, 1, 1});
  x.fill_(0);
  CHECK(!x.storage().valid_in(fake_memory()));
}

TEST_CASE("storage: a copy into a part keeps the rest", "[core][transfers]") {
  const Tensor x = tensor<float>({1, 2, 3, 4}), one = full({1}, 9.0);
  {
    const Device fake(fake_mode());
    x.slice(0, 1, 2).copy_(one);
  }
  CHECK(x.values() == std::vector<double>{1, 9, 3, 4});
}

TEST_CASE("storage: what is overwritten whole does not move", "[core][transfers]") {
  Tensor x = ones({4});
  reset_transfers();
  {
    const Device fake(fake_mode());
    x.fill_(3);
    CHECK(all_moves() == 0);
    CHECK(op::add(x, x).values() == std::vector<double>{6, 6, 6, 6});
  }
  const Tensor y = full({4}, 2);
  reset_transfers();
  {
    const Device fake(fake_mode());
    x.copy_(y);
    CHECK(moves("host", "fake") == 1);
    CHECK(all_moves() == 1);
  }
}

TEST_CASE("storage: between two devices the host stands in the middle", "[core][transfers]") {
  const Tensor x = ones({4});
  Tensor y;
  {
    const Device fake(fake_mode());
    y = op::add(x, x);
  }
  reset_transfers();
  {
    const Device other(second_fake_mode());
    y = op::mul(y, y);
  }
  CHECK(moves("fake", "fake2") == 1);
  CHECK(all_moves() == 1);
  CHECK(y.values() == std::vector<double>{4, 4, 4, 4});
}

TEST_CASE("storage: forbidden transfers throw and leave everything as it was", "[core][transfers]") {
  const Tensor x = ones({4});
  reset_transfers();
  {
    const Device fake(fake_mode(), {.transfers = Transfers::forbid});
    CHECK_THROWS_AS(op::add(x, x), TransferError);
    CHECK_THROWS_WITH(op::add(x, x), ContainsSubstring("16 bytes") && ContainsSubstring("from host to fake"));
    CHECK(all_moves() == 0);
    Tensor made_here({4});
    made_here.fill_(2);
    const Tensor sum = op::add(made_here, made_here);
    CHECK_THROWS_AS(sum.values(), TransferError);
    {
      const Device allowed(fake_mode(), {.transfers = Transfers::allow});
      CHECK(sum.values() == std::vector<double>{4, 4, 4, 4});
    }
  }
  CHECK(x.values() == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("storage: logged transfers report one sentence each", "[core][transfers]") {
  sentences().clear();
  set_transfer_log([](const std::string& sentence) { sentences().push_back(sentence); });
  const Tensor x = ones({4});
  {
    const Device quiet(fake_mode());
    (void)op::add(x, ones({4}));
  }
  CHECK(sentences().empty());
  const Tensor y = ones({4}, DType::float64);
  {
    const Device loud(fake_mode(), {.transfers = Transfers::log});
    (void)op::add(y, y).values();
  }
  set_transfer_log(nullptr);
  CHECK(sentences() ==
        std::vector<std::string>{"transfer: 32 bytes from host to fake", "transfer: 32 bytes from fake to host"});
}

TEST_CASE("storage: host modes share the host's memory", "[core][transfers]") {
  const Tensor x = ones({4});
  reset_transfers();
  Tensor y;
  {
    const Device device{"sequential"};
    y = op::add(x, x);
  }
  {
    const Device device{"vectorized", {.transfers = Transfers::forbid}};
    y = op::add(y, x);
  }
  CHECK(y.values() == std::vector<double>{3, 3, 3, 3});
  CHECK(all_moves() == 0);
}

TEST_CASE("storage: backward on a device moves nothing but what the host gave and asks for", "[core][transfers]") {
  Tensor w = ones({3, 4}).set_requires_grad();
  const Tensor x = ones({2, 4});
  reset_transfers();
  {
    const Device fake(fake_mode());
    Tensor loss = op::mean(op::relu(op::linear(x, w)));
    loss.backward();
    CHECK(moves("host", "fake") == 2);
    CHECK(moves("fake", "host") == 0);
    CHECK(w.grad().storage().valid_in(fake_memory()));
  }
  CHECK(w.grad().to_vector<float>() == std::vector<float>(12, 1.0f / 3));
}

TEST_CASE("storage: a device that is full is OutOfMemory, and work goes on", "[core][transfers]") {
  const Tensor x = ones({1000});
  fake_memory().set_limit(fake_memory().in_use + 1024);
  {
    const Device fake(fake_mode());
    CHECK_THROWS_AS(op::add(x, x), OutOfMemory);
    Tensor small({8});
    small.fill_(1);
    CHECK(op::add(small, small).values() == std::vector<double>(8, 2));
  }
  fake_memory().set_limit(0);
  const Device fake(fake_mode());
  CHECK(op::sum(op::add(x, x)).item() == 2000);
}

TEST_CASE("storage: nothing is left when the tensors are gone", "[core][transfers]") {
  const std::int64_t before = fake_memory().live;
  {
    const Device fake(fake_mode());
    Tensor w = ones({5, 4}).set_requires_grad();
    op::cross_entropy(op::linear(ones({3, 4}), w), zeros({3}, DType::int64)).backward();
    CHECK(fake_memory().live > before);
  }
  CHECK(fake_memory().live == before);
}

TEST_CASE("storage: nothing is allocated for no bytes", "[core]") {
  const std::int64_t before = fake_memory().live;
  const Device fake(fake_mode());
  const Tensor x = op::add(zeros({0, 3}), zeros({0, 3}));
  CHECK(x.numel() == 0);
  CHECK(x.values().empty());
  CHECK(fake_memory().live == before);
  // A write of nothing is one all the same, a read is none.
  Tensor none = zeros({0, 3});
  const std::uint64_t version = none.storage().version();
  none.read<float>();
  CHECK(none.storage().version() == version);
  none.write<float>();
  CHECK(none.storage().version() == version + 1);
}

TEST_CASE("storage: many threads may read at once", "[core][transfers]") {
  const Tensor x = arange(0, 1000, 1, DType::float32);
  reset_transfers();
  const Mode& fake = fake_mode();
  const Mode& sequential = mode("sequential");
  std::vector<std::thread> threads;
  std::vector<double> sums(8);
  for (std::size_t i = 0; i < sums.size(); ++i)
    threads.emplace_back([&, i] {
      const Device device(i % 2 ? sequential : fake);
      (void)x.storage().read(current_scope());
      sums[i] = x.values()[999];
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(sums == std::vector<double>(8, 999));
  CHECK(moves("host", "fake") == 1);
}

TEST_CASE("storage: streams wait for each other where they must, and only there", "[core]") {
  FakeMemory& memory = fake_memory();
  memory.streams = true;
  {
    const Device fake(fake_mode());
    const auto id = [](void* stream) { return message(reinterpret_cast<std::uintptr_t>(stream)); };
    const std::string here = id(memory.stream());
    Tensor x = op::neg(ones({4}));
    // Reads x on a new thread, and so on a new stream, whose number it returns.
    const auto read_elsewhere = [&] {
      std::string there;
      std::thread([&] {
        const Device same(fake_mode());
        there = id(memory.stream());
        (void)x.storage().read(current_scope());
      }).join();
      return there;
    };
    const auto read_here = [&] { (void)x.storage().read(current_scope()); };
    const auto synchronizations = [&] { return std::exchange(memory.synchronizations, {}); };
    using Synchronizations = std::vector<std::string>;
    (void)synchronizations();
    read_here();
    x.fill_(1);
    CHECK(synchronizations().empty());
    // Handed over: the first other reader waits on the device, a second one on the host, later ones not at all.
    const std::string first = read_elsewhere();
    CHECK(synchronizations() == Synchronizations{"order " + here + " " + first});
    (void)read_elsewhere();
    CHECK(synchronizations() == Synchronizations{"finish " + first});
    (void)read_elsewhere();
    read_here();
    CHECK(synchronizations().empty());
    // Who writes waits for all of them, once.
    x.fill_(2);
    CHECK(synchronizations() == Synchronizations{"finish all"});
    x.fill_(3);
    CHECK(synchronizations().empty());
    // A batch that one thread made and another one read is given back without a wait of the host.
    const std::string again = read_elsewhere();
    x.fill_(4);
    CHECK(synchronizations() == Synchronizations{"order " + here + " " + again, "order " + again + " " + here});
    (void)read_elsewhere();
    (void)synchronizations();
    x = Tensor();
    CHECK(synchronizations().empty());
    // What many share is not given back under their hands.
    x = op::neg(ones({4}));
    (void)read_elsewhere();
    (void)read_elsewhere();
    (void)synchronizations();
    x = Tensor();
    CHECK(synchronizations() == Synchronizations{"finish all"});
    // Of two that read at once, one of them the maker, the maker leaves no trace: a writer waits for it all the same.
    x = op::neg(ones({4}));
    const std::string reader = read_elsewhere();
    (void)synchronizations();
    std::string writer;
    std::thread([&] {
      const Device same(fake_mode());
      writer = id(memory.stream());
      (void)x.storage().write(current_scope());
    }).join();
    CHECK(synchronizations() == Synchronizations{"order " + here + " " + writer, "order " + reader + " " + writer});
    // And so does who gives back what was not allocated for the writer.
    (void)read_elsewhere();
    (void)synchronizations();
    x = Tensor();
    CHECK(synchronizations() == Synchronizations{"finish " + writer});
  }
  memory.streams = false;
  memory.synchronizations.clear();
}

TEST_CASE("storage: a bad label on a device is the kernel's to report", "[core]") {
  const Device fake(fake_mode());
  // Host modes check labels before the kernel runs; this device cannot, and its loss says so by NaN.
  const Tensor loss = op::cross_entropy(zeros({2, 3}), tensor<std::int64_t>({0, 7}));
  CHECK(std::isnan(loss.item()));
}
