// The study of batch sizes: trains networks in several modes with batches of 1 to 512 images, and writes the loss and
// the time of every step, and an HTML report. See `study --help` for the options; docs/study.md says what is measured
// and how.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "cell.hpp"
#include "machine.hpp"
#include "nets.hpp"
#include "report.hpp"
#include "results.hpp"

namespace {

using namespace tern;
using namespace tern::study;

volatile std::sig_atomic_t stop_requested = 0;

struct Options {
  std::vector<std::string> nets{"alexnet", "googlenet"}, modes, precisions{"strict"};
  std::vector<std::int64_t> batches{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  Setting setting;
  std::string out = "study", machine, commit, command;
  double seconds_per_cell = 0;
  bool report_only = false;
};

// The cells in the order in which they run. Modes on the host compute in strict float32 whatever is requested.
std::vector<CellKey> cells_of(const Options& options) {
  std::vector<CellKey> keys;
  for (const std::string& net : options.nets)
    for (const std::string& name : options.modes)
      for (const std::string& precision :
           mode(name).on_host() ? std::vector<std::string>{"strict"} : options.precisions)
        for (const std::int64_t batch : options.batches) keys.push_back({net, name, precision, batch});
  return keys;
}

void check(Options& options) {
  for (const std::string& net : options.nets)
    expects(std::count(net_names().begin(), net_names().end(), net) > 0, "net \"", net, "\" is unknown");
  for (const std::string& precision : options.precisions) precision_of(precision);
  if (options.modes.empty())
    for (const ModeStatus& status : modes())
      if (status.available && status.name != "sequential") options.modes.push_back(status.name);
  for (const std::string& name : options.modes) mode(name);
  std::sort(options.batches.begin(), options.batches.end());
  const Setting& setting = options.setting;
  for (const std::int64_t batch : options.batches)
    expects(batch >= 1 && batch <= setting.images, "a batch of ", batch, " cannot be taken from ", setting.images,
            " images; change --batches or --images");
  expects(setting.epochs >= 1, "--epochs ", setting.epochs, ": at least 1 is needed");
}

// The study in `out`, begun before or now.
Study open_study(const Options& options) {
  const Machine machine = describe_machine(options.machine, options.setting.threads);
  std::optional<Study> known = read_study(options.out);
  if (known) {
    const std::string changed = difference(known->setting, options.setting);
    expects(changed.empty(), options.out, ": holds a study with other options (", changed, "); choose another --out");
    expects(known->machine.name == machine.name, options.out, ": holds a study of the machine ", known->machine.name,
            ", this is ", machine.name, "; choose another --out");
    if (known->command.find(options.command) == std::string::npos) known->command += "; " + options.command;
    return *known;
  }
  Study study;
  study.setting = options.setting;
  study.machine = machine;
  study.command = options.command;
  study.date = present_date();
  study.data = describe_images(options.setting);
  return study;
}

void say(const Cell& cell) {
  std::cerr << std::left << std::setw(10) << cell.key.net << std::setw(16) << title_of(cell.key) << "batch "
            << std::setw(4) << cell.key.batch << std::right << std::fixed << std::setprecision(3);
  if (cell.time.median > 0)
    std::cerr << std::setw(12) << cell.time.median * 1e3 << " ms a step, " << std::setprecision(0)
              << static_cast<double>(cell.key.batch) / cell.time.median << " images/s, " << std::setprecision(2)
              << cell.peak_bytes * 1e-9 << " GB, loss " << std::setprecision(3) << cell.loss.front() << " to "
              << cell.loss.back() << ", " << cell.loss.size() << " steps in " << std::setprecision(1) << cell.seconds
              << " s";
  if (!cell.note.empty()) std::cerr << "  " << cell.note;
  std::cerr << std::endl;
}

// Runs the missing cells. False if a signal stopped it.
bool run(const Options& options, Study& study) {
  std::string loaded_net;
  data::Dataset images;
  double image_bytes = 0, parameter_bytes = 0;
  for (const CellKey& key : cells_of(options)) {
    if (std::optional<Cell> done = read_cell(options.out, key)) {
      end_attempt(options.out, key);  // a kill may have come just before that
      study.cells.push_back(std::move(*done));
      continue;
    }
    if (stop_requested) return false;
    if (loaded_net != key.net) {
      images = {};
      const auto net = make_net(key.net, study.setting);
      study.nets[key.net] = facts_of(*net);
      image_bytes = bytes_per_image(*net);
      parameter_bytes = 4 * static_cast<double>(net->parameter_count());
      images = load_images(study.setting, net->image_size(), net->classes());
      loaded_net = key.net;
    }
    add_roofline(study.machine, key, study.setting.threads);
    write_study(options.out, study);
    Cell cell;
    if (const int attempt = begin_attempt(options.out, key); attempt > 3) {
      cell.key = key;
      cell.note = message("the program ended inside this cell ", attempt - 1, " times, perhaps for want of memory");
    } else {
      try {
        cell =
            run_cell(key, {study.setting, images, study.cells, image_bytes, parameter_bytes, options.seconds_per_cell,
                           study.machine.roofline.at(roofline_key(key)), [] { return stop_requested != 0; }});
      } catch (const Interrupted&) {
        end_attempt(options.out, key);
        return false;
      }
    }
    cell.commit = options.commit;
    write_cell(options.out, cell);
    end_attempt(options.out, key);
    say(cell);
    study.cells.push_back(std::move(cell));
  }
  return true;
}

int study_main(const Options& options) {
  io::make_folders(options.out);
  if (options.report_only) {
    std::optional<Study> study = read_study(options.out);
    expects<FileError>(study.has_value(), options.out, ": holds no study");
    study->cells = read_cells(options.out);
    write_tables(options.out, *study);
    write_text(options.out + "/report.html", report(*study));
    return 0;
  }
  Study study = open_study(options);
  const bool finished = run(options, study);
  study.cells = read_cells(options.out);
  write_tables(options.out, study);
  write_text(options.out + "/report.html", report(study));
  std::cerr << (finished ? "report: "
                         : "interrupted; the same command continues where this one stopped. Report so far: ")
            << options.out << "/report.html\n";
  return finished ? 0 : 130;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Setting& setting = options.setting;
  CLI::App app{
      "Trains networks in several modes and batch sizes; writes the loss and time of every step and a report.\n"
      "Started again with the same options it continues where it stopped.\n"
      "Example: study --nets alexnet --batches 1,32,128 --seconds-per-cell 60 --out study"};
  app.add_option("--nets", options.nets, "alexnet, googlenet, vgg16, resnet18; the first two by default")
      ->delimiter(',');
  app.add_option("--modes", options.modes, "modes; by default those that are present, but not sequential")
      ->delimiter(',');
  app.add_option("--batches", options.batches, "batch sizes; 1, 2, 4 ... 512 by default")->delimiter(',');
  app.add_option("--precision", options.precisions, "strict, tf32, bf16; strict by default")->delimiter(',');
  app.add_option("--epochs", setting.epochs, "passes over the images; 10 by default");
  app.add_option("--images", setting.images, "images of an epoch; 1024 by default");
  app.add_option("--data", setting.data, "a folder with a folder of images per class, or synthetic (the default)");
  app.add_option("--classes", setting.classes, "different labels of synthetic images; 10 by default");
  app.add_option("--learning-rate", setting.learning_rate,
                 "from a batch of 32 on, proportional to smaller ones; 0.001 by default");
  app.add_option("--seed", setting.seed, "of weights, order, dropout and synthetic images");
  app.add_option("--steps", setting.steps, "the most steps of a cell; all epochs by default");
  app.add_option(
      "--seconds-per-cell", options.seconds_per_cell,
      "cut a cell after this time, and do not run one of which two steps would take longer; never by default");
  app.add_option("--image-size", setting.image_size, "height and width of the images; the network's own by default");
  app.add_option("--width-divisor", setting.width_divisor, "divides all channels: small networks for a trial");
  app.add_option("--threads", setting.threads, "threads of the vectorized mode; all cores by default");
  app.add_option("--memory-limit", setting.memory_limit_gb, "gigabytes that a mode may take; all there are by default");
  app.add_option("--machine", options.machine, "name for the files; made from the processor by default");
  app.add_option("--commit", options.commit, "of the sources, for the report");
  app.add_option("--out", options.out, "folder of the results; study by default");
  app.add_flag("--report-only", options.report_only, "make the tables and the report again from what is in --out");
  CLI11_PARSE(app, argc, argv);
  for (int i = 0; i < argc; ++i) options.command += (i == 0 ? "study" : std::string(" ") + argv[i]);
  std::signal(SIGINT, [](int) { stop_requested = 1; });
  std::signal(SIGTERM, [](int) { stop_requested = 1; });
  try {
    check(options);
    return study_main(options);
  } catch (const std::exception& error) {
    std::cerr << "study: " << error.what() << '\n';
    return 1;
  }
}
