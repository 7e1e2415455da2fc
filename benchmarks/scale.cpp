// Data-parallel training on several devices of this machine, a thread or a process for each: weak scaling (a batch per
// device), strong scaling (one batch for all), and the all-reduce by size; and predictions for many more devices.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "cells.hpp"
#include "scale_model.hpp"
#include "tern/parallel/data_parallel.hpp"

namespace {

using namespace tern;
using benchmarks::Timing;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> nets{"mlp-small", "lenet"};
  std::vector<int> ranks;
  std::vector<std::int64_t> batches{128};
  std::vector<std::string> precisions{"strict"};
  std::string mode = fastest_mode();
  double seconds = 0.5;
  int shards = 0, threads = 0;
  bool strong = false, all_reduce = false, fastest = false, split_classifier = false;
  std::string transport = "threads", wire = "float32";
  std::optional<parallel::Group> processes = {};  // that mpirun started
  std::string predict = {};
  benchmarks::Network network;
  double within = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The devices of the mode; if there is only one, all ranks share it.
std::vector<std::string> devices_of(const std::string& mode) {
  std::vector<std::string> names;
  for (const Place& place : devices())
    if (place.mode == mode) names.push_back(place.name);
  expects<DeviceUnavailable>(!names.empty(), "scale: there is no device of ", mode);
  return names;
}

/// Runs `work` in all ranks together: the time of a run, as all ranks see it. Every rank makes the same number of runs.
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
  return benchmarks::timing_of(std::move(samples));
}

/// Rank 0's measurement. Ranks of a mode with one device share its cores.
Timing in_ranks(const Options& options, int ranks, const std::string& precision,
                const std::function<Timing(const parallel::Group& group, Device& device)>& body) {
  const std::vector<std::string> places = devices_of(options.mode);
  Timing result;
  const auto in_rank = [&](const parallel::Group& group) {
    Device device(
        places[static_cast<std::size_t>(group.rank()) % places.size()],
        {.threads = options.threads, .precision = precision_of(precision), .deterministic = !options.fastest});
    const Timing own = body(group, device);
    if (group.rank() == 0) result = own;
  };
  if (options.processes) {
    in_rank(*options.processes);
    return result;
  }
  expects<Error>(places.size() == 1 || ranks <= static_cast<int>(places.size()), "scale: ", ranks, " ranks and ",
                 places.size(), " devices of ", options.mode);
  parallel::launch({.ranks = ranks}, in_rank);
  return result;
}

benchmarks::Net net_of(const Options& options, const std::string& name, std::int64_t batch,
                       const parallel::Group& group) {
  benchmarks::Net net = benchmarks::make_net(name, batch);
  if (options.split_classifier && name == "alexnet" && group.size() > 1) {
    const auto split = std::make_shared<models::AlexNet>(models::AlexNetOptions{.classifier_ranks = group});
    net.module = split;
    net.loss = [split](const Tensor& x, const Tensor& labels) { return operators::cross_entropy((*split)(x), labels); };
  }
  return net;
}

Timing train(const Options& options, const std::string& name, std::int64_t batch, int ranks,
             const std::string& precision) {
  return in_ranks(options, ranks, precision, [&](const parallel::Group& group, Device& device) {
    Generator generator(7 + static_cast<std::uint64_t>(group.rank()));
    device.mode().memory->reset_peak();
    const benchmarks::Net net = net_of(options, name, batch, group);
    const Tensor images = randn(net.input, generator), labels = randint(0, net.classes, {batch}, generator);
    optim::SGD sgd(net.module->parameters(), {.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 5e-4});
    parallel::DataParallel all(
        group, *net.module,
        {.shards = options.shards, .wire = options.wire == "bfloat16" ? DType::bfloat16 : DType::float32});
    Step step([&](const Tensor& x, const Tensor& y) {
      sgd.zero_grad();
      const Tensor loss = all.backward(batch * group.size(),
                                       [&](const data::Rows& rows) -> parallel::ShardLoss {
                                         const std::int64_t first = batch * group.rank();
                                         return net.loss(x.slice(0, rows.begin - first, rows.end - first),
                                                         y.slice(0, rows.begin - first, rows.end - first));
                                       })
                              .loss;
      sgd.step();
      return loss;
    });
    Timing timing = measure(group, device, options.seconds, [&] { step(images, labels); });
    timing.peak = device.mode().memory->statistics().peak;
    if (device.mode().capture != nullptr && step.replays() == 0 && group.rank() == 0)
      std::cerr << name << " on " << group.size() << " ranks was not recorded: " << step.unrecorded() << '\n';
    return timing;
  });
}

