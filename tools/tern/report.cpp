// `tern report`: the runs as one HTML file.

#include <cstdio>
#include <filesystem>

#include "errors.hpp"
#include "output.hpp"
#include "page.hpp"
#include "run_folder.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Report : public Command {
 public:
  Report() {
    Option out = text_option("out", "FILE", "the HTML file (default: report.html in the first run)", out_);
    out.group = "Results";
    out.kind = Value::file;
    out.brief = true;
    verb_ = {.name = "report",
             .summary = "Makes one HTML file from one or several runs: curves, confusion, examples, settings.",
             .synopsis = "RUN... [--out FILE]",
             .description =
                 "The file holds everything it needs and opens from disk. Of several runs it compares the curves and "
                 "shows which "
                 "settings differ.",
             .examples = {"tern report run", "tern report runs/a runs/b --out comparison.html"},
             .options = {std::move(out)},
             .positional = "RUN...",
             .positionals = &folders_};
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!folders_.empty(), "tern report needs the folder of a run, or several");
    keep_inputs(out_, folders_);
    std::vector<PageRun> runs;
    for (const std::string& folder : folders_) add(runs, folder, folder);
    const std::string name = out_.empty() ? folders_[0] + "/report.html" : out_;
    write_file(name, page(runs));
    print(name + "\n");
    return success;
  }

 private:
  // For a cross-validation, its result and all its folds.
  static void add(std::vector<PageRun>& runs, const std::string& folder, const std::string& name) {
    PageRun run{name, {}};
    std::size_t folds = 0;
    read_metrics(folder, [&](const Json& event) {
      if (event.value("event", Json()) == "folds" && event.contains("folds")) folds = event["folds"].size();
      run.lines.push_back(json_text(event));
    });
    expects<FileError>(!run.lines.empty(), RunFolder::metrics_in(folder),
                       ": found no events; of a cross-validation that has not ended, name the folders of its folds");
    runs.push_back(std::move(run));
    for (std::size_t i = 1; i <= folds; ++i) add(runs, message(folder, "/fold-", i), message(name, "/fold-", i));
  }

  std::vector<std::string> folders_;
  std::string out_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace tern::tool
