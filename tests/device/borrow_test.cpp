// A mode that computes a few operators in a memory of its own and borrows all others.

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

testing::FakeMemory& card() {
  static testing::FakeMemory memory("card");
  return memory;
}

int products = 0;

const Mode& card_mode() {
  static constexpr const char* own[] = {"linear", "linear backward", "copy", "cast"};
  static const Mode& mode = []() -> const Mode& {
    Mode mine = borrowing_mode("card", "two operators", card(), "sequential");
    mine.operators.dot.linear =
        +[](Context& c, float* y, const float* x, const float* w, const float* b, const kernels::Linear& s) {
          ++products;
          tern::mode("sequential").operators.dot.linear(c, y, x, w, b, s);
        };
    mine.operators.dot.linear_backward = tern::mode("sequential").operators.dot.linear_backward;
    mine.movement.copy = tern::mode("sequential").movement.copy;
    mine.own = own;
    return register_mode("card", mine);
  }();
  return mode;
}

std::string mode_of(const ProfileTable& table, const std::string& name, bool backward) {
  for (const ProfileRow& row : table.rows)
    if (row.name == name && row.backward == backward && !row.transfer) return row.mode;
  return "";
}

}  // namespace

TEST_CASE("borrow: every operator runs where the mode says, and results are the fallback's", "[borrow]") {
  const auto train = [](const Mode& mode) {
    const Device device(mode);
    manual_seed(2);
    models::LeNet net{/*seed=*/1};
    Generator generator(3);
    const Tensor x = rand({4, 1, 28, 28}, generator), y = randint(0, 10, {4}, generator);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      net.loss(x, y).backward();
      sgd.step();
    }
    return net.loss(x, y).item();
  };
  products = 0;
  const Profile profile;
  const double borrowed = train(card_mode());
  const ProfileTable table = profile.table();
  CHECK(borrowed == train(mode("sequential")));
  CHECK(products == 8);
  CHECK(mode_of(table, "linear", false) == "card");
  CHECK(mode_of(table, "linear", true) == "card");
  for (const auto& [name, backward] :
       {std::pair("conv2d", false), {"conv2d", true}, {"max_pool2d", false}, {"cross_entropy", false}, {"sgd", false}})
    CHECK(mode_of(table, name, backward) == "sequential");
  CHECK(card().live == 0);
}

TEST_CASE("borrow: what the fallback computes on the host is checked as there", "[borrow]") {
  const Device device(card_mode());
  const Tensor logits = zeros({2, 3}), labels = tensor({std::int64_t{0}, std::int64_t{3}});
  CHECK_THROWS_AS(op::cross_entropy(logits, labels), NumericError);
}

TEST_CASE("borrow: an operator that a mode calls its own needs a kernel", "[borrow]") {
  const Device device(card_mode());
  CHECK_THROWS_WITH(zeros({2}).to(DType::float64), ContainsSubstring("has no kernel for it"));
}

TEST_CASE("borrow: chains, unknown fallbacks and operators without a fallback are refused", "[borrow]") {
  card_mode();
  CHECK_THROWS_WITH(register_mode("second", borrowing_mode("second", "", card(), "card")),
                    ContainsSubstring("has a fallback itself"));
  CHECK_THROWS_AS(register_mode("third", borrowing_mode("third", "", card(), "nobody")), DeviceUnavailable);
  static constexpr const char* own[] = {"linear"};
  Mode lonely = mode("sequential");
  lonely.own = own;
  CHECK_THROWS_WITH(register_mode("lonely", lonely), ContainsSubstring("no inner mode"));
}
