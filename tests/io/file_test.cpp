#include "tern/io/file.hpp"

#include <sys/stat.h>

#include <array>
#include <set>

#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::io {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

void write_whole(const std::string& file, std::string_view content) {
  AtomicFile output(file);
  output.write(as_bytes(content));
  output.commit();
}

}  // namespace

TEST_CASE("files: an atomic file appears at commit and replaces the older one", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "file";
  write_bytes(file, "old");
  {
    AtomicFile output(file);
    output.write(as_bytes("ne"));
    output.write(as_bytes("w"));
    CHECK(read_bytes(file) == "old");
    CHECK(read_bytes(output.temporary_name()) == "new");
    output.commit();
  }
  CHECK(read_bytes(file) == "new");
  CHECK(folder.entries() == 1);
}

TEST_CASE("files: without a commit nothing remains", "[io]") {
  const TemporaryFolder folder;
  {
    AtomicFile output(folder / "file");
    output.write(as_bytes("half"));
  }
  CHECK(folder.entries() == 0);
}

TEST_CASE("files: two writers of one name do not mix", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "file";
  AtomicFile first(file), second(file);
  first.write(as_bytes("first"));
  second.write(as_bytes("second"));
  first.commit();
  CHECK(read_bytes(file) == "first");
  second.commit();
  CHECK(read_bytes(file) == "second");
  CHECK(folder.entries() == 1);
}

TEST_CASE("files: a temporary name cannot be guessed, nor taken beforehand", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "file";
  constexpr std::size_t count = 8;
  std::set<std::string> names;
  std::size_t with_process = 0;  // random digits may be those of its number as well
  for (std::size_t i = 0; i < count; ++i) {
    const AtomicFile output(file);
    const std::string name = output.temporary_name().substr(file.size());
    CHECK(name.starts_with(".tmp."));
    CHECK(name.size() >= 5 + 16);  // 64 bits
    if (name.find(std::to_string(::getpid())) != std::string::npos) ++with_process;
    names.insert(name);
  }
  CHECK(names.size() == count);
  CHECK(with_process < count);
}

TEST_CASE("files: leftovers of killed writers go, other files stay", "[io]") {
  const TemporaryFolder folder;
  for (const char* name : {"file", "file.tmp", "other.tmp.1", "file.tmp.0123456789abcdef", "file.tmp.99.0"})
    write_bytes(folder / name, name);
  remove_leftovers(folder / "file");
  CHECK(folder.entries() == 3);
  CHECK(read_bytes(folder / "file") == "file");
  CHECK(read_bytes(folder / "other.tmp.1") == "other.tmp.1");
  remove_leftovers(folder / "nowhere/file");
}

TEST_CASE("files: a limit on the size of files is named", "[io]") {
  const TemporaryFolder folder;
  const FileSizeLimit limit(1000);
  CHECK_THAT(said<FileError>([&] { write_whole(folder / "file", std::string(5000, 'x')); }),
             ContainsSubstring("File too large") && ContainsSubstring("ulimit -f"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("files: what cannot be written is an error that says why and what to do", "[io]") {
  const TemporaryFolder folder;
  CHECK_THAT(said<FileError>([&] { AtomicFile(folder / "none/file"); }),
             ContainsSubstring("none/file: cannot be written") && ContainsSubstring("check the name"));
  std::filesystem::create_directory(folder / "folder");
  CHECK_THAT(said<FileError>([&] { write_whole(folder / "folder", "x"); }), ContainsSubstring("renaming failed"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("files: a folder that cannot be written", "[io]") {
  const TemporaryFolder folder;
  chmod(folder.path().c_str(), 0555);
  const Unprivileged nobody;
  CHECK_THAT(said<FileError>([&] { write_whole(folder / "file", "x"); }),
             ContainsSubstring("Permission denied") && ContainsSubstring("choose another folder"));
  CHECK_THAT(said<FileError>([&] { make_folders(folder / "a/b"); }),
             ContainsSubstring("a/b: the folder cannot be created"));
}

TEST_CASE("files: a full disk leaves the older file and nothing else", "[io]") {
  const TemporaryFolder folder;
  const SmallDisk disk(folder / "disk", 64);
  if (!disk.mounted()) {
    WARN("no small disk can be mounted here: a limit on the size of files stands in for it");
  }
  const std::string file = folder / "disk/file";
  write_whole(file, "old");
  const std::string large(1 << 17, 'x');
  {
    const FileSizeLimit limit(disk.mounted() ? RLIM_INFINITY : rlim_t{60000});
    CHECK_THAT(said<FileError>([&] { write_whole(file, large); }),
               ContainsSubstring(file + ": writing failed") &&
                   ContainsSubstring(disk.mounted() ? "free some space" : "ulimit -f") &&
                   ContainsSubstring("nothing was changed"));
  }
  CHECK(read_bytes(file) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "disk"), {}) == 1);
}

TEST_CASE("files: only regular files are read, and only as far as they go", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "file", pipe = folder / "pipe";
  write_bytes(file, "12345");
  const InputFile input(file);
  CHECK(input.size() == 5);
  std::array<std::byte, 4> bytes{};
  input.read(1, bytes);
  CHECK(static_cast<char>(bytes[3]) == '5');
  CHECK_THAT(said<FileError>([&] { input.read(2, bytes); }), ContainsSubstring("cut short"));
  CHECK_THAT(said<FileError>([&] { InputFile(folder.path()); }), ContainsSubstring("found a folder"));
  CHECK_THAT(said<FileError>([&] { InputFile(folder / "none"); }), ContainsSubstring("No such file"));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(said<FileError>([&] { InputFile{pipe}; }), ContainsSubstring("expected a regular file"));
}

}  // namespace tern::io
