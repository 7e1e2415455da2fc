#pragma once

#include <string>

namespace tern::tool {

/// Keeps a folder for one process, until it goes or ends in whatever way. Nothing is written into the folder.
class FolderLock {
 public:
  /// Throws FileError when another process, or another lock of this one, has it. File systems that know no locks give
  /// none.
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

}  // namespace tern::tool
