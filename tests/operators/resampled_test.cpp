// Resizing in modes of devices keeps its weights from call to call.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

std::vector<double> resized(const Tensor& x, op::Interpolation mode) {
  return op::interpolate(x, {14, 9}, {.mode = mode}).values();
}

std::int64_t calls_of(const auto& function) {
  const Profile profile;
  function();
  const ProfileTable table = profile.table();
  return std::accumulate(table.rows.begin(), table.rows.end(), std::int64_t{0},
                         [](std::int64_t sum, const ProfileRow& row) { return sum + (row.transfer ? 0 : row.calls); });
}

void check_kept(const std::string& mode) {
  const Device device{mode};
  const NoGrad none;
  Generator generator(3);
  const Tensor x = randn({2, 3, 5, 6}, generator), other = randn({2, 3, 5, 6}, generator);
  for (const op::Interpolation way : {op::Interpolation::bilinear, op::Interpolation::bicubic}) {
    const auto expected = [&](const Tensor& image) {
      const Device reference{"sequential"};
      return resized(image, way);
    };
    const std::int64_t first = calls_of([&] { resized(x, way); });
    const std::int64_t later = calls_of([&] { CHECK(resized(x, way).size() == 2 * 3 * 14 * 9); });
    INFO(mode << ": " << first << " and " << later << " calls");
    CHECK(later <= 4);
    Step step{[&](const Tensor& image) { return op::interpolate(image, {14, 9}, {.mode = way}); }};
    for (int call = 0; call < 5; ++call) {
      const Tensor& image = call % 2 == 0 ? x : other;
      const std::vector<double> found = step(image).values(), wanted = expected(image);
      for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(std::abs(found[i] - wanted[i]) <= 1e-5);
    }
    CHECK(step.replays() > 0);
    CHECK(step.unrecorded().empty());
  }
}

}  // namespace

TEST_CASE("interpolate: a device keeps what its sizes decide, and recordings read it", "[operators]") {
  check_kept("debug:vectorized");
}
TEST_CASE("interpolate: cuda keeps what its sizes decide, and recordings read it", "[operators][cuda]") {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::find(modes.begin(), modes.end(), "cuda") == modes.end()) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  check_kept("cuda");
}
