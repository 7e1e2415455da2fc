#include "tern/optim/optim.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

using Values = std::vector<double>;

/// The gradient of parameter `which` in step t: anything, but always the same.
Values gradient(int which, int t, std::size_t n) {
  Values values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(1.3 * static_cast<double>(i + 1) + 2.1 * t + which);
  return values;
}

Tensor make(const Values& values, DType dtype) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}).to(dtype);
}

struct Reference {
  Values value, momentum, first, second;
};

/// torch.optim.SGD, as its documentation writes it.
void sgd_reference(Reference& p, const Values& gradients, const optim::SgdOptions& o) {
  const bool first = p.momentum.empty();
  if (first) p.momentum.resize(p.value.size());
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    double g = gradients[i] + o.weight_decay * p.value[i];
    if (o.momentum != 0) {
      p.momentum[i] = first ? g : o.momentum * p.momentum[i] + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * p.momentum[i] : p.momentum[i];
    }
    p.value[i] -= o.learning_rate * g;
  }
}

/// torch.optim.Adam and AdamW.
void adam_reference(Reference& p, const Values& gradients, const optim::AdamOptions& o, bool decoupled, int t) {
  p.first.resize(p.value.size());
  p.second.resize(p.value.size());
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    double g = gradients[i];
    if (decoupled) {
      p.value[i] *= 1 - o.learning_rate * o.weight_decay;
    } else {
      g += o.weight_decay * p.value[i];
    }
    p.first[i] = o.beta1 * p.first[i] + (1 - o.beta1) * g;
    p.second[i] = o.beta2 * p.second[i] + (1 - o.beta2) * g * g;
    const double m = p.first[i] / (1 - std::pow(o.beta1, t)), v = p.second[i] / (1 - std::pow(o.beta2, t));
    p.value[i] -= o.learning_rate * m / (std::sqrt(v) + o.epsilon);
  }
}

/// Two parameters, stepped together six times and compared after each step.
template <class Make, class Step>
void compare(DType dtype, Make make_optimizer, Step reference_step) {
  const double tolerance = dtype == DType::float64 ? 1e-12 : 2e-6;
  std::vector<Reference> references{{gradient(7, 0, 5), {}, {}, {}}, {gradient(8, 0, 37), {}, {}, {}}};
  std::vector<Tensor> parameters;
  for (const Reference& reference : references) parameters.push_back(make(reference.value, dtype));
  for (Tensor& parameter : parameters) parameter.set_requires_grad();
  const auto optimizer = make_optimizer(parameters);
  for (int t = 1; t <= 6; ++t) {
    for (int which = 0; which < 2; ++which) {
      const Values gradients = gradient(which, t, references[which].value.size());
      parameters[which].set_grad(make(gradients, dtype));
      reference_step(references[which], gradients, t);
    }
    optimizer->step();
    for (int which = 0; which < 2; ++which) {
      const Values values = parameters[which].values();
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::abs(values[i] - references[which].value[i]) < tolerance);
    }
  }
}

}  // namespace

TEST_CASE("optim: SGD follows torch's formula in every combination of its options, in every mode", "[optim]") {
  for (const ModeStatus& status : modes()) {
    if (!status.available) continue;
    const Device device(status.name);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const double momentum : {0.0, 0.9})
        for (const double dampening : {0.0, 0.3})
          for (const double weight_decay : {0.0, 0.01})
            for (const bool nesterov : {false, true}) {
              if (nesterov && (momentum == 0 || dampening != 0)) continue;
              const optim::SgdOptions options{0.05, momentum, dampening, weight_decay, nesterov};
              INFO(status.name << ' ' << name_of(dtype) << " momentum " << momentum << " dampening " << dampening
                               << " decay " << weight_decay << " nesterov " << nesterov);
              compare(
                  dtype, [&](auto parameters) { return std::make_unique<optim::SGD>(parameters, options); },
                  [&](Reference& p, const Values& gradients, int) { sgd_reference(p, gradients, options); });
            }
  }
}

TEST_CASE("optim: Adam and AdamW follow torch's formulas, in every mode", "[optim]") {
  for (const ModeStatus& status : modes()) {
    if (!status.available) continue;
    const Device device(status.name);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const double weight_decay : {0.0, 0.05})
        for (const double beta1 : {0.9, 0.5}) {
          const optim::AdamOptions adam{.learning_rate = 0.02, .beta1 = beta1, .weight_decay = weight_decay};
          const optim::AdamWOptions adamw{.learning_rate = 0.02, .beta1 = beta1, .weight_decay = weight_decay};
          INFO(status.name << ' ' << name_of(dtype) << " decay " << weight_decay << " beta1 " << beta1);
          compare(
              dtype, [&](auto parameters) { return std::make_unique<optim::Adam>(parameters, adam); },
              [&](Reference& p, const Values& gradients, int t) { adam_reference(p, gradients, adam, false, t); });
          compare(
              dtype, [&](auto parameters) { return std::make_unique<optim::AdamW>(parameters, adamw); },
              [&](Reference& p, const Values& gradients, int t) { adam_reference(p, gradients, adam, true, t); });
        }
  }
}

