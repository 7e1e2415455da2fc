// Time per training step and per inference of the models in every mode, at several batch sizes: as a table on the
// terminal, and with --out as Markdown, CSV and JSON. With --serve it times cells that it reads from standard input,
// one per line, so that another program can interleave its own measurements. With --ladder it times
// the steps from plain loops to the GPU, see ladder.hpp.

#include <CLI/CLI.hpp>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cells.hpp"
#include "ladder.hpp"
#include "tern/io/file.hpp"

namespace {

using namespace tern;
using benchmarks::Cell;
using benchmarks::Timing;
using benchmarks::Workload;

struct Row {
  std::string net, phase;
  std::int64_t batch;
  std::map<std::string, Timing> timing;  // by mode
};

struct Options {
  std::vector<std::string> nets{"mlp-small", "mlp-medium", "mlp-big", "lenet"}, modes, phases{"train", "infer"};
  std::vector<std::int64_t> batches{1, 32, 128, 512};
  std::string precision = "strict", out, label;
  double seconds = 0.5;
  std::vector<int> threads{0};
  std::int64_t loop = 1;
  bool serve = false, fastest = false, ladder = false;
};

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string microseconds(double value) { return fixed(value, value < 100 ? 1 : 0); }

std::string machine() {
  std::ifstream cpu("/proc/cpuinfo");
  std::string line, name = "unknown processor";
  while (std::getline(cpu, line))
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  for (const ModeStatus& status : modes())
    if (status.available && status.name != "sequential") name += "; " + status.name + ": " + status.reason;
  return name;
}

void write_markdown(std::ostream& out, const std::vector<Row>& rows, const Options& options) {
  out << "Median microseconds of one run (10th to 90th percentile), images per second of the fastest mode, and how "
         "many "
         "times faster each mode is than the one before it.\n\nMachine: "
      << machine() << ". Precision: " << options.precision << ".\n";
  if (!options.label.empty()) out << "\n" << options.label << "\n";
  out << "\n| net | phase | batch |";
  for (const std::string& mode : options.modes) out << " " << mode << " |";
  out << " images/s |";
  for (std::size_t i = 1; i < options.modes.size(); ++i)
    out << " " << options.modes[i - 1] << " : " << options.modes[i] << " |";
  out << " transfers |\n|---|---|---|";
  for (std::size_t i = 0; i < 2 * options.modes.size() + 1; ++i) out << "---|";
  out << "\n";
  for (const Row& row : rows) {
    out << "| " << row.net << " | " << row.phase << " | " << row.batch << " |";
    double best = 0;
    std::int64_t moved = 0;
    for (const std::string& mode : options.modes) {
      const Timing& timing = row.timing.at(mode);
      out << " " << microseconds(timing.median) << " (" << microseconds(timing.low) << " to "
          << microseconds(timing.high) << ") |";
      best = best == 0 ? timing.median : std::min(best, timing.median);
      moved += timing.transfers;
    }
    out << " " << fixed(static_cast<double>(row.batch) * 1e6 / best, 0) << " |";
    for (std::size_t i = 1; i < options.modes.size(); ++i)
      out << " " << fixed(row.timing.at(options.modes[i - 1]).median / row.timing.at(options.modes[i]).median, 1)
          << "x |";
    out << " " << moved << " |\n";
  }
}

void write_csv(std::ostream& out, const std::vector<Row>& rows, const Options& options) {
  out << "net,phase,batch,mode,precision,median_us,p10_us,p90_us,images_per_second,runs,transfers\n";
  for (const Row& row : rows)
    for (const std::string& mode : options.modes) {
      const Timing& timing = row.timing.at(mode);
      out << row.net << ',' << row.phase << ',' << row.batch << ',' << mode << ',' << options.precision << ','
          << timing.median << ',' << timing.low << ',' << timing.high << ','
          << static_cast<double>(row.batch) * 1e6 / timing.median << ',' << timing.runs << ',' << timing.transfers
          << '\n';
    }
}

nlohmann::json to_json(const std::vector<Row>& rows, const Options& options) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Row& row : rows)
    for (const std::string& mode : options.modes) {
      const Timing& timing = row.timing.at(mode);
      cells.push_back({{"net", row.net},
                       {"phase", row.phase},
                       {"batch", row.batch},
                       {"mode", mode},
                       {"median_us", timing.median},
                       {"p10_us", timing.low},
                       {"p90_us", timing.high},
                       {"runs", timing.runs},
                       {"transfers", timing.transfers}});
    }
  return {{"version", version()},
          {"machine", machine()},
          {"precision", options.precision},
          {"label", options.label},
          {"cells", cells}};
}

