#include "run_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "errors.hpp"
#include "tern/io/file.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view model_ending = ".safetensors";

}  // namespace

std::string RunFolder::path_of(const Settings& settings) {
  if (!settings.run.empty()) return settings.run;
  if (settings.model.empty()) return "run";
  const std::string& model = settings.model;
  return (model.ends_with(model_ending) ? model.substr(0, model.size() - model_ending.size()) : model) + ".run";
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  io::make_folders(path_);
}

RunFolder::~RunFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RunFolder::begin() {
  expects<UsageError>(!fs::exists(path_ + "/tune.json"), path_,
                      " holds a search, whose results and report a training would overwrite; choose another --run");
  const std::string previous = path_ + "/previous";
  std::error_code error;
  bool any = false;
  std::vector<std::string> names{"metrics.jsonl", "config.json", "checkpoints", "model.safetensors",
                                 "report.html",   "tensorboard", "results.csv", "results.json"};
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.starts_with("fold-")) names.push_back(name);
  for (const std::string& name : names) {
    const std::string old = path_ + "/" + name;
    if (!fs::exists(fs::symlink_status(old, error))) continue;
    if (!any) {
      fs::remove_all(previous, error);
      io::make_folders(previous);
      any = true;
    }
    fs::rename(old, previous + "/" + name, error);
    expects<FileError>(!error, old, ": could not be moved to ", previous, ": ", error.message());
  }
  open();
  return any;
}

void RunFolder::resume(std::uint64_t bytes) {
  const std::string file = metrics_in(path_);
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (!error && size > bytes) fs::resize_file(file, bytes, error);
  expects<FileError>(!error || error == std::errc::no_such_file_or_directory, file,
                     ": could not be shortened: ", error.message());
  open();
}

void RunFolder::open() {
  const std::string file = metrics_in(path_);
  descriptor_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  expects<FileError>(descriptor_ >= 0, file, ": cannot be written: ", std::generic_category().message(errno));
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  bytes_ = end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

void RunFolder::write(const Json& event) {
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  // One write per line: a reader, or a kill, sees whole lines.
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    expects<FileError>(count > 0, metrics_in(path_), ": cannot be written: ", std::generic_category().message(errno),
                       errno == EFBIG ? "; raise the limit on the size of files (ulimit -f)"
                                      : "; free some space, or choose another --run");
    done += static_cast<std::size_t>(count);
  }
  bytes_ += line.size();
  for (const Listener& listener : listeners_) listener(event, line);
}

std::string words_of_runs_in(const std::string& folder) {
  std::error_code missing;
  if (fs::exists(folder + "/tune.json", missing))
    return "; it holds a search: name one of its trials, such as " + shell_word(folder + "/trial-001");
  if (fs::exists(folder + "/fold-1", missing))
    return "; it holds a cross-validation: name one of its folds, such as " + shell_word(folder + "/fold-1");
  return {};
}

void read_metrics(const std::string& folder, const std::function<void(Json event)>& take) {
  constexpr std::uint64_t part = std::uint64_t{1} << 20, longest_line = std::uint64_t{64} << 20,
                          most = std::uint64_t{1} << 30;
  const std::string file = RunFolder::metrics_in(folder);
  std::error_code missing;
  if (!fs::exists(file, missing))
    if (const std::string runs = words_of_runs_in(folder); !runs.empty())
      throw FileError(message(folder, ": found no metrics of a training", runs));
  const io::InputFile input(file);
  expects<FileError>(input.size() <= most, file, ": found ", input.size(),
                     " bytes, expected the metrics of a training, ", most, " at most");
  std::string text;
  text.reserve(static_cast<std::size_t>(std::min(input.size(), longest_line + part)));  // otherwise growing would hold
                                                                                        // it twice
  std::size_t line = 1;
  for (std::uint64_t read = 0; read < input.size();) {
    const auto count = static_cast<std::size_t>(std::min(part, input.size() - read));
    text.resize(text.size() + count);
    input.read(read, std::as_writable_bytes(std::span(text).last(count)));
    read += count;
    text.erase(0, parse_metrics(text, file, take, line));
    expects<FileError>(text.size() <= longest_line, file, ":", line, ": found a line of more than ", longest_line >> 20,
                       " MiB, expected the metrics of a training");
  }
}

std::size_t parse_metrics(std::string_view text, const std::string& file, const std::function<void(Json event)>& take,
                          std::size_t& line) {
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', begin), ++line) {
    const std::string place = message(file, ":", line);
    Json event = parse_json(text.substr(begin, end - begin), place);
    expects<FileError>(event.is_object(), place, ": expected an object");
    try {
      take(std::move(event));
    } catch (const Json::exception&) {
      throw FileError(place + ": found an event of another kind than tern train writes");
    }
    begin = end + 1;
  }
  return begin;
}

}  // namespace tern::tool
