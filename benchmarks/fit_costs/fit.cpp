#include "fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tern::benchmarks {

float Sample::best() const {
  return std::min_element(cuts.begin(), cuts.end(), [](const Timed& a, const Timed& b) { return a.time < b.time; })
      ->time;
}

std::vector<double> regrets(const Figures& on, const Costs& costs, const std::vector<const Sample*>& samples) {
  std::vector<double> all;
  for (const Sample* const sample : samples) {
    const Member& member = members()[static_cast<std::size_t>(sample->member)];
    const auto guesses = member.guesses(on, costs, member.cases[static_cast<std::size_t>(sample->number)]);
    const auto chosen = static_cast<int>(std::min_element(guesses.begin(), guesses.end()) - guesses.begin());
    for (const Timed& cut : sample->cuts)
      if (cut.cut == chosen) all.push_back(cut.time / sample->best());
  }
  return all;
}

namespace {

class Fit {
 public:
  Fit(const Figures& on, Costs& costs, const Member& member, const std::vector<const Sample*>& samples)
      : on_(on), costs_(costs), member_(member), samples_(samples) {
    for (const Number& number : member.numbers(costs))
      (number.candidates.empty() ? varied_ : chosen_).push_back(number);
    for (const Number& number : varied_) {
      *number.at = std::max(*number.at, least);
      start_.push_back(*number.at);
    }
    residuals_ = residuals();
  }

  void run() {
    const std::vector<float> before = values();
    const double objective_before = objective();
    for (int round = 0; round < 3; ++round) {
      descend();
      choose();
    }
    descend();
    if (objective() > objective_before) set(before);
    refine();
    // As they will be written.
    for (const Number& number : varied_) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.3g", static_cast<double>(*number.at));
      *number.at = *number.at <= least * 1.5f ? 0 : std::strtof(text.data(), nullptr);
    }
    residuals_ = residuals(0);
  }
  double error() const {
    double weights = 0;
    for (const Sample* const sample : samples_)
      for (const Timed& cut : sample->cuts) weights += weight(*sample) * sample->best() / cut.time;
    return std::sqrt(square(residuals_) / std::max(weights, 1e-9));
  }

 private:
  static constexpr float least = 1e-3f, most = 1e3f;

  static double square(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return sum;
  }

  // With the weight of the term that keeps numbers near their start.
  std::vector<double> residuals(double keeping = 0.05) const {
    std::vector<double> all;
    for (const Sample* const sample : samples_) {
      const auto guesses = member_.guesses(on_, costs_, member_.cases[static_cast<std::size_t>(sample->number)]);
      for (const Timed& cut : sample->cuts)
        all.push_back(std::sqrt(weight(*sample) * sample->best() / cut.time) *
                      std::log(std::max(guesses[static_cast<std::size_t>(cut.cut)], least) / cut.time));
    }
    // What the times say nothing about stays as it was.
    for (std::size_t i = 0; i < varied_.size(); ++i)
      if (keeping > 0) all.push_back(keeping * moved(i));
    return all;
  }

  std::vector<float> values() const {
    std::vector<float> all;
    for (const std::vector<Number>* const numbers : {&varied_, &chosen_})
      for (const Number& number : *numbers) all.push_back(*number.at);
    return all;
  }
  void set(const std::vector<float>& to) {
    std::size_t i = 0;
    for (const std::vector<Number>* const numbers : {&varied_, &chosen_})
      for (const Number& number : *numbers) *number.at = to[i++];
  }

  // What counts in the end: the mean of what the chosen cuts cost, and a little of the error. A cut that was not timed
  // counts as a bad one.
  double objective() const {
    constexpr double untimed = 1.3, of_error = 0.3, of_moves = 3e-4;
    double sum = 0, problems = 0, squares = 0, weights = 0, moves = 0;
    for (std::size_t i = 0; i < varied_.size(); ++i) moves += moved(i) * moved(i);
    for (const Sample* const sample : samples_) {
      const auto guesses = member_.guesses(on_, costs_, member_.cases[static_cast<std::size_t>(sample->number)]);
      const auto chosen = static_cast<int>(std::min_element(guesses.begin(), guesses.end()) - guesses.begin());
      double regret = untimed;
      for (const Timed& cut : sample->cuts) {
        if (cut.cut == chosen) regret = cut.time / sample->best();
        const double error = std::log(std::max(guesses[static_cast<std::size_t>(cut.cut)], least) / cut.time);
        squares += weight(*sample) * sample->best() / cut.time * error * error;
        weights += weight(*sample) * sample->best() / cut.time;
      }
      sum += weight(*sample) * regret;
      problems += weight(*sample);
    }
    return sum / problems + of_error * squares / weights + of_moves * moves;
  }

