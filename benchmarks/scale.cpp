// Data parallel training on several devices of this machine, a thread for each: weak scaling (a batch per device),
// strong scaling (a batch for all), and the all-reduce by size.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <sstream>

#include "cells.hpp"
#include "tern/parallel/data_parallel.hpp"

namespace {

using namespace tern;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> nets{"mlp-small", "lenet"};
  std::vector<int> ranks;
  std::vector<std::int64_t> batches{128};
  std::vector<std::string> precisions{"strict"};
  std::string mode = fastest_mode();
  double seconds = 0.5;
  int shards = 0, threads = 0;
  bool strong = false, all_reduce = false, fastest = false;
};

/// Microseconds of one step or call, the median of samples, with the 10th and 90th percentile.
struct Timing {
  double median = 0, low = 0, high = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Timing timing_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&](double part) {
    return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

/// The devices of the mode; where there is one, all ranks share it.
std::vector<std::string> devices_of(const std::string& mode) {
  std::vector<std::string> names;
  for (const Place& place : devices())
    if (place.mode == mode) names.push_back(place.name);
  expects<DeviceUnavailable>(!names.empty(), "scale: there is no device of ", mode);
  return names;
}

/// Runs `work` in all ranks together: the time of a run, as all ranks see it. Every rank takes the same number of runs.
Timing measure(const parallel::Group& group, Device& device, double seconds, const std::function<void()>& work) {
  for (int i = 0; i < 5; ++i) work();
  device.synchronize();
  group.barrier();
  auto start = Clock::now();
  work();
  device.synchronize();
  const double once = std::max(seconds_since(start), 1e-6);
  std::istringstream plan(group.broadcast(
      message(std::clamp<std::int64_t>(static_cast<std::int64_t>(0.02 / once), 1, 2000), ' ',
              std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / std::max(0.02, once)), 3, 1000))));
  std::int64_t runs = 0, count = 0;
  plan >> runs >> count;
  std::vector<double> samples;
  for (std::int64_t sample = 0; sample < count; ++sample) {
    group.barrier();
    start = Clock::now();
    for (std::int64_t i = 0; i < runs; ++i) work();
    device.synchronize();
    samples.push_back(seconds_since(start) * 1e6 / static_cast<double>(runs));
  }
  return timing_of(std::move(samples));
}

/// What rank 0 measures. Ranks of a mode with one device share its cores.
Timing in_ranks(const Options& options, int ranks, const std::string& precision,
                const std::function<Timing(const parallel::Group& group, Device& device)>& body) {
  const std::vector<std::string> places = devices_of(options.mode);
  expects<Error>(places.size() == 1 || ranks <= static_cast<int>(places.size()), "scale: ", ranks, " ranks and ",
                 places.size(), " devices of ", options.mode);
  Timing result;
  parallel::launch({.ranks = ranks}, [&](const parallel::Group& group) {
    Device device(
        places[places.size() == 1 ? 0 : static_cast<std::size_t>(group.rank())],
        {.threads = options.threads, .precision = precision_of(precision), .deterministic = !options.fastest});
    const Timing own = body(group, device);
    if (group.rank() == 0) result = own;
  });
  return result;
}

Timing train(const Options& options, const std::string& name, std::int64_t batch, int ranks,
             const std::string& precision) {
  return in_ranks(options, ranks, precision, [&](const parallel::Group& group, Device& device) {
    Generator generator(7 + static_cast<std::uint64_t>(group.rank()));
    const benchmarks::Net net = benchmarks::make_net(name, batch);
    const Tensor images = randn(net.input, generator), labels = randint(0, net.classes, {batch}, generator);
    optim::SGD sgd(net.module->parameters(), {.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 5e-4});
    parallel::DataParallel all(group, *net.module, {.shards = options.shards});
    Step step([&](const Tensor& x, const Tensor& y) {
      sgd.zero_grad();
      const Tensor loss = all.backward(batch * group.size(),
                                       [&](const data::Rows& rows) -> parallel::Part {
                                         const std::int64_t first = batch * group.rank();
                                         return net.loss(x.slice(0, rows.begin - first, rows.end - first),
                                                         y.slice(0, rows.begin - first, rows.end - first));
                                       })
                              .loss;
      sgd.step();
      return loss;
    });
    const Timing timing = measure(group, device, options.seconds, [&] { step(images, labels); });
    if (device.mode().capture != nullptr && step.replays() == 0 && group.rank() == 0)
      std::cerr << name << " on " << group.size() << " ranks was not recorded: " << step.unrecorded() << '\n';
    return timing;
  });
}

