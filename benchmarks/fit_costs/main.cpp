// The costs by which the cuda mode cuts its own products and small convolutions (src/cuda/tuning/), from measurements.
//   fit_costs measure TIMES [SECONDS]   times the cuts of every member's problems on the first GPU
//   fit_costs fit TIMES HEADER [COMMIT] fits the members and writes the architecture's file; then format it. It begins
//                                       at the file that there is, or, with --from-plain, at the plain rule's costs
//   fit_costs compare TIMES             what the cuts that either rule chooses cost, over the fastest ones
//   fit_costs imitate TIMES             times as the file of the architecture 9.0 predicts them, and noise: for tests
// A member whose fit chooses worse than where it began stays as it was: on problems that it was not fitted to, or on
// layers of the library's networks.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tern/core/error.hpp"
#include "times.hpp"

namespace {

using namespace tern;
using namespace tern::benchmarks;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 1 : sum / static_cast<double>(values.size());
}
double at(std::vector<double> values, double share) {
  if (values.empty()) return 1;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

const Case& case_of(const Sample& sample) {
  return members()[static_cast<std::size_t>(sample.member)].cases[static_cast<std::size_t>(sample.number)];
}

/// Every third problem of a member is left for the test, but none that counts more than others.
std::vector<const Sample*> samples_of(const Times& times, std::size_t member, bool tested) {
  std::vector<const Sample*> found;
  for (const Sample& sample : times.samples)
    if (sample.member == static_cast<int>(member) && (sample.number % 3 == 2 && case_of(sample).weight == 1) == tested)
      found.push_back(&sample);
  return found;
}
std::vector<const Sample*> samples_of(const Times& times, std::size_t member) {
  std::vector<const Sample*> all = samples_of(times, member, false);
  for (const Sample* const sample : samples_of(times, member, true)) all.push_back(sample);
  return all;
}

Costs costs_before(const Figures& on) {
  const Costs* const fitted = cuda::tuning::fitted_costs(on.capability);
  return fitted == nullptr ? cuda::tuning::plain_costs(on) : *fitted;
}

/// Whether no layer of the library's networks gets a cut that is a twentieth slower, or was not timed.
bool keeps_networks(const Figures& on, const Costs& before, const Costs& after,
                    const std::vector<const Sample*>& samples) {
  return std::all_of(samples.begin(), samples.end(), [&](const Sample* sample) {
    if (case_of(*sample).weight == 1) return true;
    const auto first = regrets(on, before, {sample}), then = regrets(on, after, {sample});
    return !then.empty() && (first.empty() || then[0] <= 1.05 * first[0]);
  });
}

void fit_all(const Times& times, const std::string& file, const std::string& commit, bool from_plain) {
  Costs costs = from_plain ? cuda::tuning::plain_costs(times.figures) : costs_before(times.figures);
  const int capability = times.figures.capability;
  std::string comment = message("// Costs of the architecture ", capability / 10, '.', capability % 10,
                                ", fitted to times on ", times.card, commit.empty() ? "" : " at commit " + commit,
                                ".\n// Written by `fit_costs fit`. Columns: costs.cuh.\n"
                                "// Of each member: the error of a time, and the time of a chosen cut over that of the "
                                "fastest one,\n// mean and 90th percentile of problems that it was not fitted to.\n");
  std::printf("%-24s %9s %7s %16s %16s\n", "", "problems", "error", "before", "fitted");
  for (std::size_t i = 0; i < members().size(); ++i) {
    const Member& member = members()[i];
    const auto train = samples_of(times, i, false), test = samples_of(times, i, true);
    if (train.empty() || test.empty()) continue;
    Costs trial = costs;
    const double error = fit(times.figures, trial, member, train);
    const auto before = regrets(times.figures, costs, test), after = regrets(times.figures, trial, test);
    const bool better = mean(after) < mean(before) && after.size() * 10 >= test.size() * 9 &&
                        keeps_networks(times.figures, costs, trial, train);
    std::printf("%-24s %4zu %4zu %6.1f %% %8.3f %7.3f %8.3f %7.3f%s\n", member.name, train.size(), test.size(),
                100 * error, mean(before), at(before, 0.9), mean(after), at(after, 0.9), better ? "" : "  stays");
    if (better) costs = trial;
    char line[120];
    std::snprintf(line, sizeof line, "// %-22s %4.0f %% %6.3f %6.3f%s\n", member.name, 100 * error,
                  mean(better ? after : before), at(better ? after : before, 0.9), better ? "" : ", of an earlier fit");
    comment += line;
  }
  write_costs(file, {message("sm", capability), comment}, costs);
}

void compare(const Times& times) {
  const Costs fitted = costs_before(times.figures), plain = cuda::tuning::plain_costs(times.figures);
  std::printf("%s: the time of the chosen cut over that of the fastest one\n", times.card.c_str());
  std::printf(
      "| member | problems | fitted: mean | 90 %% | worst | plain: mean | 90 %% | worst | plain / fitted: median | "
      "90 %% | worst |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<double> all;
  for (std::size_t i = 0; i < members().size(); ++i) {
    const auto samples = samples_of(times, i);
    const auto one = regrets(times.figures, fitted, samples), two = regrets(times.figures, plain, samples);
    std::vector<double> ratios;
    for (const Sample* const sample : samples) {
      const auto a = regrets(times.figures, fitted, {sample}), b = regrets(times.figures, plain, {sample});
      if (!a.empty() && !b.empty()) ratios.push_back(b[0] / a[0]);
    }
    std::printf("| %s | %zu | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n", members()[i].name,
                ratios.size(), mean(one), at(one, 0.9), at(one, 1), mean(two), at(two, 0.9), at(two, 1),
                at(ratios, 0.5), at(ratios, 0.9), at(ratios, 1));
    all.insert(all.end(), ratios.begin(), ratios.end());
  }
  std::printf("| all | %zu | | | | | | | %.3f | %.3f | %.3f |\n", all.size(), at(all, 0.5), at(all, 0.9), at(all, 1));
}

Times imitation() {
  Times times{.card = "imitated", .figures = cuda::tuning::figures_of(90), .samples = {}};
  times.figures.multiprocessors = 132;
  times.figures.shared_per_block = 227 * 1024;
  times.figures.clusters = true;
  times.figures.clock = 1755;
  const Costs costs = *cuda::tuning::fitted_costs(90), plain = cuda::tuning::plain_costs(times.figures);
  unsigned state = 1;
  for (std::size_t member = 0; member < members().size(); ++member)
    for (std::size_t i = 0; i < members()[member].cases.size(); ++i) {
      Sample sample{.member = static_cast<int>(member), .number = static_cast<int>(i), .cuts = {}};
      const auto guesses = members()[member].guesses(times.figures, costs, members()[member].cases[i]);
      for (const int cut :
           cuts_to_time(guesses, members()[member].guesses(times.figures, plain, members()[member].cases[i]))) {
        state = state * 1664525u + 1013904223u;
        const float noise = 0.98f + 0.04f * static_cast<float>(state >> 8) / (1 << 24);
        sample.cuts.push_back({cut, guesses[static_cast<std::size_t>(cut)] * noise});
      }
      times.samples.push_back(std::move(sample));
    }
  return times;
}

int run(std::vector<std::string> words) {
  const bool from_plain = std::erase(words, "--from-plain") != 0;
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "measure" && (words.size() == 2 || words.size() == 3))
    write_times(words[1], measure(words.size() == 3 ? std::atof(words[2].c_str()) : 120));
  else if (verb == "fit" && (words.size() == 3 || words.size() == 4))
    fit_all(read_times(words[1]), words[2], words.size() == 4 ? words[3] : "", from_plain);
  else if (verb == "compare" && words.size() == 2)
    compare(read_times(words[1]));
  else if (verb == "imitate" && words.size() == 2)
    write_times(words[1], imitation());
  else
    return std::fprintf(
               stderr,
               "usage: fit_costs measure TIMES [SECONDS] | fit TIMES HEADER [COMMIT] [--from-plain] | compare TIMES | "
               "imitate TIMES\n"),
           2;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
