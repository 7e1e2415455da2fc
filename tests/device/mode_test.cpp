#include "tern/modes/mode.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "support/catch.hpp"
#include "support/places.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/plugin.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

std::atomic<int> calls{0};

void counting_add(Context&, float* out, const float* a, const float* b, const kernels::Broadcast& sizes) {
  ++calls;
  for (std::int64_t i = 0; i < sizes.count; ++i) out[i] = a[i] + b[i] + 1;
}

}  // namespace

TEST_CASE("mode: one operator of another mode replaced", "[device]") {
  Mode mine = mode("vectorized");
  mine.operators.arithmetic.add = counting_add;
  mine.description = "vectorized with an addition of its own";
  const Mode& registered = register_mode("mode test", mine);
  CHECK(registered.name == "mode test");
  CHECK(&mode("mode test") == &registered);
  CHECK_THROWS_WITH(register_mode("mode test", mine), ContainsSubstring("mode test") && ContainsSubstring("already"));
  calls = 0;
  {
    const Device device{"mode test"};
    CHECK(op::add(ones({3}), ones({3})).values() == std::vector<double>{3, 3, 3});
    CHECK(op::mul(full({3}, 2), full({3}, 3)).values() == std::vector<double>{6, 6, 6});
    // The table of float64 is another one.
    CHECK(op::add(ones({1}, DType::float64), ones({1}, DType::float64)).item() == 2);
  }
  CHECK(calls == 1);
  const Device device{"vectorized"};
  CHECK(op::add(ones({3}), ones({3})).values() == std::vector<double>{2, 2, 2});
  CHECK(calls == 1);
}

TEST_CASE("mode: names that cannot be registered", "[device]") {
  for (const char* name : {"", "auto", "fastest", "sequential", "vectorized", "cuda"}) {
    INFO(name);
    CHECK_THROWS_AS(register_mode(name, mode("sequential")), Error);
  }
  Mode homeless = mode("sequential");
  homeless.memory = nullptr;
  CHECK_THROWS_AS(register_mode("homeless", homeless), Error);
}

TEST_CASE("mode: the list has the built-in modes, slowest first, each with a sentence", "[device]") {
  const std::vector<ModeStatus> all = modes();
  REQUIRE(all.size() >= 3);
  CHECK(all[0].name == "sequential");
  CHECK(all[1].name == "vectorized");
  CHECK(all[2].name == "cuda");
  CHECK(all[0].available);
  CHECK(all[1].available);
  for (const ModeStatus& status : all) CHECK(!status.reason.empty());
  CHECK(fastest_mode() == (all[2].available ? "cuda" : "vectorized"));
}

TEST_CASE("mode: cuda says why it is missing", "[device]") {
  const ModeStatus cuda = modes().at(2);
  if (cuda.available) {
    CHECK(mode("cuda").name == "cuda");
    return;
  }
  CHECK_THROWS_AS(Device{"cuda"}, DeviceUnavailable);
  CHECK_THROWS_WITH(Device{"cuda"}, "cuda is not available: " + cuda.reason);
  CHECK_THROWS_WITH(set_mode("cuda"), ContainsSubstring(cuda.reason));
  // Asking again gives the same answer, and the other modes go on.
  CHECK_THROWS_WITH(mode("cuda"), ContainsSubstring(cuda.reason));
  const Device device{"sequential"};
  CHECK(op::add(ones({1}), ones({1})).item() == 2);
}

TEST_CASE("mode: plug-ins that do not fit are refused with the reason", "[device]") {
  const std::string folder = message(TERN_TEST_PLUGINS, "/");
  CHECK_THROWS_AS(load_mode(folder + "plugin_wrong_version.so"), DeviceUnavailable);
  CHECK_THROWS_WITH(load_mode(folder + "plugin_wrong_version.so"),
                    ContainsSubstring("plugin_wrong_version.so") &&
                        ContainsSubstring(message("form ", plugin_form + 41)) &&
                        ContainsSubstring(message("form ", plugin_form)));
  // Another name in a parameter struct is another contract, though every size and type is the same.
  char ours[17];
  std::snprintf(ours, sizeof ours, "%016llx", static_cast<unsigned long long>(plugin_contract));
  CHECK_THROWS_WITH(load_mode(folder + "plugin_changed_struct.so"),
                    ContainsSubstring("was built for contract") &&
                        ContainsSubstring(message("this library for contract ", ours)) &&
                        !ContainsSubstring(message("built for contract ", ours)) && ContainsSubstring(plugin_compiler));
  CHECK_THROWS_WITH(load_mode(folder + "plugin_no_entry.so"), ContainsSubstring("tern_plugin"));
  CHECK_THROWS_WITH(load_mode(folder + "plugin_no_device.so"), ContainsSubstring("no abacus is connected"));
  CHECK_THROWS_WITH(load_mode(folder + "not_there.so"), ContainsSubstring("not_there.so"));
  CHECK_THROWS_AS(load_mode(testing::source_path("include/tern/tern.hpp")), DeviceUnavailable);
}

TEST_CASE("mode: an error that a plug-in throws is caught by its type", "[device]") {
  void* const library = dlopen(TERN_TEST_PLUGINS "/plugin_throws.so", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto throws = reinterpret_cast<void (*)()>(dlsym(library, "throw_shape_error"));
  REQUIRE(throws != nullptr);
  CHECK_THROWS_AS(throws(), ShapeError);
  CHECK_THROWS_AS(throws(), Error);
  CHECK_THROWS_WITH(throws(), "a shape of 3 sides");
}
