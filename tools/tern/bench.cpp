// `tern bench`: how long a net takes in each mode.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "cells.hpp"
#include "errors.hpp"
#include "evaluation.hpp"
#include "machine.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "output.hpp"
#include "tern/graph/program.hpp"
#include "tern/modes/mode.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

struct Row {
  benchmarks::Cell cell;
  benchmarks::Timing timing;
  double speedup = 1;  // relative to the first mode
};

std::string time_text(double microseconds) {
  if (microseconds < 1e3) return fixed(microseconds, 1) + " us";
  return microseconds < 1e6 ? fixed(microseconds / 1e3, 2) + " ms" : fixed(microseconds / 1e6, 2) + " s";
}

double rate(const Row& row) { return static_cast<double>(row.cell.batch) * 1e6 / row.timing.median; }

class Bench : public Command {
 public:
  Bench() {
    verb_ = {
        .name = "bench",
        .summary = "Measures how long a net takes in each mode, to train and to infer.",
        .synopsis = "[--nets NAMES] [--modes NAMES] [--batches SIZES] [options]",
        .description =
            "Times training steps (forward, loss, backward, update) and inferences on random data. The time is the "
            "median of the runs with the 10th and 90th percentile; the speed-up is relative to the first mode. "
            "benchmarks/ of the sources has more: peers, operators, the study of batch sizes. --model times a model "
            "that answers one example at a time, as a program without dispatch: the median, the 99th percentile.",
        .examples = {"tern bench --model small.tern", "tern bench --nets lenet --batches 32,128",
                     "tern bench --nets mlp-small,lenet --modes vectorized,cuda --precision tf32 --format csv"}};
    Option batches = list_option("batches", "SIZES", "batch sizes (default: 1,64)", batches_);
    Options own{list_option("nets", "NAMES", "nets (default: mlp-small,lenet)", nets_),
                list_option("modes", "NAMES", "modes (default: all available)", modes_), std::move(batches),
                list_option("phases", "NAMES", "train and infer (default: both)", phases_)};
    Option seconds{.name = "seconds", .value = "S", .help = "time to measure each cell (default: 0.5)"};
    seconds.set = [this](const std::string& text) {
      seconds_ = parse_number("seconds", text);
      expects<UsageError>(seconds_ > 0 && seconds_ <= 3600, "--seconds: found ", text,
                          ", expected a number above 0, at most 3600");
    };
    own.push_back(std::move(seconds));
    Option model = text_option("model", "FILE", "a model or an ONNX file, of which single answers are timed", model_);
    model.aliases = {"latency"};
    model.kind = Value::file;
    own.push_back(std::move(model));
    for (Option& option : machine_options(settings_))
      if (option.name == "threads" || option.name == "precision") own.push_back(std::move(option));
    for (Option& option : own) {
      option.group = option.group.empty() ? "Cells" : option.group;
      option.brief = true;
      verb_.options.push_back(std::move(option));
    }
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    if (!model_.empty()) return time_answers();
    if (nets_.empty()) nets_ = {"mlp-small", "lenet"};
    if (batches_.empty()) batches_ = {"1", "64"};
    if (phases_.empty()) phases_ = {"train", "infer"};
    if (modes_.empty())
      for (const ModeStatus& status : tern::modes())
        if (status.available) modes_.push_back(status.name);
    check();
    std::vector<Row> rows;
    for (const std::string& net : nets_)
      for (const std::string& phase : phases_)
        for (const std::string& batch : batches_) {
          const std::size_t first = rows.size();
          for (const std::string& mode : modes_) {
            Row row{{net, mode, phase, parse_integer("batches", batch, 1, 1 << 20), precision_of(settings_.precision)},
                    {},
                    1};
            benchmarks::Workload workload(row.cell, settings_.threads);
            row.timing = workload.measure(seconds_, 3);
            if (rows.size() > first) row.speedup = rows[first].timing.median / row.timing.median;
            std::fprintf(stderr, "%s %s batch %s %s: %s\n", net.c_str(), phase.c_str(), batch.c_str(), mode.c_str(),
                         time_text(row.timing.median).c_str());
            rows.push_back(std::move(row));
          }
        }
    write_output(output_, output_.format == "json" ? json(rows) : output_.format == "csv" ? csv(rows) : table(rows));
    return success;
  }

