// Where optimisers stand beside torch's: late parameters, two schedules, gradients of two dtypes, copies in a graph.

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

using Values = std::vector<double>;

Tensor parameter(DType dtype = DType::float64) { return Tensor(ones({1}, dtype)).set_requires_grad(); }

}  // namespace

TEST_CASE("semantics: Adam counts the steps of every parameter", "[optim]") {
  // Beside an optimiser for each parameter alone.
  const bool has_gradient[3][6]{{true, true, true, true, true, true},
                                {false, false, true, true, false, true},
                                {true, false, true, true, false, true}};
  std::vector<Tensor> together{parameter(), parameter(), parameter()}, alone{parameter(), parameter(), parameter()};
  const optim::AdamOptions options{.learning_rate = 0.1};
  const auto one_adam = [&] { return std::make_unique<optim::Adam>(together, options); };
  auto adam = one_adam();
  std::vector<std::unique_ptr<optim::Adam>> each;
  for (const Tensor& tensor : alone) each.push_back(std::make_unique<optim::Adam>(std::vector{tensor}, options));
  for (int t = 0; t < 6; ++t) {
    for (std::size_t i = 0; i < 3; ++i) {
      together[i].zero_grad();
      alone[i].zero_grad();
      if (!has_gradient[i][t]) continue;
      const Tensor gradient = full({1}, std::sin(t + 2.0 * static_cast<double>(i)) + 0.1, DType::float64);
      together[i].set_grad(gradient);
      alone[i].set_grad(gradient);
      each[i]->step();
    }
    adam->step();
    for (std::size_t i = 0; i < 3; ++i) CHECK(together[i].item() == alone[i].item());
    if (t == 3) {  // a state goes round
      nn::State saved;
      for (const auto& [name, tensor] : adam->state()) saved.emplace(name, tensor.clone());
      CHECK(saved.at("0.step").item<int>() == 4);
      CHECK(saved.at("1.step").item<int>() == 2);
      CHECK(saved.at("2.step").item<int>() == 3);
      adam = one_adam();
      adam->load_state(saved);
    }
  }
}

TEST_CASE("semantics: a late parameter takes its first step as large as the others did", "[optim]") {
  Tensor early = parameter(), late = parameter();
  optim::Adam adam({early, late}, {.learning_rate = 0.1});
  for (int t = 0; t < 10; ++t) {
    early.set_grad(ones({1}, DType::float64));
    adam.step();
  }
  CHECK(late.item() == 1);
  late.set_grad(ones({1}, DType::float64));
  adam.step();
  CHECK(late.item() == Approx(0.9));
}

TEST_CASE("semantics: Adam reads its states of earlier versions and refuses halves", "[optim]") {
  Tensor p = parameter(), q = parameter();
  optim::Adam adam({p, q});
  const Tensor moment = full({1}, 0.5, DType::float64);
  const nn::State old{{"learning_rate", scalar(0.5)},
                      {"step", full({1}, 7, DType::int64)},
                      {"0.exp_avg", moment},
                      {"0.exp_avg_sq", moment}};
  adam.load_state(old);
  CHECK(adam.state().at("0.step").item<int>() == 7);
  CHECK(!adam.state().contains("1.step"));
  nn::State half = adam.state();
  half.erase("0.step");
  CHECK_THROWS_WITH(adam.load_state(half), Catch::ContainsSubstring("no 0.step"));
  half = adam.state();
  half.emplace("1.step", full({1}, 3, DType::int64));
  CHECK_THROWS_AS(adam.load_state(half), Error);
  half = adam.state();
  half["0.step"] = full({1}, -3, DType::int64);
  CHECK_THROWS_AS(adam.load_state(half), Error);
  CHECK(adam.state().at("0.step").item<int>() == 7);
}

TEST_CASE("semantics: a second scheduler starts where the first one did", "[optim]") {
  Tensor p = parameter();
  optim::SGD sgd({p}, {.learning_rate = 0.8});
  optim::Scheduler first(sgd, [](std::int64_t position) { return position == 0 ? 0.5 : 0.25; });
  CHECK(sgd.learning_rate() == 0.4);
  optim::Scheduler second(sgd, [](std::int64_t) { return 0.5; });
  CHECK(sgd.learning_rate() == 0.4);
  first.step();
  CHECK(sgd.learning_rate() == 0.2);
  second.step();
  CHECK(sgd.learning_rate() == 0.4);
  // A rate that is set is a new start.
  sgd.set_learning_rate(0.1);
  optim::Scheduler third(sgd, [](std::int64_t) { return 0.5; });
  CHECK(sgd.learning_rate() == 0.05);
}

TEST_CASE("semantics: gradients of two dtypes are clipped together", "[optim]") {
  std::vector<Tensor> parameters{ones({1}), ones({1}, DType::float64)};
  parameters[0].set_grad(full({1}, 3));
  parameters[1].set_grad(full({1}, 4, DType::float64));
  const Tensor norm = optim::clip_grad_norm(parameters, 1);
  CHECK(norm.dtype() == DType::float64);
  CHECK(norm.item() == Approx(5));
  CHECK(parameters[0].grad().dtype() == DType::float32);
  CHECK(parameters[0].grad().item() == Approx(0.6));
  CHECK(parameters[1].grad().item() == Approx(0.8));
}

TEST_CASE("semantics: a copy in place does not cut a graph unseen", "[optim]") {
  Tensor w = parameter(), buffer = zeros({1}, DType::float64);
  CHECK_THROWS_WITH(buffer.copy_(w * 2.0), Catch::ContainsSubstring("detach()"));
  CHECK(buffer.item() == 0);
  buffer.copy_((w * 2.0).detach());
  CHECK(buffer.item() == 2);
  const NoGrad no_grad;
  buffer.copy_(w);
  CHECK(buffer.item() == 1);
}
