#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tern/io/safetensors.hpp"

namespace tern::io {

/// A training state: tensors under prefixes ("model.", "optimizer.") and where the training stands.
struct Checkpoint {
  std::map<std::string, Tensor> tensors = {};
  std::map<std::string, std::string> metadata = {};  ///< free; keys that begin with "tern." are the library's
  std::int64_t step = 0;                             ///< steps done; numbers the file
  std::int64_t epoch = 0;                            ///< the current epoch
  std::int64_t batch = 0;             ///< batches of it that are done: `loader.epoch(epoch, batch)` goes on
  std::uint64_t seed = 0;             ///< of the Generator
  std::uint64_t random_position = 0;  ///< of the Generator

  /// Adds tensors under a prefix.
  void put(const std::string& prefix, const std::map<std::string, Tensor>& part);
  /// The tensors under a prefix, without it.
  std::map<std::string, Tensor> part(const std::string& prefix) const;
};

/// Writes `folder/checkpoint-<step>.safetensors` and then deletes all but the `keep` newest. The folder is made when it
/// is missing and belongs to one training at a time. Returns the file's name. Throws FileError; older checkpoints
/// remain.
std::string save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep = 3);

/// Reads one file and verifies its SHA-256. Throws FileError.
Checkpoint load_checkpoint(const std::string& file);
/// The same from what a safetensors file held; `name` is the file name in messages.
Checkpoint checkpoint_from(Safetensors content, const std::string& name);

/// The name of the file that save_checkpoint writes after so many steps.
std::string checkpoint_file(const std::string& folder, std::int64_t step);

/// The steps of the checkpoints in a folder, by the names of their files, largest first.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

/// The newest checkpoint that can be read.
struct Resumed {
  Checkpoint checkpoint;
  std::string file;
  std::vector<std::string> skipped;  ///< why newer files were not taken, one sentence each
};
/// Nothing when `folder` is missing or holds no checkpoint; FileError when it holds some and none is valid.
std::optional<Resumed> resume_checkpoint(const std::string& folder);

}  // namespace tern::io
