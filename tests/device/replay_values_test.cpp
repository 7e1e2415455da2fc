// Steps that are recorded and replayed on a device without a device see what their functions see.

#include <thread>

#include "device/replays.hpp"
#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/nn/nn.hpp"
#include "tern/run/branches.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

TEST_CASE("replay: zero_grad and the optimiser may stand outside", "[device]") {
  const Both found = both(maker<Weight>(), [](const Function& call, Weight& weight) {
    Values seen;
    for (int i = 0; i < 8; ++i) {
      weight.sgd.zero_grad();
      seen.push_back(call(ones({2})).item());
      weight.sgd.step();
    }
    append(seen, weight.w);
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays == 7);
  CHECK(found.unrecorded.empty());
}

TEST_CASE("replay: gradients add up over calls and micro-batches", "[device]") {
  const Both adds = both(maker<Weight>(), [](const Function& call, Weight& weight) {
    Values seen;
    for (int i = 0; i < 7; ++i) {
      call(full({2}, i));
      append(seen, weight.w.grad());
    }
    return seen;
  });
  CHECK(adds.stepped == adds.eager);
  CHECK(adds.replays == 5);
  const Both batches = both(maker<Weight>(), [](const Function& call, Weight& weight) {
    Values seen;
    for (int i = 0; i < 6; ++i) {
      weight.sgd.zero_grad();
      for (int part = 0; part < 3; ++part) call(full({2}, part + 0.5 * i));
      weight.sgd.step();
      append(seen, weight.w);
    }
    return seen;
  });
  CHECK(batches.stepped == batches.eager);
  CHECK(batches.replays == 16);
}

TEST_CASE("replay: a gradient that somebody holds stays as it is", "[device]") {
  const Both found = both(maker<Weight>(), [](const Function& call, Weight& weight) {
    std::vector<Tensor> held;
    for (int i = 0; i < 6; ++i) {
      weight.w.zero_grad();
      call(full({2}, i));
      held.push_back(i % 2 == 0 ? weight.w.grad() : weight.w.grad().slice(0, 0, 1));
    }
    Values seen;
    for (const Tensor& gradient : held) append(seen, gradient);
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays > 2);
}

TEST_CASE("replay: another view of the same storage is another input", "[device]") {
  struct Doubles : Weight {
    Tensor call(const Tensor& x) override { return op::mul(x, 2.0); }
  };
  const Both found = both(maker<Doubles>(), [](const Function& call, Weight&) {
    const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
    Values seen;
    for (int i = 0; i < 12; ++i) {
      const std::vector<Tensor> views{x, x.transpose(0, 1), x.slice(0, 1, 2).expand({3, 3}), x.slice(1, 0, 3, 2)};
      append(seen, call(views[static_cast<std::size_t>(i) % 4]));
    }
    append(seen, x);
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays == 8);
}

TEST_CASE("replay: a recorded input has the strides of the one it stands for", "[device]") {
  const Device device(testing::replaying_mode());
  std::vector<Shape> seen;
  Step step([&](const Tensor& x) {
    seen.push_back(x.strides());
    return op::mul(x, 2.0);
  });
  const Tensor x = ones({2, 5, 5, 3}).permute({0, 3, 1, 2});
  for (int i = 0; i < 3; ++i) step(x);
  CHECK(seen == std::vector<Shape>(2, x.strides()));
  CHECK(step.replays() == 2);
}

TEST_CASE("replay: the gradient of an input", "[device]") {
  const auto program = [](bool fresh) {
    return [fresh](const Function& call, Weight& weight) {
      Values seen;
      Tensor x = full({2}, 3.0).set_requires_grad();
      for (int i = 0; i < 7; ++i) {
        if (fresh) x = full({2}, i).set_requires_grad();
        if (i % 3 == 0) x.zero_grad();
        weight.w.zero_grad();
        weight.w.detach().fill_(i + 1);
        seen.push_back(call(x).item());
        append(seen, x.grad());
        append(seen, weight.w.grad());
      }
      return seen;
    };
  };
  for (const bool fresh : {true, false}) {
    const Both found = both(maker<Weight>(), program(fresh));
    CHECK(found.stepped == found.eager);
    CHECK(found.replays >= 4);
  }
  const Both graph = both(maker<Weight>(), [](const Function& call, Weight& weight) {
    Values seen;
    Tensor v = full({2}, 2.0).set_requires_grad();
    for (int i = 0; i < 4; ++i) {
      weight.w.zero_grad();
      seen.push_back(call(op::mul(v, 3.0)).item());
      append(seen, v.grad());
    }
    return seen;
  });
  CHECK(graph.stepped == graph.eager);
  CHECK(graph.replays == 0);
  CHECK_THAT(graph.unrecorded, ContainsSubstring("input 0 is the result of recorded operators"));
}

TEST_CASE("replay: an optimiser's state is loaded, with and without moments", "[device]") {
  struct Momentum : Weight {
    optim::SGD momentum{{w}, {.learning_rate = 0.1, .momentum = 0.9}};
    Tensor call(const Tensor& x) override {
      momentum.zero_grad();
      Tensor loss = square_loss(w, x);
      loss.backward();
      momentum.step();
      return loss;
    }
  };
  const Both found = both(maker<Momentum>(), [](const Function& call, Momentum& made) {
    const auto copy = [&] {
      nn::State state;
      for (const auto& [name, tensor] : made.momentum.state()) state.emplace(name, tensor.clone());
      return state;
    };
    Values seen;
    const nn::State empty = copy();
    for (int i = 0; i < 4; ++i) seen.push_back(call(ones({2})).item());
    const nn::State moved = copy();
    for (const nn::State* state : {&empty, &moved, &empty}) {
      made.momentum.load_state(*state);
      for (int i = 0; i < 5; ++i) seen.push_back(call(ones({2})).item());
      seen.push_back(static_cast<double>(made.momentum.state().size()));
    }
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays > 8);
}

TEST_CASE("replay: random numbers follow the generator", "[device]") {
  struct Drops : Weight {
    Tensor call(const Tensor& x) override { return op::dropout(x, 0.5, true); }
  };
  const Tensor x = ones({16});
  const Both seeds = both(maker<Drops>(), [&](const Function& call, Weight&) {
    Values seen;
    for (const std::uint64_t seed : {1, 7, 7, 1}) {
      manual_seed(seed);
      for (int i = 0; i < 4; ++i) append(seen, call(x));
      default_generator().skip(3);
      append(seen, call(x));
      seen.push_back(static_cast<double>(default_generator().position()));
    }
    return seen;
  });
  CHECK(seeds.stepped == seeds.eager);
  CHECK(seeds.replays > 8);
  const Both threads = both(maker<Drops>(), [&](const Function& call, Weight&) {
    Values seen;
    const auto several = [&] {
      const Device device(testing::replaying_mode());
      manual_seed(3);
      for (int i = 0; i < 4; ++i) append(seen, call(x));
    };
    std::thread(several).join();
    several();
    std::thread(several).join();
    return seen;
  });
  CHECK(threads.stepped == threads.eager);
  CHECK(threads.replays > 3);
  struct Own : Weight {
    Tensor call(const Tensor& x) override {
      Generator generator(3);
      return op::dropout(x, 0.5, true, generator);
    }
  };
  const Both own = both(maker<Own>(), [&](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 5; ++i) append(seen, call(x));
    return seen;
  });
  CHECK(own.stepped == own.eager);
  CHECK(own.replays == 4);
  struct Reseeds : Weight {
    Tensor call(const Tensor& x) override {
      manual_seed(5);
      return op::dropout(x, 0.5, true);
    }
  };
  const Both reseeds = both(maker<Reseeds>(), [&](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 5; ++i) {
      append(seen, call(x));
      default_generator().next();
    }
    return seen;
  });
  CHECK(reseeds.stepped == reseeds.eager);
  CHECK_THAT(reseeds.unrecorded, ContainsSubstring("the seed"));
  struct Rolls : Weight {
    Tensor call(const Tensor& x) override { return op::mul(x, rand({1}, default_generator()).item()); }
  };
  const Both rolls = both(maker<Rolls>(), [&](const Function& call, Weight&) {
    manual_seed(2);
    Values seen;
    for (int i = 0; i < 5; ++i) append(seen, call(x));
    return seen;
  });
  CHECK(rolls.stepped == rolls.eager);
}

TEST_CASE("replay: what a function does to its input happens to the caller's", "[device]") {
  struct Grows : Weight {
    Tensor call(const Tensor& x) override {
      Tensor(x).copy_(op::mul(x, 2.0));
      return op::mul(x, 1.0);
    }
  };
  const Both found = both(maker<Grows>(), [](const Function& call, Weight&) {
    Values seen;
    Tensor x = ones({3, 4});
    Tensor part = x.slice(1, 1, 3);
    for (int i = 0; i < 5; ++i) {
      append(seen, call(x));
      append(seen, call(part));
      append(seen, x);
    }
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays == 8);
  struct Hands : Weight {
    Tensor call(const Tensor& x) override { return x.transpose(0, 1); }
  };
  const Both same = both(maker<Hands>(), [](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 4; ++i) {
      Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
      const Tensor y = call(x);
      x.write<float>()[1] = 9;
      append(seen, y);
    }
    return seen;
  });
  CHECK(same.stepped == same.eager);
}

TEST_CASE("replay: results stay", "[device]") {
  struct Doubles : Weight {
    Tensor call(const Tensor& x) override { return op::mul(x, 2.0); }
  };
  const Both kept = both(maker<Doubles>(), [](const Function& call, Weight&) {
    std::vector<Tensor> results;
    for (int i = 0; i < 6; ++i) results.push_back(call(full({2}, i)));
    Values seen;
    for (const Tensor& result : results) append(seen, result);
    return seen;
  });
  CHECK(kept.stepped == kept.eager);
  CHECK(kept.replays == 5);
  const Both chained = both(maker<Doubles>(), [](const Function& call, Weight&) {
    Tensor y = ones({2});
    for (int i = 0; i < 6; ++i) y = call(y);
    return y.values();
  });
  CHECK(chained.stepped == chained.eager);
}

TEST_CASE("replay: nothing is copied while nobody holds a result", "[device]") {
  const Device device(testing::replaying_mode());
  Step step([](const Tensor& x) { return op::mul(x, 2.0); });
  const Tensor x = ones({1000});
  const Storage* known = nullptr;
  for (int i = 0; i < 6; ++i) {
    const Tensor y = step(x);
    if (i > 1) CHECK(&y.storage() == known);
    known = &y.storage();
  }
}

TEST_CASE("replay: what the host writes for each call goes to the recording alone", "[device]") {
  const Device device(testing::replaying_mode());
  const Memory& memory = *current_scope().mode->memory;
  Step step([](const Tensor& x) { return op::mul(x, 2.0); });
  Tensor x = ones({4, 3});
  for (int i = 0; i < 6; ++i) {
    const std::span<float> values = x.write<float>();
    for (std::size_t at = 0; at < 12; ++at) values[at] = static_cast<float>(100 * i) + static_cast<float>(at);
    // Rows from the middle on are another input, with a recording of its own.
    const bool part = i % 2 == 1;
    const Tensor row = x.slice(0, 1, 3);
    const std::vector<double> doubled = step(part ? row : x).values();
    std::vector<double> expected = (part ? row : x).values();
    for (double& value : expected) value *= 2;
    CHECK(doubled == expected);
    if (i > 3) CHECK(x.storage().valid_in(memory) == memory.host_accessible());
  }
  CHECK(step.replays() == 4);
  CHECK(op::sum(x).values() == std::vector<double>{12 * 500 + 66});
  CHECK(step(x).values()[11] == 1022);
}

TEST_CASE("replay: a result has no graph, in any mode", "[device]") {
  for (const char* name : {"sequential", "vectorized", "replaying"}) {
    const Device device(std::string(name) == "replaying" ? testing::replaying_mode() : mode(name));
    Tensor w = ones({2}).set_requires_grad();
    Step step([&](const Tensor& x) { return op::sum(op::mul(x, w)); });
    for (int i = 0; i < 4; ++i) {
      const Tensor loss = step(ones({2}));
      CHECK(!loss.requires_grad());
      CHECK_THROWS_AS(loss.backward(), AutogradError);
    }
  }
}

TEST_CASE("replay: metrics, statistics and the branches of a step", "[device]") {
  struct Net : Weight {
    nn::BatchNorm2d norm{3};
    nn::Mean mean;
    Tensor call(const Tensor& x) override {
      const std::vector<Tensor> parts =
          branches({[&] { return op::sum(op::mul(x, x)); }, [&] { return op::sum(norm(x)); },
                    [&] { return op::mean(op::exp(x)); }});
      Tensor sum = op::add(op::sub(parts[0], parts[1]), parts[2]);
      mean.update(sum);
      return sum;
    }
  };
  const Both found = both(maker<Net>(), [](const Function& call, Net& net) {
    Generator generator(3);
    Values seen;
    for (int i = 0; i < 5; ++i) seen.push_back(call(randn({2, 3, 4, 4}, generator)).item());
    for (const auto& [name, tensor] : net.norm.state()) append(seen, tensor);
    seen.push_back(net.mean.value());
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays == 4);
}
