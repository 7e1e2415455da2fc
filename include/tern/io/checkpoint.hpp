#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tern/io/safetensors.hpp"

namespace tern::io {

/// A training state: tensors under prefixes ("model.", "optimizer.") and the position of the training.
struct Checkpoint {
  std::map<std::string, Tensor> tensors = {};
  std::map<std::string, std::string> metadata = {};  ///< free to use; keys that begin with "tern." belong to the
                                                     ///< library
  std::int64_t step = 0;                             ///< steps done; the number in the file name
  std::int64_t epoch = 0;                            ///< the current epoch
  std::int64_t batch = 0;             ///< batches done in this epoch: `loader.epoch(epoch, batch)` continues
  std::uint64_t seed = 0;             ///< of the Generator
  std::uint64_t random_position = 0;  ///< of the Generator

  /// Adds tensors under a prefix.
  void put(const std::string& prefix, const std::map<std::string, Tensor>& part);
  /// The tensors with a prefix, which is removed.
  std::map<std::string, Tensor> part(const std::string& prefix) const;
};

/// Writes `folder/checkpoint-<step>.safetensors`, then deletes all but the `keep` newest. Makes the folder if it is
/// missing; it belongs to one training at a time. Returns the file's name. Throws FileError; older checkpoints remain.
std::string save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep = 3);

/// Reads one file and verifies its SHA-256. Throws FileError.
Checkpoint load_checkpoint(const std::string& file);
/// The same for the content of a safetensors file; `name` is the file name in messages.
Checkpoint checkpoint_from(Safetensors content, const std::string& name);

/// The file name that save_checkpoint writes after this many steps.
std::string checkpoint_file(const std::string& folder, std::int64_t step);

/// The steps of the checkpoints in a folder, from their file names, largest first.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

/// The newest readable checkpoint.
struct Resumed {
  Checkpoint checkpoint;
  std::string file;
  std::vector<std::string> skipped;  ///< why newer files were skipped, one sentence each
};
/// No value if `folder` is missing or holds no checkpoint; FileError if it holds some and none is valid.
std::optional<Resumed> resume_checkpoint(const std::string& folder);

}  // namespace tern::io
