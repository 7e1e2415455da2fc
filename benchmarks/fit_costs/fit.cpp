#include "fit.hpp"

#include <algorithm>
#include <cmath>

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
    for (const Number& number : varied_) *number.at = std::max(*number.at, least);
    residuals_ = residuals();
  }

  void run() {
    for (int round = 0; round < 3; ++round) {
      descend();
      choose();
    }
    descend();
    for (const Number& number : varied_)
      if (*number.at <= least * 1.5f) *number.at = 0;
  }
  double error() const {
    double weights = 0;
    for (const Sample* const sample : samples_)
      for (const Timed& cut : sample->cuts) weights += sample->best() / cut.time;
    return std::sqrt(square(residuals_) / std::max(weights, 1e-9));
  }

 private:
  static constexpr float least = 1e-3f, most = 1e3f;

  static double square(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return sum;
  }

  std::vector<double> residuals() const {
    std::vector<double> all;
    for (const Sample* const sample : samples_) {
      const auto guesses = member_.guesses(on_, costs_, member_.cases[static_cast<std::size_t>(sample->number)]);
      for (const Timed& cut : sample->cuts)
        all.push_back(std::sqrt(sample->best() / cut.time) *
                      std::log(std::max(guesses[static_cast<std::size_t>(cut.cut)], least) / cut.time));
    }
    return all;
  }

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
  std::vector<double> residuals_;
};

}  // namespace

double fit(const Figures& on, Costs& costs, const Member& member, const std::vector<const Sample*>& samples) {
  Fit fitted(on, costs, member, samples);
  fitted.run();
  return fitted.error();
}

}  // namespace tern::benchmarks