void scaling(const Options& options) {
  std::cout
      << "| net | precision | batch | ranks | us a step | images/s | efficiency |\n|---|---|---|---|---|---|---|\n";
  for (const std::string& net : options.nets)
    for (const std::string& precision : options.precisions)
      for (const std::int64_t batch : options.batches) {
        double first = 0;
        for (const int ranks : options.ranks) {
          expects<Error>(!options.strong || batch % ranks == 0, "scale: ", batch, " images for ", ranks, " ranks");
          const Timing timing = train(options, net, options.strong ? batch / ranks : batch, ranks, precision);
          const double images = static_cast<double>(options.strong ? batch : batch * ranks) * 1e6 / timing.median;
          if (first == 0) first = images / ranks;
          std::cout << std::fixed << std::setprecision(1) << "| " << net << " | " << precision << " | " << batch
                    << (options.strong ? " for all" : " each") << " | " << ranks << " | " << timing.median << " ("
                    << timing.low << " to " << timing.high << ") | " << std::setprecision(0) << images << " | "
                    << std::setprecision(3) << images / ranks / first << " |" << std::endl;
        }
      }
}

// The bus bandwidth is what each rank sends and receives: 2 (n - 1) / n of the bytes.
void all_reduce(const Options& options) {
  std::cout << "| all-reduce | ranks | carrier | us | GB/s | bus GB/s |\n|---|---|---|---|---|---|\n";
  for (const int ranks : options.ranks) {
    if (ranks == 1) continue;
    for (std::int64_t bytes = std::int64_t{4} << 10; bytes <= std::int64_t{256} << 20; bytes *= 4) {
      std::string carrier;
      const Timing timing = in_ranks(options, ranks, "strict", [&](const parallel::Group& group, Device& device) {
        const parallel::Group on_device = parallel::on_devices(group);
        if (group.rank() == 0) carrier = on_device.carrier();
        const Tensor x = zeros({bytes / 4});
        Step step([&](const Tensor& values) {
          Tensor sum = values.clone();
          on_device.all_reduce(sum);
          return sum;
        });
        Step copy([](const Tensor& values) { return values.clone(); });
        const Timing both = measure(group, device, options.seconds / 2, [&] { step(x); });
        const Timing copying = measure(group, device, options.seconds / 2, [&] { copy(x); });
        return Timing{both.median - copying.median, both.low - copying.median, both.high - copying.median};
      });
      const double rate = static_cast<double>(bytes) / timing.median / 1e3;
      std::cout << std::fixed << "| " << bytes / 1024 << " KiB | " << ranks << " | " << carrier << " | "
                << std::setprecision(1) << timing.median << " | " << rate << " | " << rate * 2 * (ranks - 1) / ranks
                << " |" << std::endl;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Data parallel training on the devices of this machine.\nExample: scale --nets lenet,alexnet --ranks 1,2 "
      "--precisions tf32,bf16"};
  app.add_option("--nets", options.nets, "mlp-small, mlp-medium, mlp-big, lenet, alexnet, googlenet, resnet18")
      ->delimiter(',');
  app.add_option("--ranks", options.ranks, "how many devices; 1, 2, 4 and so on by default")->delimiter(',');
  app.add_option("--batches", options.batches, "images per rank, or of all with --strong")->delimiter(',');
  app.add_option("--precisions", options.precisions, "strict, tf32, bf16")->delimiter(',');
  app.add_option("--mode", options.mode, "whose devices; the fastest mode present by default");
  app.add_option("--seconds", options.seconds, "time for one cell");
  app.add_option("--shards", options.shards, "the same bits for any number of ranks; 0: the carrier adds");
  app.add_option("--threads", options.threads, "threads of a rank in the vectorized mode; 0: all cores");
  app.add_flag("--strong", options.strong, "share one batch among the ranks");
  app.add_flag("--all-reduce", options.all_reduce, "time the all-reduce by size instead");
  app.add_flag("--fastest", options.fastest, "let cuda take the fastest algorithms, also those that do not repeat");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.ranks.empty())
      for (int ranks = 1; ranks <= static_cast<int>(devices_of(options.mode).size()); ranks *= 2)
        options.ranks.push_back(ranks);
    options.all_reduce ? all_reduce(options) : scaling(options);
  } catch (const std::exception& error) {
    std::cerr << "scale: " << error.what() << '\n';
    return 1;
  }
}