void scaling(const Options& options) {
  std::cout << "| net | precision | batch | ranks | us a step | images/s | efficiency | peak MB of rank 0 "
               "|\n|---|---|---|---|---|---|---|---|\n";
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
                    << std::setprecision(3) << images / ranks / first << " | " << std::setprecision(0)
                    << static_cast<double>(timing.peak) / 1e6 << " |" << std::endl;
        }
      }
}

// The bus bandwidth is what each rank sends and receives: 2 (n - 1) / n of the bytes.
void all_reduce(const Options& options) {
  std::cout << "| all-reduce | ranks | transport | us | GB/s | bus GB/s |\n|---|---|---|---|---|---|\n";
  for (const int ranks : options.ranks) {
    if (ranks == 1) continue;
    for (std::int64_t bytes = std::int64_t{4} << 10; bytes <= std::int64_t{256} << 20; bytes *= 4) {
      std::string transport;
      const Timing timing = in_ranks(options, ranks, "strict", [&](const parallel::Group& group, Device& device) {
        const parallel::Group on_device = parallel::on_devices(group);
        if (group.rank() == 0) transport = on_device.transport();
        const Tensor x = zeros({bytes / 4});
        Step step([&](const Tensor& values) {
          Tensor sum = values.clone();
          on_device.all_reduce(sum);
          return sum;
        });
        Step copy([](const Tensor& values) { return values.clone(); });
        const Timing both = measure(group, device, options.seconds / 2, [&] { step(x); });
        const Timing copying = measure(group, device, options.seconds / 2, [&] { copy(x); });
        return Timing{.median = both.median - copying.median};
      });
      const double rate = static_cast<double>(bytes) / timing.median / 1e3;
      std::cout << std::fixed << "| " << bytes / 1024 << " KiB | " << ranks << " | " << transport << " | "
                << std::setprecision(1) << timing.median << " | " << rate << " | " << rate * 2 * (ranks - 1) / ranks
                << " |" << std::endl;
    }
  }
}

// ---- more devices than available ----
/// The sizes in bytes of the buckets of a net's gradients, in order.
std::vector<double> buckets_of(const std::string& name) {
  const auto most = static_cast<double>(parallel::DataParallelOptions().bucket_bytes);
  std::vector<double> buckets;
  const std::vector<Tensor> parameters = benchmarks::make_net(name, 1).module->parameters();
  for (auto tensor = parameters.rbegin(); tensor != parameters.rend(); ++tensor) {
    const auto bytes = static_cast<double>(tensor->numel()) * 4;
    if (buckets.empty() || buckets.back() + bytes > most) buckets.push_back(0);
    buckets.back() += bytes;
  }
  return buckets;
}

void print_constants(const benchmarks::ScaleModel& model, const Options& options) {
  std::cout << std::fixed << std::setprecision(1) << "Fitted to " << options.predict
            << "\n\n| constant | value |\n|---|---|\n";
  for (const auto& [name, protocol] :
       {std::pair("short", model.short_messages()), std::pair("long", model.long_messages())})
    std::cout << "| all-reduce, " << name << " messages | " << protocol.latency << " us + " << protocol.per_doubling
              << " us for each doubling + bytes moved at " << 1e3 / protocol.per_megabyte << " GB/s |\n";
  std::cout << "| each bucket besides: packing, launch | " << model.bucket_cost() << " us |\n"
            << "| share of the all-reduce beside backward that is not hidden | " << std::setprecision(2)
            << model.exposed() << " |\n"
            << "| between machines of " << options.network.node << " devices, not measured | " << std::setprecision(1)
            << options.network.latency << " us a hop, " << options.network.gigabytes << " GB/s of each device |\n\n";
}

