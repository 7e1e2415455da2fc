#pragma once
// Helpers for tests with files: a temporary folder, raw reading and writing, a full disk.

#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "tern/core/error.hpp"

namespace tern::testing {

/// An empty folder, removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern-test-XXXXXX").string();
    expects<FileError>(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));  // others may read it: see Unprivileged
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// The number of files and folders in it.
  int entries() const {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

inline void write_bytes(const std::string& file, std::string_view bytes) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  expects<FileError>(stream.flush().good(), file, ": not written");
}

inline std::string read_bytes(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  expects<FileError>(stream.good(), file, ": not there");
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Big-endian bytes of the 32-bit `value`.
inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(static_cast<unsigned char>(value >> shift));
  return bytes;
}

/// During its lifetime no file grows beyond `bytes` in this process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit old_{};
};

/// A file system of `kilobytes` at `folder`, if root may mount one.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, int kilobytes) : folder_(folder) {
    std::filesystem::create_directories(folder);
    mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, message("size=", kilobytes, "k").c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) umount(folder_.c_str());
  }
  bool mounted() const { return mounted_; }

 private:
  std::string folder_;
  bool mounted_ = false;
};

/// Root may write everywhere; during its lifetime this process is `nobody`.
class Unprivileged {
 public:
  Unprivileged() {
    if (geteuid() == 0) changed_ = seteuid(65534) == 0;
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (changed_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool changed_ = false;
};

/// Sets an environment variable (empty: removes it) and restores it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      had_ = true;
      old_ = old;
    }
    set(!value.empty(), value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(had_, old_); }

 private:
  void set(bool present, const std::string& value) {
    if (present)
      setenv(name_, value.c_str(), 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  bool had_ = false;
  std::string old_;
};

/// The message that `action` throws; empty if it throws no `Kind`.
template <class Kind, class Action>
std::string said(Action action) {
  try {
    action();
  } catch (const Kind& error) {
    return error.what();
  }
  return {};
}

}  // namespace tern::testing
