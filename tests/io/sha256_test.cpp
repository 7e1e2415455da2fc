#include "tern/io/sha256.hpp"

#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::io {

using testing::as_bytes;

TEST_CASE("sha256: the examples of FIPS 180-4", "[io]") {
  CHECK(sha256({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256(as_bytes("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(as_bytes(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: pieces of any size add up", "[io]") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i % 26);
  for (std::size_t length = 0; length <= text.size(); length += 7)
    for (const std::size_t piece : {1u, 3u, 63u, 64u, 65u, 200u}) {
      const std::string part = text.substr(0, length);
      Sha256 sum;
      for (std::size_t i = 0; i < part.size(); i += piece)
        sum.update(as_bytes(std::string_view(part).substr(i, piece)));
      REQUIRE(sum.hexadecimal() == sha256(as_bytes(part)));
    }
}

TEST_CASE("sha256: of a file", "[io]") {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "file";
  const std::string content(200'001, 'x');
  testing::write_bytes(file, content);
  CHECK(sha256_of_file(file) == sha256(as_bytes(content)));
  CHECK_THROWS_AS(sha256_of_file(folder / "none"), FileError);
}

}  // namespace tern::io