/// The largest error of a cell that the model was not fitted to.
double print_checks(const benchmarks::ScaleModel& model, const std::vector<benchmarks::ScaleCell>& cells) {
  double largest = 0;
  std::cout << "| net | precision | batch | ranks | run | measured us | model us | error | "
               "|\n|---|---|---|---|---|---|---|---|---|\n";
  for (const benchmarks::ScaleCell& cell : cells) {
    if (cell.kind != "step" || cell.use == "base") continue;
    const double predicted = model.step(model.base_of(cell), cell.ranks), error = predicted / cell.us - 1;
    if (cell.use == "check") largest = std::max(largest, std::abs(error));
    std::cout << "| " << cell.net << " | " << cell.precision << " | " << cell.size << " each | " << cell.ranks << " | "
              << cell.run << " | " << cell.us << " | " << predicted << " | " << std::showpos << 100 * error
              << std::noshowpos << " % | " << (cell.use == "fit" ? "fitted to" : "not fitted to") << " |\n";
  }
  std::cout << "\nLargest error of the cells not fitted to: " << 100 * largest << " %\n\n";
  return largest;
}

void print_predictions(const benchmarks::ScaleModel& model, const std::vector<benchmarks::ScaleCell>& cells) {
  constexpr int most = 4096;
  std::map<std::string, benchmarks::ScaleCell> latest;  // the last run of each
  for (const benchmarks::ScaleCell& cell : cells)
    if (cell.use == "base") latest[message(cell.net, " | ", cell.precision, " | ", cell.size, " each")] = cell;
  std::cout << "Efficiency (us a step)\n\n| net | precision | batch |";
  for (int ranks = 2; ranks <= most; ranks *= 2) std::cout << ' ' << ranks << " |";
  std::cout << "\n|---|---|---|";
  for (int ranks = 2; ranks <= most; ranks *= 2) std::cout << "---|";
  for (const auto& [name, base] : latest) {
    std::cout << "\n| " << name << " |";
    for (int ranks = 2; ranks <= most; ranks *= 2) {
      const double us = model.step(base, ranks);
      std::cout << ' ' << std::setprecision(2) << base.us / us << " (" << std::setprecision(0) << us << ") |";
    }
  }
  std::cout << std::endl;
}

void predict(const Options& options) {
  const std::vector<benchmarks::ScaleCell> cells = benchmarks::read_scale_cells(options.predict);
  std::map<std::string, std::vector<double>> buckets;
  for (const benchmarks::ScaleCell& cell : cells)
    if (cell.kind == "step" && !buckets.contains(cell.net)) buckets[cell.net] = buckets_of(cell.net);
  const benchmarks::ScaleModel model(cells, buckets, options.network);
  print_constants(model, options);
  const double largest = print_checks(model, cells);
  print_predictions(model, cells);
  expects<Error>(options.within == 0 || largest <= options.within, "scale: the model is ", 100 * largest,
                 " % off, expected at most ", 100 * options.within, " %");
}

void run(Options& options) {
  if (!options.predict.empty()) return predict(options);
  if (options.ranks.empty())
    for (int ranks = 1; ranks <= static_cast<int>(devices_of(options.mode).size()); ranks *= 2)
      options.ranks.push_back(ranks);
  options.all_reduce ? all_reduce(options) : scaling(options);
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
  app.add_option("--shards", options.shards, "the same bits for any number of ranks; 0: the transport adds");
  app.add_option("--threads", options.threads, "threads of a rank in the vectorized mode; 0: all cores");
  app.add_option("--transport", options.transport, "threads, or mpi: the processes that mpirun started are the ranks");
  app.add_option("--predict", options.predict, "fit a model to the cells of this file and say what many devices take");
  app.add_option("--node", options.network.node, "with --predict: devices of a machine");
  app.add_option("--network", options.network.gigabytes, "with --predict: GB/s of each device between machines");
  app.add_option("--latency", options.network.latency, "with --predict: microseconds from machine to machine");
  app.add_option("--within", options.within, "with --predict: fail when a cell not fitted to is further off than so");
  app.add_flag("--strong", options.strong, "share one batch among the ranks");
  app.add_option("--wire", options.wire, "what gradients travel as: float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_flag("--split-classifier", options.split_classifier, "AlexNet with its classifier divided among the ranks");
  app.add_flag("--all-reduce", options.all_reduce, "time the all-reduce by size instead");
  app.add_flag("--fastest", options.fastest, "let cuda take the fastest algorithms, also those that do not repeat");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.transport == "threads") {
      run(options);
      return 0;
    }
    parallel::launch({.transport = options.transport}, [&](const parallel::Group& processes) {
      options.processes = processes;
      options.ranks = {processes.size()};
      if (processes.rank() != 0) std::cout.rdbuf(nullptr);  // one table
      run(options);
      options.processes.reset();
    });
  } catch (const std::exception& error) {
    std::cerr << "scale: " << error.what() << '\n';
    return 1;
  }
}