  // Random steps of a few numbers that make the choices better, smaller ones later.
  void refine() {
    constexpr int turns = 3000;
    std::minstd_rand random(1);
    std::vector<float> best = values();
    double least_objective = objective();
    for (int turn = 0; turn < turns; ++turn) {
      const float size = turn < turns / 2 ? 0.3f : 0.1f;
      std::normal_distribution<float> step(0, size);
      for (const Number& number : varied_)
        if (random() % 6 == 0) *number.at = std::clamp(*number.at * std::exp(step(random)), least, most);
      const double now = objective();
      if (now < least_objective) {
        least_objective = now;
        best = values();
      } else {
        set(best);
      }
    }
  }

  double weight(const Sample& sample) const { return member_.cases[static_cast<std::size_t>(sample.number)].weight; }
  double moved(std::size_t i) const { return std::log(*varied_[i].at / start_[i]); }

  void descend() {
    const std::size_t count = varied_.size();
    double damping = 1e-2;
    for (int turn = 0; turn < 40 && damping < 1e6; ++turn) {
      std::vector<std::vector<double>> slopes;
      for (const Number& number : varied_) {
        const float before = *number.at, step = 0.01f;
        *number.at = before * std::exp(step);
        slopes.push_back(residuals());
        for (std::size_t i = 0; i < residuals_.size(); ++i)
          slopes.back()[i] = (slopes.back()[i] - residuals_[i]) / step;
        *number.at = before;
      }
      std::vector<std::vector<double>> normal(count, std::vector<double>(count + 1));
      for (std::size_t a = 0; a < count; ++a) {
        for (std::size_t b = 0; b < count; ++b)
          for (std::size_t i = 0; i < residuals_.size(); ++i) normal[a][b] += slopes[a][i] * slopes[b][i];
        for (std::size_t i = 0; i < residuals_.size(); ++i) normal[a][count] -= slopes[a][i] * residuals_[i];
      }
      const double before = square(residuals_);
      if (!step_down(normal, damping)) return;
      if (square(residuals_) > before * (1 - 1e-4)) return;
    }
  }

  // Larger damping until a step makes the error smaller.
  bool step_down(const std::vector<std::vector<double>>& normal, double& damping) {
    std::vector<float> start;
    for (const Number& number : varied_) start.push_back(*number.at);
    for (; damping < 1e6; damping *= 4) {
      auto equations = normal;
      for (std::size_t i = 0; i < start.size(); ++i) equations[i][i] += damping * (normal[i][i] + 1e-3);
      const std::vector<double> change = solved(equations);
      for (std::size_t i = 0; i < start.size(); ++i)
        *varied_[i].at =
            std::clamp(start[i] * static_cast<float>(std::exp(std::clamp(change[i], -1.0, 1.0))), least, most);
      std::vector<double> now = residuals();
      if (square(now) < square(residuals_)) {
        residuals_ = std::move(now);
        damping /= 3;
        return true;
      }
      for (std::size_t i = 0; i < start.size(); ++i) *varied_[i].at = start[i];
    }
    return false;
  }

  static std::vector<double> solved(std::vector<std::vector<double>>& rows) {
    const std::size_t count = rows.size();
    for (std::size_t a = 0; a < count; ++a) {
      std::size_t pivot = a;
      for (std::size_t b = a + 1; b < count; ++b)
        if (std::abs(rows[b][a]) > std::abs(rows[pivot][a])) pivot = b;
      std::swap(rows[a], rows[pivot]);
      for (std::size_t b = a + 1; b < count; ++b) {
        const double factor = rows[b][a] / rows[a][a];
        for (std::size_t i = a; i <= count; ++i) rows[b][i] -= factor * rows[a][i];
      }
    }
    std::vector<double> result(count);
    for (std::size_t a = count; a-- > 0;) {
      double rest = rows[a][count];
      for (std::size_t i = a + 1; i < count; ++i) rest -= rows[a][i] * result[i];
      result[a] = rest / rows[a][a];
    }
    return result;
  }

  void choose() {
    for (const Number& number : chosen_) {
      float best = *number.at;
      for (const float candidate : number.candidates) {
        *number.at = candidate;
        std::vector<double> now = residuals();
        if (square(now) >= square(residuals_)) continue;
        residuals_ = std::move(now);
        best = candidate;
      }
      *number.at = best;
    }
  }

  const Figures& on_;
  Costs& costs_;
  const Member& member_;
  const std::vector<const Sample*>& samples_;
  std::vector<Number> varied_, chosen_;
  std::vector<float> start_;  // of those that are varied
  std::vector<double> residuals_;
};

}  // namespace

double fit(const Figures& on, Costs& costs, const Member& member, const std::vector<const Sample*>& samples) {
  Fit fitted(on, costs, member, samples);
  fitted.run();
  return fitted.error();
}

}  // namespace tern::benchmarks