TEST_CASE("optim: a parameter without a gradient is left alone, and begins when it gets one", "[optim]") {
  const optim::SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5};
  std::vector<Tensor> parameters{ones({2}, DType::float64), ones({2}, DType::float64)};
  for (Tensor& parameter : parameters) parameter.set_requires_grad();
  std::vector<Reference> references{{{1, 1}, {}, {}, {}}, {{1, 1}, {}, {}, {}}};
  optim::SGD sgd(parameters, options);
  sgd.step();
  for (int t = 0; t < 4; ++t) {
    sgd.zero_grad();
    for (int which = 0; which < 2; ++which) {
      if (which == 1 && t < 2) continue;
      parameters[which].set_grad(make(gradient(which, t, 2), DType::float64));
      sgd_reference(references[which], gradient(which, t, 2), options);
    }
    sgd.step();
    for (int which = 0; which < 2; ++which)
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(parameters[which].values()[i] == Approx(references[which].value[i]).epsilon(1e-12));
  }
}

TEST_CASE("optim: a state goes round and the training goes on as if nothing had happened", "[optim]") {
  const auto run = [](auto make_optimizer, bool interrupted) {
    Tensor p = ones({3}, DType::float64);
    p.set_requires_grad();
    auto optimizer = make_optimizer(std::vector<Tensor>{p});
    for (int t = 0; t < 6; ++t) {
      if (t == 2) optimizer->set_learning_rate(0.03);
      if (t == 3 && interrupted) {
        nn::State saved;
        for (const auto& [name, tensor] : optimizer->state()) saved.emplace(name, tensor.clone());
        optimizer = make_optimizer(std::vector<Tensor>{p});
        optimizer->load_state(saved);
        CHECK(optimizer->learning_rate() == 0.03);
      }
      p.set_grad(make(gradient(0, t, 3), DType::float64));
      optimizer->step();
    }
    return p.values();
  };
  const auto sgd = [](const auto& parameters) {
    return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  };
  const auto adam = [](const auto& parameters) {
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = 0.1});
  };
  CHECK(run(sgd, false) == run(sgd, true));
  CHECK(run(adam, false) == run(adam, true));
}

TEST_CASE("optim: a rate that cannot be taken is found before anything is changed", "[optim]") {
  Tensor p = ones({2}).set_requires_grad();
  p.set_grad(ones({2}));
  optim::SGD sgd({p}, {.learning_rate = 0.1, .momentum = 0.9});
  sgd.step();
  const nn::State bad{{"learning_rate", scalar(-1.0)}, {"0.momentum_buffer", full({2}, 100)}};
  CHECK_THROWS_WITH(sgd.load_state(bad), Catch::ContainsSubstring("learning rate is -1"));
  CHECK(sgd.state().at("0.momentum_buffer").values() == Values{1, 1});
  CHECK(sgd.learning_rate() == 0.1);
}

TEST_CASE("optim: a parameter that has not moved yet is a gap in the state, and those behind it are taken up",
          "[optim]") {
  const auto run = [](auto make_optimizer, bool interrupted) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 4; ++i) parameters.push_back(ones({2}, DType::float64).set_requires_grad());
    auto optimizer = make_optimizer(parameters);
    for (int t = 0; t < 6; ++t) {
      if (t == 3 && interrupted) {
        nn::State saved;
        for (const auto& [name, tensor] : optimizer->state()) saved.emplace(name, tensor.clone());
        optimizer = make_optimizer(parameters);
        optimizer->load_state(saved);
        CHECK(optimizer->state().size() == saved.size());
      }
      // The second one has its first gradient after the interruption, the last one never.
      for (int i : {0, 1, 2})
        if (i != 1 || t >= 4)
          parameters[static_cast<std::size_t>(i)].set_grad(make(gradient(i % 2, t, 2), DType::float64));
      optimizer->step();
    }
    Values all;
    for (const Tensor& parameter : parameters)
      for (const double value : parameter.values()) all.push_back(value);
    return all;
  };
  const auto sgd = [](const auto& parameters) {
    return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  };
  const auto adam = [](const auto& parameters) {
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = 0.1});
  };
  CHECK(run(sgd, false) == run(sgd, true));
  CHECK(run(adam, false) == run(adam, true));
}

