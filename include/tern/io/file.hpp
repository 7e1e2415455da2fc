#pragma once
// Files read and written with every error checked: FileError names the file, the cause and what to do.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tern::io {

/// A regular file open for reading.
class InputFile {
 public:
  explicit InputFile(const std::string& file);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& name() const { return name_; }
  /// Size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `bytes` starting at `position`; a file that ends earlier is a FileError.
  void read(std::uint64_t position, std::span<std::byte> bytes) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file that appears complete or not at all: written beside its place under a temporary name, flushed to disk and
/// renamed by `commit`. Without a commit nothing remains, and an older file of the name is unchanged. The temporary
/// name cannot be guessed, and an existing file or link of that name is never opened.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& file);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void commit();
  /// Where the bytes are until `commit`.
  const std::string& temporary_name() const { return temporary_; }

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::string name_, temporary_;
  int descriptor_ = -1;
};

/// Removes temporary files that killed writers of `file` left behind. No process may be writing `file` meanwhile.
void remove_leftovers(const std::string& file);

/// Creates `folder` and its parents. Throws FileError.
void make_folders(const std::string& folder);

}  // namespace tern::io
