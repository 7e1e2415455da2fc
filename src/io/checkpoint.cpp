#include "tern/io/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "io/checkpoint_sum.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/io/sha256.hpp"

namespace tern::io {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view format = "tern.checkpoint.1";
constexpr std::string_view name_begin = "checkpoint-", name_end = ".safetensors", reserved = "tern.";

std::string file_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  std::string name(name_begin);
  name.append(digits.size() < 12 ? 12 - digits.size() : 0, '0');
  return name.append(digits).append(name_end);
}

// The whole `text` as an integer of type T; no value otherwise.
template <class T>
std::optional<T> integer(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return std::nullopt;
  name.remove_prefix(name_begin.size());
  name.remove_suffix(std::min(name.size(), name_end.size()));
  const auto step = integer<std::int64_t>(name);
  return step && *step >= 0 ? step : std::nullopt;
}

struct Found {
  std::int64_t step;
  std::string file;
};

// The checkpoints of a folder, newest first.
std::vector<Found> checkpoints_in(const std::string& folder) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (const auto step = step_of(entry->path().filename().string())) found.push_back({*step, entry->path().string()});
  expects<FileError>(!error || error == std::errc::no_such_file_or_directory, folder,
                     ": the folder of checkpoints cannot be read: ", error.message());
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step > b.step; });
  return found;
}

// Temporary files that a killed process left behind.
void remove_all_leftovers(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto mark = name.find(".tmp.");
    if (mark != std::string::npos && step_of(std::string_view(name).substr(0, mark)))
      leftovers.push_back(entry->path());
  }
  for (const fs::path& path : leftovers) fs::remove(path, error);
}

template <class T>
T take(std::map<std::string, std::string>& metadata, const std::string& key, const std::string& file) {
  const auto found = metadata.find(key);
  const auto value = found == metadata.end() ? std::nullopt : integer<T>(found->second);
  expects<FileError>(value.has_value(), file, ": an incomplete checkpoint: the metadata '", key,
                     "' is missing or not a number");
  metadata.erase(found);
  return *value;
}

}  // namespace

// Names, shapes and metadata are part of the sum: the right bytes under another name or step are another checkpoint.
std::string checkpoint_sum(const std::map<std::string, Tensor>& tensors,
                           const std::map<std::string, std::string>& metadata) {
  Sha256 sum;
  const auto add = [&](const std::string& text) {
    sum.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  std::vector<std::byte> swapped;
  for (const auto& [name, tensor] : tensors) {
    add(name);
    add(message(tensor.dtype(), tensor.shape()));
    const Tensor whole = tensor.detach().contiguous();
    sum.update(bytes_in(std::endian::little, whole, swapped));  // as in the file
  }
  for (const auto& [key, value] : metadata) {
    if (key == checkpoint_sum_key) continue;
    add(key);
    add(value);
  }
  return sum.hexadecimal();
}

void Checkpoint::put(const std::string& prefix, const std::map<std::string, Tensor>& part) {
  for (const auto& [name, tensor] : part) tensors[prefix + name] = tensor;
}

std::map<std::string, Tensor> Checkpoint::part(const std::string& prefix) const {
  std::map<std::string, Tensor> result;
  for (auto found = tensors.lower_bound(prefix); found != tensors.end() && found->first.starts_with(prefix); ++found)
    result.emplace(found->first.substr(prefix.size()), found->second);
  return result;
}

std::string save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep) {
  expects<FileError>(keep >= 1, folder, ": save_checkpoint: expected to keep at least 1 checkpoint, found ", keep);
  expects<FileError>(checkpoint.step >= 0 && checkpoint.epoch >= 0 && checkpoint.batch >= 0, folder,
                     ": save_checkpoint: step, epoch and batch count from 0");
  std::map<std::string, std::string> metadata = checkpoint.metadata;
  for (const auto& [key, value] : metadata)
    expects<FileError>(!key.starts_with(reserved), folder, ": save_checkpoint: metadata that begins with '", reserved,
                       "' is reserved, choose another name than '", key, "'");
  metadata["tern.format"] = format;
  metadata["tern.step"] = std::to_string(checkpoint.step);
  metadata["tern.epoch"] = std::to_string(checkpoint.epoch);
  metadata["tern.batch"] = std::to_string(checkpoint.batch);
  metadata["tern.seed"] = std::to_string(checkpoint.seed);
  metadata["tern.random_position"] = std::to_string(checkpoint.random_position);
  metadata[checkpoint_sum_key] = checkpoint_sum(checkpoint.tensors, metadata);

  make_folders(folder);
  remove_all_leftovers(folder);
  std::string file = checkpoint_file(folder, checkpoint.step);
  save_safetensors(file, checkpoint.tensors, metadata);
  // The new file is safe before an old one is deleted. Failing to delete a file costs space, not the checkpoint.
  const auto found = checkpoints_in(folder);
  int kept = 0;
  for (const Found& old : found) {
    if (old.step > checkpoint.step || ++kept <= keep) continue;
    std::error_code ignored;
    fs::remove(old.file, ignored);
  }
  return file;
}

Checkpoint load_checkpoint(const std::string& file) { return checkpoint_from(load_safetensors(file), file); }

Checkpoint checkpoint_from(Safetensors content, const std::string& file) {
  auto& metadata = content.metadata;
  const auto found_format = metadata.find("tern.format");
  expects<FileError>(found_format != metadata.end(), file, ": not a checkpoint: the metadata 'tern.format' is missing");
  expects<FileError>(found_format->second == format, file, ": expected a checkpoint of format '", format,
                     "'; a newer version of the library may have written it");
  const auto sum = metadata.find(checkpoint_sum_key);
  expects<FileError>(sum != metadata.end() && sum->second == checkpoint_sum(content.tensors, metadata), file,
                     ": the checkpoint is damaged: its content does not have the SHA-256 that was written with it");
  metadata.erase(sum);
  metadata.erase("tern.format");
  Checkpoint checkpoint;
  checkpoint.step = take<std::int64_t>(metadata, "tern.step", file);
  checkpoint.epoch = take<std::int64_t>(metadata, "tern.epoch", file);
  checkpoint.batch = take<std::int64_t>(metadata, "tern.batch", file);
  checkpoint.seed = take<std::uint64_t>(metadata, "tern.seed", file);
  checkpoint.random_position = take<std::uint64_t>(metadata, "tern.random_position", file);
  expects<FileError>(checkpoint.step >= 0 && checkpoint.epoch >= 0 && checkpoint.batch >= 0, file,
                     ": not a checkpoint: a negative step, epoch or batch");
  checkpoint.tensors = std::move(content.tensors);
  checkpoint.metadata = std::move(metadata);
  return checkpoint;
}

std::string checkpoint_file(const std::string& folder, std::int64_t step) { return folder + "/" + file_name(step); }

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const Found& found : checkpoints_in(folder)) steps.push_back(found.step);
  return steps;
}

std::optional<Resumed> resume_checkpoint(const std::string& folder) {
  Resumed resumed;
  for (const Found& found : checkpoints_in(folder)) {
    try {
      resumed.checkpoint = load_checkpoint(found.file);
      resumed.file = found.file;
      return resumed;
    } catch (const FileError& error) {
      resumed.skipped.emplace_back(error.what());
    }
  }
  if (resumed.skipped.empty()) return std::nullopt;
  std::string all;
  for (const std::string& sentence : resumed.skipped) all += "\n  " + sentence;
  throw FileError(message(folder, ": none of the checkpoints there is valid; move them away to start over:", all));
}

}  // namespace tern::io