 private:
  static void read(const Tensor& result) {
    if (result.dtype() == DType::float32)
      (void)result.to_vector<float>();
    else
      (void)result.values();
  }

  int time_answers() {
    if (modes_.empty()) modes_ = {fastest_mode()};
    std::string text = padded("mode", 12) + left_padded("median", 12) + left_padded("99 %", 12) + "\n";
    for (const std::string& mode : modes_) {
      const Device device{mode, device_options(settings_)};
      const graph::Program program(load_graph(model_));
      const graph::Structure& own = program.graph().structure();
      std::vector<Tensor> inputs;
      for (const int id : own.inputs) inputs.push_back(zeros(own.values[id].shape_at(1), own.values[id].dtype));
      std::vector<double> times;
      using Clock = std::chrono::steady_clock;
      const Clock::time_point end =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
      for (int i = 0; i < 5 || Clock::now() < end; ++i) {
        const Clock::time_point start = Clock::now();
        for (const Tensor& result : program(inputs)) read(result);
        if (i >= 3) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      }
      std::ranges::sort(times);
      text += padded(mode, 12) + left_padded(time_text(times[times.size() / 2]), 12) +
              left_padded(time_text(times[(times.size() - 1) * 99 / 100]), 12) + "\n";
    }
    write_output(output_, text);
    return success;
  }

  // Checks everything before the first cell is measured.
  void check() const {
    const auto expect = [](const char* option, const std::vector<std::string>& found,
                           const std::vector<std::string>& known) {
      for (const std::string& name : found)
        expects<UsageError>(std::find(known.begin(), known.end(), name) != known.end(), "--", option, ": there is no ",
                            name, suggestion(name, known, ""));
    };
    expect("nets", nets_, benchmarks::nets());
    expect("phases", phases_, {"train", "infer"});
    for (const std::string& batch : batches_) (void)parse_integer("batches", batch, 1, 1 << 20);
    for (const std::string& mode : modes_) const Device present{mode};
  }

  static std::string table(const std::vector<Row>& rows) {
    std::string text = processor() + "\n\n" + padded("net", 12) + padded("phase", 7) + left_padded("batch", 6) + "  " +
                       padded("mode", 12) + left_padded("time", 11) + left_padded("10 % to 90 %", 24) +
                       left_padded("items/s", 13) + left_padded("speed-up", 10) + "\n";
    for (const Row& row : rows)
      text += padded(row.cell.net, 12) + padded(row.cell.phase, 7) + left_padded(std::to_string(row.cell.batch), 6) +
              "  " + padded(row.cell.mode, 12) + left_padded(time_text(row.timing.median), 11) +
              left_padded(time_text(row.timing.low) + " to " + time_text(row.timing.high), 24) +
              left_padded(grouped(static_cast<std::int64_t>(rate(row))), 13) +
              left_padded(fixed(row.speedup, 1) + "x", 10) + "\n";
    return text;
  }

  static std::string csv(const std::vector<Row>& rows) {
    std::string text = "net,phase,batch,mode,median_us,p10_us,p90_us,items_per_second,speed_up,runs\n";
    for (const Row& row : rows)
      text += row.cell.net + "," + row.cell.phase + "," + std::to_string(row.cell.batch) + "," +
              csv_field(row.cell.mode) + "," + fixed(row.timing.median, 2) + "," + fixed(row.timing.low, 2) + "," +
              fixed(row.timing.high, 2) + "," + fixed(rate(row), 1) + "," + fixed(row.speedup, 3) + "," +
              std::to_string(row.timing.runs) + "\n";
    return text;
  }

  std::string json(const std::vector<Row>& rows) const {
    Json cells = Json::array();
    for (const Row& row : rows)
      cells.push_back({{"net", row.cell.net},
                       {"phase", row.cell.phase},
                       {"batch", row.cell.batch},
                       {"mode", row.cell.mode},
                       {"median_us", row.timing.median},
                       {"p10_us", row.timing.low},
                       {"p90_us", row.timing.high},
                       {"items_per_second", rate(row)},
                       {"speed_up", row.speedup},
                       {"runs", row.timing.runs}});
    return Json{{"machine", describe_machine()}, {"precision", settings_.precision}, {"cells", cells}}.dump(1) + "\n";
  }

  Settings settings_;
  std::vector<std::string> nets_, modes_, batches_, phases_;
  std::string model_;
  double seconds_ = 0.5;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace tern::tool
