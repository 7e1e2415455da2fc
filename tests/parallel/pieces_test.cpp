#include "parallel/nccl/pieces.hpp"

#include <array>

#include "support/catch.hpp"

namespace tern::testing {

using parallel::Piece;
using parallel::Pieces;

TEST_CASE("pieces: each begins at a unit, in messages of limited size", "[parallel]") {
  std::array<float, 64> memory{};
  const auto piece = [&](std::size_t first, std::size_t count) { return Piece{memory.data() + first, count}; };
  const std::vector<Pieces> messages =
      parallel::messages_of(std::vector{piece(0, 4), piece(9, 0), piece(5, 1), piece(8, 9), piece(20, 40)}, 4, 192);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].count == 3);
  CHECK(messages[0].units() == 1 + 1 + 3);
  CHECK(messages[0].begin[1] == 1);
  CHECK(messages[0].begin[2] == 2);
  CHECK(messages[0].words[1] == 1);
  CHECK(messages[0].data[2] == static_cast<void*>(memory.data() + 8));
  CHECK(messages[1].count == 1);
  CHECK(messages[1].bytes() == 160);
}

TEST_CASE("pieces: of eight bytes, and more than a kernel takes", "[parallel]") {
  std::array<double, Pieces::most + 1> memory{};
  std::vector<Piece> pieces;
  for (double& element : memory) pieces.push_back({&element, 1});
  const std::vector<Pieces> messages = parallel::messages_of(pieces, 8, 1 << 20);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].count == Pieces::most);
  CHECK(messages[0].words[0] == 2);
  CHECK(messages[0].units() == Pieces::most);
  CHECK(messages[1].data[0] == static_cast<void*>(&memory.back()));
  CHECK(parallel::messages_of({}, 4, 64).empty());
}

}  // namespace tern::testing
