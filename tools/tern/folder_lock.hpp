#pragma once

#include <string>

namespace tern::tool {

/// Locks a folder for one process, until it releases the lock or ends in any way. Nothing is written into the folder.
class FolderLock {
 public:
  /// Throws FileError if another process, or another lock of this one, holds it. File systems without locks give none.
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

}  // namespace tern::tool
