#pragma once
// The folder of a run: metrics.jsonl (one JSON object per event, the source of every chart), config.json, the
// checkpoints and the model.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"
#include "settings.hpp"

namespace tern::tool {

class RunFolder {
 public:
  /// The folder of a training: `--run`, else beside the model, else "run".
  static std::string path_of(const Settings& settings);
  static std::string model_in(const std::string& folder) { return folder + "/model.safetensors"; }
  static std::string checkpoints_in(const std::string& folder) { return folder + "/checkpoints"; }
  static std::string metrics_in(const std::string& folder) { return folder + "/metrics.jsonl"; }
  static std::string config_in(const std::string& folder) { return folder + "/config.json"; }

  explicit RunFolder(std::string path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();
  const std::string& path() const { return path_; }

  /// Moves what an earlier training left into the folder "previous", replacing its content. True if there was any.
  bool begin();
  /// Continues after `bytes` of the metrics: what a killed training wrote after its last checkpoint is cut off.
  void resume(std::uint64_t bytes);
  /// Appends an event; it is handed to the system when this returns.
  void write(const Json& event);
  /// Bytes of metrics so far.
  std::uint64_t bytes() const { return bytes_; }
  /// Called for every event.
  using Listener = std::function<void(const Json& event, const std::string& line)>;
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

 private:
  void open();

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::vector<Listener> listeners_;
};

/// For a folder that holds a search or a cross-validation, which folder to name instead: part of a sentence, else
/// empty.
std::string words_of_runs_in(const std::string& folder);

/// Passes on the events of a run one by one while reading: together they may take many times the memory of the file. An
/// incomplete last line is skipped. Throws FileError "file:line: ..."; also for a line of more than 64 MiB and a file
/// of more than 1 GiB, which no training writes.
void read_metrics(const std::string& folder, const std::function<void(Json event)>& take);
/// The same for the text of a file that begins with line `line`. Returns the number of bytes of whole lines.
std::size_t parse_metrics(std::string_view text, const std::string& file, const std::function<void(Json event)>& take,
                          std::size_t& line);

}  // namespace tern::tool
