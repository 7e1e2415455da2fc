#include "tern/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "tern/core/error.hpp"

namespace tern::io {

namespace {

const char* advice(int error) {
  switch (error) {
    case ENOENT:
      return "; check the name, and that the folder exists";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the permissions, or choose another folder";
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or choose another folder";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f), or choose another file system";
    default:
      return "";
  }
}

std::string reason(int error) { return std::generic_category().message(error) + advice(error); }

std::string folder_of(const std::string& file) {
  const auto slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

constexpr const char* temporary_mark = ".tmp.";

std::string random_digits() {
  std::uint64_t number = 0;
  const bool drawn = ::getentropy(&number, sizeof number) == 0;
  expects<FileError>(drawn, "no random number for a temporary name: ", std::generic_category().message(errno));
  std::string digits;
  for (int i = 0; i < 16; ++i, number >>= 4) digits += "0123456789abcdef"[number & 15];
  return digits;
}

// A name is on the disk only when its folder is. File systems that cannot flush a folder (EINVAL) have nothing to
// flush.
int flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = ::fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  ::close(descriptor);
  return error;
}

}  // namespace

InputFile::InputFile(const std::string& file) : name_(file) {
  // O_NONBLOCK: opening a pipe without a writer must not hang. It changes nothing for regular files.
  descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  expects<FileError>(descriptor_ >= 0, file, ": cannot be opened: ", reason(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw FileError(
        message(file, ": expected a regular file", known && S_ISDIR(status.st_mode) ? ", found a folder" : ""));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t position, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(position + done));
    if (count < 0 && errno == EINTR) continue;
    expects<FileError>(count >= 0, name_, ": cannot be read: ", reason(errno));
    expects<FileError>(count > 0, name_, ": ended at byte ", position + done, " while ", bytes.size() - done,
                       " more were expected; the file was cut short");
    done += static_cast<std::size_t>(count);
  }
}

AtomicFile::AtomicFile(const std::string& file) : name_(file) {
  do {
    temporary_ = file + temporary_mark + random_digits();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  expects<FileError>(descriptor_ >= 0, file, ": cannot be written: ", reason(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what, int error) const {
  throw FileError(message(name_, ": ", what, " failed: ", reason(error), "; nothing was changed"));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("writing", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("writing the file to disk", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("closing", errno);
  if (::rename(temporary_.c_str(), name_.c_str()) != 0) fail("renaming", errno);
  temporary_.clear();
  if (const int error = flush_folder(folder_of(name_)))
    throw FileError(message(name_, ": is written, but its folder could not be flushed to the disk: ", reason(error)));
}

void remove_leftovers(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string beginning = path.filename().string() + temporary_mark;
  std::vector<std::filesystem::path> leftovers;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder_of(file), ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (entry->path().filename().string().starts_with(beginning)) leftovers.push_back(entry->path());
  for (const auto& leftover : leftovers) std::filesystem::remove(leftover, ignored);
}

void make_folders(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  expects<FileError>(!error, folder, ": the folder cannot be created: ", error.message(), advice(error.value()));
}

}  // namespace tern::io