template <class Write>
void write_file(const std::string& name, Write write) {
  std::ofstream file(name);
  write(file);
  expects<FileError>(static_cast<bool>(file.flush()), name, ": could not be written");
}

void run_table(const Options& options) {
  // Before anything is measured, so that no measurement is wasted.
  if (!options.out.empty()) io::make_folders(options.out);
  std::vector<Row> rows;
  for (const std::string& net : options.nets)
    for (const std::string& phase : options.phases)
      for (const std::int64_t batch : options.batches) {
        Row row{net, phase, batch, {}};
        for (const std::string& mode : options.modes) {
          Workload workload({net, mode, phase, batch, precision_of(options.precision), !options.fastest, options.loop},
                            options.threads[0]);
          row.timing[mode] = workload.measure(options.seconds);
          std::cerr << net << ' ' << phase << " batch " << batch << ' ' << mode << ": "
                    << microseconds(row.timing[mode].median) << " us\n";
        }
        rows.push_back(std::move(row));
      }
  write_markdown(std::cout, rows, options);
  if (options.out.empty()) return;
  write_file(options.out + "/modes.md", [&](std::ostream& file) { write_markdown(file, rows, options); });
  write_file(options.out + "/modes.csv", [&](std::ostream& file) { write_csv(file, rows, options); });
  write_file(options.out + "/modes.json", [&](std::ostream& file) { file << to_json(rows, options).dump(1) << '\n'; });
}

// One line in, "net mode phase batch precision seconds"; one line out, a JSON object. --fastest and --loop apply to all
// cells.
void serve(const Options& options) {
  std::map<std::string, Workload> workloads;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    Cell cell;
    std::string precision;
    double seconds = options.seconds;
    words >> cell.net >> cell.mode >> cell.phase >> cell.batch >> precision >> seconds;
    nlohmann::json answer;
    try {
      cell.precision = precision_of(precision);
      cell.deterministic = !options.fastest;
      cell.loop = options.loop;
      const std::string key = line.substr(0, line.rfind(' '));
      auto found = workloads.find(key);
      if (found == workloads.end()) {
        workloads.clear();  // one cell at a time: the peer needs the memory
        found = workloads.emplace(key, Workload(cell, options.threads[0])).first;
      }
      const Timing timing = found->second.measure(seconds, 3);
      answer = {{"us", timing.median}, {"mean", timing.mean},           {"p10", timing.low},
                {"p90", timing.high},  {"transfers", timing.transfers}, {"peak", timing.peak}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Time per training step and per inference in every mode.\nExample: modes --nets lenet --batches 32,128 --out "
      "results"};
  app.add_option("--nets", options.nets, "mlp-small, mlp-medium, mlp-big, lenet; also alexnet, googlenet")
      ->delimiter(',');
  app.add_option("--modes", options.modes, "modes to time; all that are present by default")->delimiter(',');
  app.add_option("--phases", options.phases, "train, infer")->delimiter(',');
  app.add_option("--batches", options.batches, "batch sizes")->delimiter(',');
  app.add_option("--precision", options.precision, "strict, tf32 or bf16");
  app.add_option("--seconds", options.seconds, "time for one cell");
  app.add_option("--threads", options.threads,
                 "threads of the vectorized mode; 0: all cores; with --ladder several counts, the first of them 1, for "
                 "a table of "
                 "speed-up and efficiency")
      ->delimiter(',');
  app.add_option("--loop", options.loop, "runs of one call (Step::each); 1: each is a call")
      ->check(CLI::PositiveNumber);
  app.add_option("--out", options.out, "folder for modes.md, modes.csv and modes.json");
  app.add_option("--label", options.label, "a line for the tables, such as the commit and the command");
  app.add_flag("--fastest", options.fastest, "let cuda take the fastest algorithms, also those that do not repeat");
  app.add_flag("--ladder", options.ladder,
               "time a product, a convolution and a step of LeNet: plain loops, blocked loops, SIMD, threads, GPU");
  app.add_flag("--serve", options.serve, "time the cells read from standard input");
  CLI11_PARSE(app, argc, argv);
  if (options.modes.empty())
    for (const ModeStatus& status : modes())
      if (status.available) options.modes.push_back(status.name);
  try {
    expects(options.threads.size() == 1 || (options.ladder && options.threads[0] == 1),
            "--threads: several counts go with --ladder, and the first of them is 1");
    if (options.ladder)
      benchmarks::run_ladder(std::cout, options.threads, options.seconds);
    else
      options.serve ? serve(options) : run_table(options);
  } catch (const std::exception& error) {
    std::cerr << "modes: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
