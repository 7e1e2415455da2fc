#include "tern/io/download.hpp"

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/sha256.hpp"

namespace tern::io {

using Catch::ContainsSubstring;
using namespace testing;

TEST_CASE("download: the first address that delivers the right bytes wins", "[io]") {
  if (std::system("curl --version > /dev/null 2>&1") != 0) {
    WARN("skipped: curl is not installed, and wget reads no file:// addresses");
    return;
  }
  const TemporaryFolder folder;
  // A name that a shell would take apart.
  const std::string right = folder / "right; rm -rf $HOME", wrong = folder / "wrong";
  write_bytes(right, "content");
  write_bytes(wrong, "contents");
  const std::string sum = sha256(as_bytes("content"));
  const std::string escaped = "file://" + (folder / "right;%20rm%20-rf%20$HOME");

  const std::string file = folder / "file";
  download({"file://" + (folder / "none"), "file://" + wrong, escaped}, file, sum);
  CHECK(read_bytes(file) == "content");
  CHECK(folder.entries() == 3);

  const std::string other = folder / "other";
  CHECK_THAT(said<FileError>([&] {
               download({"file://" + (folder / "none"), "file://" + wrong}, other, sum);
             }),
             ContainsSubstring(other + ": could not be downloaded") && ContainsSubstring("/none: curl") &&
                 ContainsSubstring("its SHA-256 is " + sha256(as_bytes("contents")) + ", expected " + sum));
  CHECK(folder.entries() == 3);
}

TEST_CASE("download: no more is taken than the limit", "[io]") {
  if (std::system("curl --version > /dev/null 2>&1") != 0) {
    WARN("skipped: curl is not installed, and wget reads no file:// addresses");
    return;
  }
  const TemporaryFolder folder;
  const std::string content(3'000'000, 'x'), sum = sha256(as_bytes(content));
  write_bytes(folder / "large", content);
  const std::string address = "file://" + (folder / "large");
  CHECK_THAT(said<FileError>([&] { download({address}, folder / "file", sum, content.size() - 1); }),
             ContainsSubstring("more than the 2999999 bytes"));
  CHECK_THAT(said<FileError>([&] { download({"file:///dev/zero"}, folder / "file", sum, 1000); }),
             ContainsSubstring("/dev/zero"));
  CHECK(folder.entries() == 1);
  download({address}, folder / "file", sum, content.size());
  CHECK(read_bytes(folder / "file") == content);
}

TEST_CASE("download: without curl and wget the error says what to install", "[io]") {
  const TemporaryFolder folder;
  const Variable path("PATH", folder.path());
  CHECK_THAT(said<FileError>([&] { download({"file:///none"}, folder / "file", "0"); }),
             ContainsSubstring("neither curl nor wget is installed"));
}

}  // namespace tern::io
