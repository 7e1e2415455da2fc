#include "run_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "errors.hpp"
#include "tern/io/file.hpp"

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
  const std::string previous = path_ + "/previous";
  std::error_code error;
  bool any = false;
  for (const char* name :
       {"metrics.jsonl", "config.json", "checkpoints", "model.safetensors", "report.html", "tensorboard"}) {
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
  // One write per line: a reader, or a kill, finds whole lines.
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    expects<FileError>(count > 0, metrics_in(path_), ": cannot be written: ", std::generic_category().message(errno),
                       "; free some space, or choose another --run");
    done += static_cast<std::size_t>(count);
  }
  bytes_ += line.size();
  for (const Listener& listener : listeners_) listener(event, line);
}

void read_metrics(const std::string& folder, const std::function<void(Json event)>& take) {
  const std::string file = RunFolder::metrics_in(folder);
  const io::InputFile input(file);
  std::string text(static_cast<std::size_t>(input.size()), '\0');
  input.read(0, std::as_writable_bytes(std::span(text)));
  parse_metrics(text, file, take);
}

void parse_metrics(std::string_view text, const std::string& file, const std::function<void(Json event)>& take) {
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string place = message(file, ":", line);
    Json event = parse_json(text.substr(0, end), place);
    expects<FileError>(event.is_object(), place, ": expected an object");
    take(std::move(event));
    text.remove_prefix(end + 1);
  }
}

}  // namespace tern::tool
