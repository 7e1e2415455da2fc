// `tern tune`: many trainings, several at a time, to find the best of them.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "errors.hpp"
#include "folder_lock.hpp"
#include "names.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "restarts.hpp"
#include "run_folder.hpp"
#include "tern/io/file.hpp"
#include "tern/modes/device.hpp"
#include "tern/parallel/group.hpp"
#include "tern/training/signal_guard.hpp"
#include "text.hpp"
#include "trial_files.hpp"
#include "tune_data.hpp"
#include "tune_plan.hpp"
#include "tune_runner.hpp"
#include "tune_table.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

// Options of a single training that make no sense for many.
bool of_one_training(const std::string& name) {
  return name == "model" || name == "dashboard" || name == "port" || name == "tensorboard" || name == "verbose";
}

// Options that do not affect the results of the trials.
bool may_change(const std::string& name) {
  static const std::vector<std::string> names{
      "jobs",      "ranks",   "parallel", "rank-limit", "restarts", "launcher", "mode",    "threads",
      "precision", "quiet",   "run",      "resume",     "keep",     "data",     "dataset", "checkpoint-every",
      "config",    "download"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Tune : public Command {
 public:
  Tune() {
    verb_ = {
        .name = "tune",
        .summary = "Searches for good options: many trainings, several at a time.",
        .synopsis = "--dataset DATA --grid NAME=VALUES... [options]",
        .description =
            "Trains every combination of the values of --grid, or a number of random ones, in threads: "
            "each trial has a share of the cores, or its own stream on one of the GPUs. With --parallel mpi the "
            "processes that mpirun started share the trials. Takes all options of tern train. "
            "The folder of the run gets results.csv, report.html and a run per trial. --resume continues an "
            "interrupted search. --compare-serial without a --grid trains the nets mlp-small, mlp-medium and mlp-big.",
        .examples = {"tern tune --dataset iris.csv --grid learning-rate=0.01,0.001",
                     "tern tune --dataset iris.csv --random 20 --range learning-rate=0.0001:0.1 --halving 3",
                     "tern tune --dataset iris.csv --grid \"layers=4,8,3|4,32,3\" --grid seed=1,2,3",
                     "mpirun -n 2 tern tune --parallel mpi --dataset iris.csv --grid seed=1,2,3,4",
                     "tern tune --compare-serial --dataset mnist"}};
    Option grid = text_option("grid", "NAME=VALUES", "values to try, such as learning-rate=0.1,0.01", ignored_);
    grid.repeats = true;
    grid.set = [this](const std::string& text) { grids_.push_back(text); };
    Option range = text_option("range", "NAME=LOW:HIGH", "range to draw from, with --random", ignored_);
    range.repeats = true;
    range.set = [this](const std::string& text) { ranges_.push_back(text); };
    add({std::move(grid), std::move(range),
         integer_option("random", "N", "draw N trials instead of every combination", random_, 1, 100000),
         integer_option("jobs", "N", "trials at a time per rank; 0: one per core, on a GPU 8", jobs_, 0, 1024),
         integer_option("ranks", "N", "threads, each with a device in turn; 0: one per device", ranks_, 0, 1024),
         choice_option("parallel", "threads, or mpi: the processes that mpirun started", {"threads", "mpi"}, parallel_),
         integer_option("rank-limit", "SECONDS",
                        "the longest that trials of other processes may make no progress; 0: no limit",
                        base_.rank_limit, 0, 1 << 20),
         integer_option("halving", "N", "one in N trials continues to more epochs; 0: all", halving_, 0, 100),
         switch_option("compare-serial", "time one after another against all at once", compare_)});
    add(restart_options(base_));
    Option config = text_option("config", "FILE", "read options from a JSON file; the command line wins", config_);
    config.group = "Results";
    config.kind = Value::file;
    verb_.options.push_back(std::move(config));
    for (Option& option : training_options(base_)) {
      if (of_one_training(option.name)) continue;
      option.brief = option.name == "dataset" || option.name == "epochs" || option.name == "mode" ||
                     option.name == "run" || option.name == "resume";
      if (option.name == "run") option.help = "folder of the search (default: tune)";
      verb_.options.push_back(std::move(option));
    }
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames& typed) override {
    // CUDA reads it at start: by default the streams of all trials share eight queues to the card.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    OptionNames chosen = typed;
    if (!config_.empty()) chosen.merge(apply_config(verb_.options, read_json_file(config_), config_, typed));
    expects<UsageError>(halving_ != 1, "--halving: found 1, expected 0 or a number from 2 on");
    folder_ = base_.run.empty() ? "tune" : base_.run;
    expects<UsageError>(base_.launcher.empty() || base_.restarts > 0,
                        "--launcher says what --restarts N starts again; --restarts is missing");
    if (base_.restarts > 0) return run_with_restarts(restarts(), verb_.name, verb_.words, chosen);
    if (parallel_ == "threads") return run_process(chosen, parallel::Group());
    expects<UsageError>(!compare_, "--compare-serial times the threads of one process; leave --parallel out");
    return run_processes({.transport = parallel_, .limit = std::chrono::seconds(base_.rank_limit)},
                         [&](const parallel::Group& processes) { return run_process(chosen, processes); });
  }

 private:
  // Processes that are still working when the first one is gone continue without it.
  Restarts restarts() const {
    return {.work = "search",
            .times = base_.restarts,
            .launcher = base_.launcher,
            .parallel = parallel_,
            .ranks = ranks_,
            .rank_limit = base_.rank_limit,
            .folder = folder_,
            .begun = plan_file(),
            .saved = {"grid", "range", "random"}};
  }
  // The first process makes the folder and the plan, and shows the progress. From there on processes communicate
  // through the trials' folders only and leave the group, so that one that dies does not end the others.
  int run_process(const OptionNames& chosen, const parallel::Group& processes) {
    const bool leads = processes.rank() == 0;
    const auto part = [&] {
      processes.barrier();
      processes.leave();
    };
    if (!leads) part();
    std::error_code missing;
    if (leads && fs::is_directory(folder_, missing)) lock_.emplace(folder_);
    const bool resumed = !leads || (base_.resume && fs::exists(plan_file(), missing));
    if (leads && resumed)
      expects<UsageError>(grids_.empty() && ranges_.empty() && random_ == 0,
                          "--resume continues the trials of the search in ", folder_,
                          "; leave --grid, --range and --random out, or start over in another --run");
    if (!leads) base_.quiet = true;
    TunePlan plan = resumed ? saved_plan(chosen) : new_plan();
    const Device device{base_.mode, device_options(base_)};
    const TrialData data = load_trials(plan, base_);
    check_trials(plan, data);
    share_out(plan, device, processes);
    if (!resumed) begin(plan);
    if (leads && resumed) begin_again(plan);
    if (leads) part();
    const training::SignalGuard signals;
    if (compare_) return compare(plan, data, device);
    if (!base_.quiet) introduce(plan, device);
    const double began = seconds_now();
    const Result result = search(plan, data, folder_);
    if (!result.finished) {
      if (leads) say("Interrupted; to continue: tern tune --resume --run " + shell_word(folder_));
      return 128 + training::SignalGuard::received();
    }
    if (lock_)
      print(tune_best(plan, *result.runner) + message("\nall ", plan.trials.size(), " trials in ",
                                                      duration(seconds_now() - began), ": ", folder_, "/results.csv, ",
                                                      folder_, "/report.html\n"));
    return result.any ? success : failed;
  }

  struct Result {
    std::unique_ptr<TuneRunner> runner;
    bool finished = false, any = false;
    double seconds = 0;
  };

  void add(Options options) {
    for (Option& option : options) {
      option.group = "Search";
      option.brief = option.name != "rank-limit" && option.name != "restarts" && option.name != "launcher";
      verb_.options.push_back(std::move(option));
    }
  }
  std::string plan_file() const { return folder_ + "/tune.json"; }

  // ---- the plan ----
  TunePlan new_plan() {
    Settings scratch = base_;
    const Options options = training_options(scratch);
    std::vector<Dimension> dimensions;
    for (const std::string& text : grids_) add_grid(dimensions, text, options);
    for (const std::string& text : ranges_) add_range(dimensions, text, options);
    // The experiment of the study that these three come from.
    if (dimensions.empty() && compare_ && base_.layers.empty() && base_.net.empty())
      add_grid(dimensions, "net=mlp-small,mlp-medium,mlp-big", options);
    expects<UsageError>(!dimensions.empty(),
                        "--grid is missing: which options to try, such as --grid learning-rate=0.1,0.01");
    TunePlan plan;
    plan.trials = random_ > 0 ? drawn_combinations(dimensions, random_, base_.seed) : every_combination(dimensions);
    plan.halving = halving_;
    return plan;
  }

  TunePlan saved_plan(OptionNames chosen) {
    const Json saved = read_json_file(plan_file(), std::size_t{64} << 20);
    expects<FileError>(saved.is_object() && saved.contains("trials") && saved.contains("options"), plan_file(),
                       ": expected the plan of a search");
    const Json& options = saved["options"];
    expects<FileError>(options.is_object(), plan_file(), ": expected the plan of a search");
    expect_same(
        verb_.options, chosen, [](const std::string& name) { return !may_change(name); }, options, folder_);
    chosen.insert({"grid", "range", "random"});
    try {
      apply_config(verb_.options, options, plan_file(), chosen);
    } catch (const UsageError& error) {
      throw FileError(error.what());  // not from the command line
    }
    TunePlan plan;
    plan.trials = trials_from(saved["trials"], plan_file());
    plan.halving = halving_;
    return plan;
  }

  void share_out(TunePlan& plan, const Device& device, const parallel::Group& processes) const {
    const bool host = device.mode().on_host();
    const auto threads = static_cast<std::size_t>(current_scope().context.threads);
    const auto places = device.mode().places != nullptr && device.mode().index == 0 ? device.mode().places->count : 1;
    plan.shared = processes.size() > 1;
    plan.limit = base_.rank_limit;
    plan.devices.clear();
    // With several processes, each is one rank.
    const int ranks = plan.shared ? 1 : ranks_ > 0 ? ranks_ : places;
    for (int rank = processes.rank(); rank < processes.rank() + ranks; ++rank)
      plan.devices.push_back(base_.mode == "auto" ? base_.mode : device_of_rank(device.mode(), rank));
    plan.jobs = jobs_ > 0 ? static_cast<std::size_t>(jobs_)
                : host    ? std::max<std::size_t>(1, threads / plan.devices.size())
                          : 8;
    plan.jobs = std::clamp<std::size_t>(plan.jobs, 1, plan.trials.size());
    plan.threads = static_cast<int>(std::max<std::size_t>(1, threads / (plan.jobs * plan.devices.size())));
  }

  void begin(const TunePlan& plan) {
    io::make_folders(folder_);
    if (!lock_) lock_.emplace(folder_);
    expects<UsageError>(!fs::exists(RunFolder::metrics_in(folder_)) && !fs::exists(RunFolder::config_in(folder_)),
                        folder_,
                        " holds a training, whose results and report a search would overwrite; choose another "
                        "--run");
    for (const std::string& file : {plan_file(), folder_ + "/results.csv", folder_ + "/report.html"})
      io::remove_leftovers(file);
    const std::string previous = folder_ + "/previous";
    if (fs::exists(plan_file())) {
      std::error_code ignored;
      fs::remove_all(previous, ignored);
      io::make_folders(previous);
      std::vector<fs::path> old;
      for (const auto& entry : fs::directory_iterator(folder_)) old.push_back(entry.path());
      for (const fs::path& path : old) {
        const std::string name = path.filename().string();
        if (name.starts_with("trial-") || name == "serial" || name == "parallel" || name == "tune.json" ||
            name == "results.csv" || name == "report.html")
          fs::rename(path, fs::path(previous) / name);
      }
      if (!base_.quiet) say(message("The search that was in ", folder_, " is now in ", previous, "."));
    }
    Json options = to_config(verb_.options);
    for (const char* name : {"run", "resume", "mode", "threads", "precision", "quiet", "grid", "range", "random",
                             "ranks", "parallel", "rank-limit", "restarts", "launcher"})
      options.erase(name);
    write_file(plan_file(), Json{{"options", options}, {"trials", to_json(plan.trials)}}.dump(1) + "\n");
  }

  // Resuming a search: its results so far do not exist yet.
  void begin_again(const TunePlan& plan) const {
    std::error_code ignored;
    for (const char* file : {"/results.csv", "/report.html"}) fs::remove(folder_ + file, ignored);
    for (std::size_t i = 0; i < plan.trials.size(); ++i) forget_failure(folder_ + "/" + trial_folder(i));
  }

  void introduce(const TunePlan& plan, const Device& device) const {
    std::fprintf(stderr, "%zu trials, %zu at a time, in mode %s", plan.trials.size(), plan.jobs, device.name().c_str());
    if (plan.devices.size() > 1) std::fprintf(stderr, " on each of %zu ranks", plan.devices.size());
    if (plan.shared) std::fputs(" of each process", stderr);
    if (device.mode().on_host())
      std::fprintf(stderr, " with %d thread%s each", plan.threads, plan.threads == 1 ? "" : "s");
    std::fputs("\n", stderr);
  }

  // ---- the search ----
  Result search(TunePlan& plan, const TrialData& data, const std::string& folder) {
    for (std::size_t i = 0; i < plan.trials.size(); ++i) plan.settings[i].run = folder + "/" + trial_folder(i);
    TuneTable table(plan, base_.quiet);
    Result result;
    TuneRunner* watched = nullptr;
    result.runner = std::make_unique<TuneRunner>(plan, data, [&] { table.update(*watched); });
    watched = result.runner.get();
    const double began = seconds_now();
    result.finished = result.runner->run();
    result.seconds = seconds_now() - began;
    table.finish(*result.runner);
    for (const TrialStatus& status : result.runner->status()) result.any |= status.state == TrialState::done;
    if (!lock_ && result.finished) stand_in(folder);
    if (!lock_) return result;
    write_file(folder + "/results.csv", tune_csv(plan, *result.runner, folder));
    if (const std::string report = tune_report(plan, *result.runner); !report.empty())
      write_file(folder + "/report.html", report);
    return result;
  }

  // If the first process is gone, another one writes the results.
  void stand_in(const std::string& folder) {
    std::error_code missing;
    try {
      if (!fs::exists(folder + "/results.csv", missing)) lock_.emplace(folder_);
      if (fs::exists(folder + "/results.csv", missing)) lock_.reset();
    } catch (const FileError&) {
      // The first process is writing.
    }
  }

  // ---- the experiment: one after another, then all at once ----
  int compare(TunePlan& plan, const TrialData& data, const Device& device) {
    const auto threads = static_cast<std::size_t>(current_scope().context.threads);
    TunePlan serial = plan, parallel = plan;
    serial.halving = parallel.halving = 0;
    serial.devices.resize(1);
    serial.jobs = 1;
    serial.threads = static_cast<int>(threads);
    const std::size_t ranks = plan.devices.size();
    parallel.jobs = jobs_ > 0 ? plan.jobs : (plan.trials.size() + ranks - 1) / ranks;
    const std::size_t at_once = std::min(ranks * parallel.jobs, plan.trials.size());
    parallel.threads = static_cast<int>(std::max<std::size_t>(1, threads / at_once));
    double seconds[2]{};
    TunePlan* const plans[]{&serial, &parallel};
    for (int i = 0; i < 2; ++i) {
      if (!base_.quiet) std::fputs(i == 0 ? "One after another:\n" : "All at once:\n", stderr);
      const std::string folder = folder_ + (i == 0 ? "/serial" : "/parallel");
      io::make_folders(folder);
      const Result result = search(*plans[i], data, folder);
      if (!result.finished) return 128 + training::SignalGuard::received();
      if (!result.any) return failed;
      seconds[i] = result.seconds;
    }
    std::size_t equal = 0;
    for (std::size_t i = 0; i < plan.trials.size(); ++i) {
      const auto file = [&](const TunePlan& which) { return RunFolder::model_in(which.settings[i].run); };
      equal += same_bytes(file(serial), file(parallel));
    }
    print(message(plan.trials.size(), " trainings in mode ", device.name(), ": one after another ",
                  fixed(seconds[0], 2), " s (", serial.threads, serial.threads == 1 ? " thread" : " threads", "), ",
                  at_once, " at once ", ranks > 1 ? message("on ", ranks, " ranks ") : std::string(),
                  fixed(seconds[1], 2), " s (", parallel.threads, parallel.threads == 1 ? " thread" : " threads",
                  " each): ", fixed(seconds[0] / seconds[1], 2), "x\n", equal, " of ", plan.trials.size(),
                  " models are the same in both, bit for bit\n"));
    return success;
  }

  static bool same_bytes(const std::string& a, const std::string& b) {
    std::string content[2];
    const std::string* const names[]{&a, &b};
    for (int i = 0; i < 2; ++i) {
      const io::InputFile file(*names[i]);
      content[i].resize(static_cast<std::size_t>(file.size()));
      file.read(0, std::as_writable_bytes(std::span(content[i])));
    }
    return content[0] == content[1];
  }

  Settings base_;
  std::optional<FolderLock> lock_;
  std::string folder_, config_, ignored_;
  std::vector<std::string> grids_, ranges_;
  std::int64_t random_ = 0, halving_ = 0;
  int jobs_ = 0, ranks_ = 0;
  std::string parallel_ = "threads";
  bool compare_ = false;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_tune() { return std::make_unique<Tune>(); }

}  // namespace tern::tool
