// Several devices of one mode: "cards:1", and its tensors beside those of "cards".

#include <algorithm>
#include <array>
#include <thread>

#include "modes/registry.hpp"
#include "support/catch.hpp"
#include "support/memories.hpp"
#include "support/training.hpp"
#include "tern/operators/operators.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

/// "cards to cards:1: 2", one for each path that tensors took.
std::vector<std::string> moves() {
  std::vector<std::string> result;
  for (const Transfer& transfer : transfers())
    result.push_back(message(transfer.from, " to ", transfer.to, ": ", transfer.count));
  std::sort(result.begin(), result.end());
  return result;
}

std::string refusal(const std::string& device) {
  try {
    (void)mode(device);
  } catch (const DeviceUnavailable& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("places: a further device of a mode is a mode of its own", "[device][places]") {
  const Mode& first = fake_cards_mode();
  const Mode& second = mode("cards:1");
  CHECK(&second != &first);
  CHECK(&mode("cards:1") == &second);
  CHECK(&mode("cards:01") == &second);
  CHECK(&mode("cards:0") == &first);
  CHECK(second.name == "cards:1");
  CHECK(second.index == 1);
  CHECK(second.memory == &fake_card(1));
  CHECK(second.description == "cards:1, a fake");
  CHECK(first.index == 0);
  CHECK(name_without_index(second) == "cards");
  CHECK(name_without_index(first) == "cards");
  // A mode of one device has the first, too.
  CHECK(&mode("sequential:0") == &mode("sequential"));
}

TEST_CASE("places: a Device takes the number in the name, or as an option", "[device][places]") {
  (void)fake_cards_mode();
  const Device one{"cards:2"};
  CHECK(one.name() == "cards:2");
  CHECK(current_scope().context.memory == &fake_card(2));
  CHECK(Device("cards", {.index = 2}).mode().memory == &fake_card(2));
  CHECK(&Device(mode("cards"), {.index = 3}).mode() == &mode("cards:3"));
  CHECK(&Device("cards", {.index = 0}).mode() == &mode("cards"));
  CHECK(&Device("cards", {.threads = 1}).mode() == &mode("cards"));  // not inherited
  CHECK_THROWS_WITH(Device("cards:1", {.index = 2}), ContainsSubstring("cards:1 is one device"));
  CHECK_THROWS_WITH(Device("cards", {.index = -1}), ContainsSubstring("\"-1\" is not a device number"));
  CHECK_THROWS_AS(Device("sequential", {.index = 1}), DeviceUnavailable);
  {
    const Device checked{"verify:cards:1"};
    CHECK(checked.name() == "cards:1");
    CHECK(current_scope().verify);
    CHECK(op::add(ones({2}), ones({2})).values() == std::vector<double>{2, 2});
  }
  set_mode("cards:4");
  std::thread([] { CHECK(current_scope().context.memory == &fake_card(4)); }).join();
  set_mode("vectorized");
}

TEST_CASE("places: a device that is not there is refused with those that are", "[device][places]") {
  (void)fake_cards_mode();
  CHECK(refusal("cards:7") == "device \"cards:7\": there is no such device; cards has 7, cards:0 to cards:6");
  CHECK(refusal("cards:x") == "device \"cards:x\": \"x\" is not a device number; cards has 7, cards:0 to cards:6");
  CHECK_THAT(refusal("cards:-1"), ContainsSubstring("\"-1\" is not a device number"));
  CHECK_THAT(refusal("cards:"), ContainsSubstring("\"\" is not a device number"));
  CHECK_THAT(refusal("cards:1x"), ContainsSubstring("\"1x\" is not a device number"));
  CHECK_THAT(refusal("cards:99999999999999999999"), ContainsSubstring("is not a device number"));
  CHECK_THAT(refusal("cards:1:0"), ContainsSubstring("cards:1 is one device"));
  CHECK_THAT(refusal("vectorized:1"), ContainsSubstring("vectorized has 1, vectorized:0"));
  CHECK_THAT(refusal("nobody:1"), ContainsSubstring("mode \"nobody\" is unknown"));
  CHECK(refusal("cards:6") == "card 6 is out of order");
  CHECK_THROWS_AS(set_mode("cards:7"), DeviceUnavailable);
}

TEST_CASE("places: every device is listed, but not those that cannot be used", "[device][places]") {
  (void)fake_cards_mode();
  const std::vector<Place> all = devices();
  REQUIRE(all.size() >= 2);
  CHECK(all[0].name == "sequential");
  CHECK(all[0].mode == "sequential");
  CHECK(!all[0].description.empty());
  int cards = 0;
  for (const Place& place : all) {
    INFO(place.name);
    CHECK(mode(place.name).index == place.index);
    if (place.mode != "cards") continue;
    CHECK(place.index == cards++);
    CHECK(place.name == mode(place.name).name);
    CHECK(place.description == mode(place.name).description);
  }
  CHECK(cards == fake_cards - 1);
}

TEST_CASE("places: a mode whose places do not fit it is refused", "[device][places]") {
  Mode copy = fake_cards_mode();
  copy.memory = &fake_memory();
  CHECK_THROWS_WITH(register_mode("other cards", copy), ContainsSubstring("replace Mode::places too"));
  CHECK_THROWS_WITH(register_mode("cards:1", mode("sequential")), ContainsSubstring("colon"));
  // A copy of a further one is a mode of one device.
  const Mode& single = register_mode("third card", mode("cards:2"));
  CHECK(single.memory == &fake_card(2));
  CHECK(single.index == 0);
  CHECK_THAT(refusal("third card:1"), ContainsSubstring("third card has 1"));
  // With all that it takes, a copy has the places as well.
  const Mode& mine = register_mode("my cards", fake_cards_mode());
  CHECK(mode("my cards:3").memory == &fake_card(3));
  CHECK(&mode("my cards:3") != &mode("cards:3"));
  CHECK(mine.memory == &fake_card(0));
}

TEST_CASE("places: a tensor lives in as many as read it, and goes straight from one to the other", "[device][places]") {
  (void)fake_cards_mode();
  Tensor x;
  {
    const Device device{"cards"};
    x = op::add(tensor<float>({1, 2, 3}), ones({3}));
  }
  reset_transfers();
  for (int i = 1; i < 6; ++i) {
    const Device device("cards", {.index = i});
    for (int turn = 0; turn < 3; ++turn) (void)op::neg(x);
    CHECK(x.storage().valid_in(fake_card(i)));
  }
  // One move for each, and nothing by way of the host.
  CHECK(transfers().size() == 5);
  for (const Transfer& transfer : transfers()) CHECK((transfer.count == 1 && transfer.from.starts_with("cards")));
  for (int i = 0; i < 6; ++i) CHECK(x.storage().valid_in(fake_card(i)));
  {
    const Device device{"cards:3"};
    x.fill_(5);
  }
  for (int i = 0; i < 6; ++i) CHECK(x.storage().valid_in(fake_card(i)) == (i == 3));
  reset_transfers();
  {
    const Device device{"cards:5"};
    CHECK(op::mul(x, x).values() == std::vector<double>{25, 25, 25});
  }
  CHECK(moves() == std::vector<std::string>{"cards:3 to cards:5: 1", "cards:5 to host: 1"});
  CHECK(memory_statistics("cards:5").in_use > 0);
  const std::size_t before = memory_statistics("cards:4").in_use;
  x = Tensor();
  CHECK(memory_statistics("cards:4").in_use < before);
}

TEST_CASE("places: where memories have no straight way, bytes go through the host in one move", "[device][places]") {
  for (const auto& [first, second] : {std::pair{"debug:1", "debug:2"}, std::pair{"cards", "debug:1"}}) {
    INFO(first << " to " << second);
    (void)fake_cards_mode();
    Tensor x;
    {
      const Device device(first);
      x = op::add(full({3}, 2), ones({3}));
    }
    reset_transfers();
    const Device device(second);
    const Tensor y = op::neg(x);
    CHECK(moves() == std::vector<std::string>{message(first, " to ", second, ": 1")});
    CHECK(y.values() == std::vector<double>{-3, -3, -3});
  }
}

TEST_CASE("places: a straight move is forbidden and reported as any other", "[device][places]") {
  (void)fake_cards_mode();
  Tensor x;
  {
    const Device device{"cards"};
    x = ones({4});
    (void)op::neg(x);
  }
  static std::string said;
  set_transfer_log([](const std::string& sentence) { said = sentence; });
  const std::int64_t across = fake_card(1).copies_across;
  {
    const Device device{"cards:1", {.transfers = Transfers::forbid}};
    CHECK_THROWS_WITH(op::neg(x), ContainsSubstring("16 bytes would move from cards to cards:1"));
    CHECK(fake_card(1).copies_across == across);
    const Device logged{"cards:1", {.transfers = Transfers::log}};
    (void)op::neg(x);
  }
  set_transfer_log(nullptr);
  CHECK(said == "transfer: 16 bytes from cards to cards:1");
  CHECK(fake_card(1).copies_across == across + 1);
}

TEST_CASE("places: a straight move gets the stream that made the bytes", "[device][places]") {
  (void)fake_cards_mode();
  fake_card(0).streams = fake_card(1).streams = true;
  Tensor x;
  std::uintptr_t maker = 0;
  std::thread([&] {
    const Device device{"cards"};
    maker = reinterpret_cast<std::uintptr_t>(current_scope().context.stream);
    x = op::neg(ones({4}));
  }).join();
  fake_card(1).synchronizations.clear();
  const Device device{"cards:1"};
  const auto own = reinterpret_cast<std::uintptr_t>(current_scope().context.stream);
  (void)op::neg(x);
  CHECK(maker != own);
  CHECK(fake_card(1).synchronizations == std::vector<std::string>{message("across ", maker, " ", own)});
  fake_card(0).streams = fake_card(1).streams = false;
}

TEST_CASE("places: backward runs where forward ran", "[device][places]") {
  (void)fake_cards_mode();
  Tensor w = full({3}, 2.0).set_requires_grad(), loss;
  {
    const Device first{"cards:1"};
    const Tensor y = op::mul(w, w);
    const Device second{"cards:2"};
    loss = op::sum(op::mul(y, full({3}, 3.0)));
  }
  const Device elsewhere{"cards:4"};
  const std::int64_t live = fake_card(4).live;
  loss.backward();
  CHECK(fake_card(4).live == live);
  CHECK(w.grad().values() == std::vector<double>{12, 12, 12});
}

TEST_CASE("places: trainings at once on several devices have the bits that each has alone", "[device][places]") {
  (void)fake_cards_mode();
  for (const auto& devices : {std::vector<std::string>{"cards", "cards:1", "cards:2"}, {"debug", "debug:1"}}) {
    INFO(devices[0]);
    const std::vector<std::vector<double>> together = trained_at_once(devices);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      INFO(devices[i]);
      CHECK(together[i] == trained("sequential", i + 1));
    }
    CHECK(together[0] != together[1]);
  }
}