TEST_CASE("optim: states that do not fit and options that make no sense are refused", "[optim]") {
  Tensor p = ones({3});
  p.set_requires_grad();
  p.set_grad(ones({3}));
  optim::SGD sgd({p}, {.learning_rate = 0.1, .momentum = 0.9});
  CHECK(sgd.state().size() == 1);
  sgd.step();
  nn::State state = sgd.state();
  CHECK(state.at("0.momentum_buffer").values() == Values{1, 1, 1});
  CHECK_THROWS_WITH(optim::SGD({p}).load_state(state), Catch::ContainsSubstring("unexpected: 0.momentum_buffer"));
  state["0.momentum_buffer"] = ones({4});
  CHECK_THROWS_WITH(sgd.load_state(state), Catch::ContainsSubstring("wrong shape: 0.momentum_buffer"));
  CHECK_THROWS_WITH(optim::Adam({p}).load_state(state), Catch::ContainsSubstring("unexpected: 0.momentum_buffer"));

  CHECK_THROWS_AS(optim::SGD({}), Error);
  CHECK_THROWS_AS(optim::SGD({ones({3})}), Error);
  CHECK_THROWS_AS(optim::SGD({p * 2.0}), AutogradError);
  CHECK_THROWS_AS(optim::SGD({p}, {.learning_rate = -1}), Error);
  CHECK_THROWS_AS(optim::SGD({p}, {.momentum = -1}), Error);
  CHECK_THROWS_AS(optim::SGD({p}, {.nesterov = true}), Error);
  CHECK_THROWS_AS(optim::SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), Error);
  CHECK_THROWS_AS(optim::Adam({p}, {.beta1 = 1}), Error);
  CHECK_THROWS_AS(optim::Adam({p}, {.beta2 = 1}), Error);
  Tensor q = ones({3}, DType::float64);
  q.set_requires_grad();
  CHECK_THROWS_AS(optim::AdamW({p, q}), DTypeError);
}

TEST_CASE("optim: schedules", "[optim]") {
  const optim::StepLr step{.step_size = 3, .gamma = 0.5};
  CHECK(step(0) == 1);
  CHECK(step(2) == 1);
  CHECK(step(3) == 0.5);
  CHECK(step(8) == 0.25);
  CHECK_THROWS_AS((optim::StepLr{.step_size = 0}(1)), Error);
  CHECK(optim::ExponentialLr{0.9}(5) == Approx(0.59049));
  const optim::CosineLr cosine{.total = 10, .warmup = 2, .minimum = 0.1};
  CHECK(cosine(0) == Approx(1.0 / 3));
  CHECK(cosine(1) == Approx(2.0 / 3));
  CHECK(cosine(2) == 1);
  CHECK(cosine(6) == Approx(0.55));
  CHECK(cosine(10) == 0.1);
  CHECK(cosine(100) == 0.1);
  CHECK_THROWS_AS((optim::CosineLr{.total = 2, .warmup = 2}(0)), Error);

  Tensor p = ones({1});
  p.set_requires_grad();
  optim::SGD sgd({p}, {.learning_rate = 0.4});
  optim::Scheduler scheduler(sgd, step);
  CHECK(sgd.learning_rate() == 0.4);
  for (int i = 0; i < 4; ++i) scheduler.step();
  CHECK(scheduler.position() == 4);
  CHECK(sgd.learning_rate() == Approx(0.2));
  p.set_grad(ones({1}));
  sgd.step();
  CHECK(p.item() == Approx(0.8));
  scheduler.set_position(0);
  CHECK(sgd.learning_rate() == 0.4);
  optim::Scheduler warm(sgd, [](std::int64_t position) { return position == 0 ? 0.5 : 1.0; });
  CHECK(sgd.learning_rate() == 0.2);
}

TEST_CASE("optim: gradients are clipped by their common norm", "[optim]") {
  std::vector<Tensor> parameters{ones({2}), ones({1}), ones({1})};
  parameters[0].set_grad(tensor({3.0f, 0.0f}));
  parameters[1].set_grad(tensor({4.0f}));
  CHECK(optim::clip_grad_norm(parameters, 10).item() == Approx(5));
  CHECK(parameters[0].grad().values() == Values{3, 0});
  CHECK(optim::clip_grad_norm(parameters, 1).item() == Approx(5));
  CHECK(parameters[0].grad().values()[0] == Approx(0.6));
  CHECK(parameters[1].grad().values()[0] == Approx(0.8));
  CHECK_FALSE(parameters[2].grad().defined());
  CHECK(optim::clip_grad_norm({ones({1})}, 1).item() == 0);
}
