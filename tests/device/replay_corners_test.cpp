// Steps that are recorded: gradients changed in place, results that are marked, switches, leaves made inside, and what
// meets what is written.

#include "device/replays.hpp"
#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/nn/nn.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

/// Halves the gradient in place, and reads another tensor.
struct Halves : Weight {
  Tensor other = full({2}, 3.0);
  Tensor call(const Tensor& x) override {
    const NoGrad none;
    Tensor gradient = w.grad();
    gradient.copy_(op::mul(gradient, 0.5));
    return op::mul(op::add(x, gradient), other);
  }
};

}  // namespace

TEST_CASE("replay: a gradient that the function changes in place", "[device]") {
  const Both found = both(maker<Halves>(), [](const Function& call, Halves& halves) {
    Values seen;
    for (int i = 0; i < 8; ++i) {
      if (i % 2 == 0) halves.w.set_grad(full({2}, 64.0 + i));  // not the recording's
      append(seen, call(full({2}, i)));
      append(seen, halves.w.grad());
    }
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 5);
}

TEST_CASE("replay: a gradient that is another tensor of the function", "[device]") {
  const Both found = both(maker<Halves>(), [](const Function& call, Halves& halves) {
    Values seen;
    halves.w.set_grad(full({2}, 64.0));
    for (int i = 0; i < 4; ++i) append(seen, call(full({2}, i)));
    halves.w.set_grad(halves.other);
    for (int i = 0; i < 4; ++i) append(seen, call(full({2}, i)));
    append(seen, halves.other);
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 2);
}

TEST_CASE("replay: what somebody made of a result is not the next one's", "[device]") {
  struct Doubles : Weight {
    Tensor call(const Tensor& x) override { return op::mul(x, 2.0); }
  };
  const Both found = both(maker<Doubles>(), [](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 6; ++i) {
      Tensor y = call(full({2}, i));
      seen.push_back(y.requires_grad());
      y.set_requires_grad();
    }
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 4);
}

TEST_CASE("replay: each of several switches is noticed", "[device]") {
  struct Two : Weight {
    nn::Dropout first{0.5}, second{0.5};
    Tensor call(const Tensor& x) override { return op::add(first(x), op::mul(second(x), 10.0)); }
  };
  const Both found = both(maker<Two>(), [](const Function& call, Two& two) {
    manual_seed(4);
    Values seen;
    for (int i = 0; i < 16; ++i) {
      two.first.train(i / 4 != 1);
      two.second.train(i / 4 != 2);
      append(seen, call(full({8}, 1.0 + i)));
    }
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 6);
}

TEST_CASE("replay: a leaf that the function makes", "[device]") {
  struct Inner : Weight {
    Tensor call(const Tensor& x) override {
      const Tensor leaf = op::mul(x, 1.0).detach().set_requires_grad();
      op::sum(op::mul(leaf, leaf)).backward();
      return op::mul(leaf.grad(), 3.0);
    }
  };
  const Both found = both(maker<Inner>(), [](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 6; ++i) append(seen, call(full({2}, i)));
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 4);
  CHECK(found.unrecorded.empty());
}

TEST_CASE("replay: says what it could not record", "[device]") {
  struct Keeps : Weight {
    std::vector<Tensor> kept;
    Tensor call(const Tensor& x) override {
      kept.push_back(op::mul(x, 2.0));
      return op::sum(kept.back());
    }
  };
  struct Late : Weight {
    Tensor target = tensor<float>({1, 2}, {2});
    int calls = 0;
    Tensor call(const Tensor& x) override {
      if (++calls > 1) target.copy_(x);
      return op::mul(x, 2.0);
    }
  };
  const auto program = [](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 6; ++i) append(seen, call(full({2}, i)));
    return seen;
  };
  const Both keeps = both(maker<Keeps>(), program), late = both(maker<Late>(), program);
  CHECK(keeps.stepped == keeps.eager);
  CHECK_THAT(keeps.unrecorded, ContainsSubstring("keeps tensors that it makes"));
  CHECK(late.stepped == late.eager);
  CHECK_THAT(late.unrecorded, ContainsSubstring("did not use in the run before"));
}

TEST_CASE("loop: a row that shares its elements with what is written", "[device]") {
  const Device device(replaying_mode());
  const Tensor rows = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  Tensor total;
  const auto function = [&](const Tensor& x) {
    total.copy_(op::add(total, x));
    return op::sum(x);
  };
  Step step(function);
  Values looped, one_by_one;
  for (const bool loops : {true, false}) {
    Values& seen = loops ? looped : one_by_one;
    Tensor mine = rows.clone();
    total = mine[0];
    for (const Tensor& in : {rows.clone(), rows.clone(), mine}) {
      if (loops)
        append(seen, step.each(in));
      else
        for (const Tensor& row : in) append(seen, function(row));
      append(seen, total);
    }
  }
  CHECK(looped == one_by_one);
}

TEST_CASE("replay: a gradient that somebody holds is copied from then on", "[device]") {
  const Device device(replaying_mode());
  Weight weight;
  int calls = 0;
  Step step([&](const Tensor& x) {
    ++calls;
    return weight.call(x);
  });
  std::vector<Tensor> held;
  for (int i = 0; i < 10; ++i) {
    weight.w.zero_grad();
    step(full({2}, i));
    held.push_back(weight.w.grad());
  }
  CHECK(calls <= 4);  // until a recording with copies was made
  CHECK(step.replays() >= 8);
}
