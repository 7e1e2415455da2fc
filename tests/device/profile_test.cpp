#include "tern/run/profile.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/memories.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

const ProfileRow* find(const ProfileTable& table, const std::string& name, bool backward) {
  for (const ProfileRow& row : table.rows)
    if (row.name == name && row.backward == backward) return &row;
  return nullptr;
}

// A device with a clock of its own: products take 2 s of it, everything else nothing; nothing is waited for.
struct Clock {
  double now = 0;
  int marks = 0, waits = 0, open_ranges = 0;
  std::vector<std::string> ranges;
};
Clock clock_of_device;

const Mode& timed_mode() {
  static const Timer timer{
      .make = []() -> void* { return ++clock_of_device.marks, new double(-1); },
      .record = [](void* mark, void*) { *static_cast<double*>(mark) = clock_of_device.now; },
      .elapsed =
          [](void* first, void* second) {
            ++clock_of_device.waits;
            return *static_cast<double*>(second) - *static_cast<double*>(first);
          },
      .destroy = [](void* mark) { --clock_of_device.marks, delete static_cast<double*>(mark); },
      .begin_range = [](const char* name) { ++clock_of_device.open_ranges, clock_of_device.ranges.push_back(name); },
      .end_range = [] { --clock_of_device.open_ranges; }};
  static const Mode& mode = []() -> const Mode& {
    Mode copy = testing::fake_mode();
    copy.timer = &timer;
    copy.operators.dot.matmul =
        +[](Context& context, float* out, const float* a, const float* b, const kernels::Matmul& sizes) {
          clock_of_device.now += 2;
          tern::mode("sequential").operators.dot.matmul(context, out, a, b, sizes);
        };
    return register_mode("timed", copy);
  }();
  return mode;
}

nlohmann::json trace_of(const Profile& profile) {
  const testing::TemporaryFolder folder;
  profile.write_trace(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("profile: operators by direction, with calls, FLOPs and bytes", "[device]") {
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device{name};
    Generator generator(1);
    const Tensor x = randn({8, 3, 12, 10}, generator);
    Tensor weight = randn({4, 3, 3, 3}, generator).set_requires_grad();
    Tensor other = randn({5, 4}, generator).set_requires_grad();
    Profile profile;
    const Tensor y = op::relu(op::conv2d(x, weight));
    const Tensor z = op::linear(op::mean(y, {2, 3}), other);
    op::sum(z).backward();
    profile.stop();
    const Tensor outside = op::exp(x);
    const ProfileTable table = profile.table({.flops_per_second = 1e12, .bytes_per_second = 1e12});

    const double products = 2.0 * 8 * 4 * 10 * 8 * 3 * 9;
    const ProfileRow* conv = find(table, "conv2d", false);
    REQUIRE(conv != nullptr);
    CHECK(conv->mode == name);
    CHECK(conv->calls == 1);
    CHECK(conv->flops == products);
    CHECK(conv->bytes == 4 * (8 * 3 * 12 * 10 + 4 * 3 * 9 + 8 * 4 * 10 * 8));
    const ProfileRow* conv_backward = find(table, "conv2d", true);
    REQUIRE(conv_backward != nullptr);
    CHECK(conv_backward->flops == products);  // x needs no gradient
    REQUIRE(find(table, "linear", false) != nullptr);
    CHECK(find(table, "linear", false)->flops == 2 * 8 * 5 * 4);
    REQUIRE(find(table, "linear", true) != nullptr);
    CHECK(find(table, "linear", true)->flops == 2 * 2 * 8 * 5 * 4);
    REQUIRE(find(table, "relu", false) != nullptr);
    CHECK(find(table, "relu", false)->bytes == 2 * 4 * 8 * 4 * 10 * 8);
    CHECK(find(table, "relu", true) != nullptr);
    CHECK(find(table, "exp", false) == nullptr);
    CHECK(table.transfers.empty());
    CHECK(table.recorded == 0);

    double seconds = 0, share = 0;
    for (const ProfileRow& row : table.rows) {
      seconds += row.seconds;
      share += row.share;
      CHECK(row.seconds > 0);
      CHECK(row.roofline > 0);
      CHECK(row.roofline == Approx(std::max(row.flops, row.bytes) / 1e12 / row.seconds));
    }
    CHECK(share == Approx(1));
    CHECK(seconds == Approx(table.seconds));
    CHECK(table.seconds <= table.wall_seconds);
    for (std::size_t i = 1; i < table.rows.size(); ++i) CHECK(table.rows[i - 1].seconds >= table.rows[i].seconds);
    const std::string text = table.text();
    CHECK_THAT(text, ContainsSubstring("conv2d backward") && ContainsSubstring("GFLOP/s") &&
                         ContainsSubstring("of roofline") && ContainsSubstring("wall time"));
    CHECK_THAT(text, !ContainsSubstring(message('(', name, ')')));  // there is but one
    // A decision about a part of an operator is named without the operator.
    if (device.name() == "vectorized") CHECK(conv_backward->algorithm.starts_with("grad_weight "));
  }
}

TEST_CASE("profile: what is copied, filled, gathered and converted is seen as well", "[device]") {
  const Device device{"vectorized"};
  const Tensor x = ones({6, 4});
  const Tensor rows = full({3}, 2, DType::int64);
  const Profile profile;
  x.transpose(0, 1).contiguous();
  Tensor(Shape{10}, DType::float32).fill_(3);
  op::index_select(x, 0, rows);
  x.to(DType::float64);
  const ProfileTable table = profile.table();
  for (const auto& [name, bytes] : std::vector<std::pair<const char*, double>>{
           {"copy", 2 * 24 * 4}, {"fill", 10 * 4}, {"index_select", 2 * 12 * 4 + 3 * 8}, {"cast", 24 * 4 + 24 * 8}}) {
    INFO(name);
    REQUIRE(find(table, name, false) != nullptr);
    CHECK(find(table, name, false)->calls == 1);
    CHECK(find(table, name, false)->bytes == bytes);
  }
}

TEST_CASE("profile: an input read with stride 0 counts once", "[device]") {
  const Device device{"vectorized"};
  const Tensor row = ones({1, 64}), matrix = ones({32, 64});
  const Profile profile;
  op::add(row.expand({32, 64}), matrix);
  const ProfileTable table = profile.table();
  REQUIRE(find(table, "add", false) != nullptr);
  CHECK(find(table, "add", false)->bytes == 4 * (64 + 2 * 32 * 64));
}

TEST_CASE("profile: convolutions that write into one tensor count their own part of it", "[device]") {
  Mode mode = tern::mode("sequential");
  mode.operators.conv.layout = +[](const Context&, const kernels::Conv2d&) { return kernels::Layout::channels_last; };
  const Device device(register_mode("channels last", mode));
  Generator generator(3);
  const Tensor x = randn({2, 4, 6, 6}, generator).permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  Tensor a = randn({3, 4, 1, 1}, generator).set_requires_grad(), b = randn({5, 4, 1, 1}, generator).set_requires_grad();
  const Profile profile;
  op::sum(op::conv2d_cat({{x, a}, {x, b}})).backward();
  const ProfileTable table = profile.table();
  const ProfileRow *forward = find(table, "conv2d", false), *backward = find(table, "conv2d", true);
  REQUIRE(forward != nullptr);
  REQUIRE(backward != nullptr);
  constexpr double position = 2 * 6 * 6, weights = 8 * 4, read_x = 2 * position * 4, y = position * 8;
  CHECK(forward->calls == 2);
  CHECK(forward->bytes == Approx(4 * (read_x + weights + y)));
  // The output is not read without an activation, nor the weights without a gradient of x.
  CHECK(backward->bytes == Approx(4 * (read_x + weights + y)));
}

TEST_CASE("profile: moves between memories, apart from the operator that caused them", "[device]") {
  const Tensor a = ones({100}), b = ones({100});
  const Device device(testing::fake_mode());
  Tensor c;
  Profile profile;
  c = op::add(a, b);
  CHECK(c.read<float>()[7] == 2);
  reset_transfers();  // the profile keeps its own account
  const ProfileTable table = profile.table();
  const ProfileRow *in = find(table, "host to fake", false), *out = find(table, "fake to host", false);
  REQUIRE(in != nullptr);
  REQUIRE(out != nullptr);
  CHECK(in->transfer);
  CHECK(in->calls == 2);
  CHECK(out->calls == 1);
  CHECK(find(table, "wait", false) == nullptr);
  REQUIRE(table.transfers.size() == 2);
  for (const Transfer& transfer : table.transfers) CHECK(transfer.bytes == (transfer.from == "host" ? 2 : 1) * 400);
  CHECK_THAT(table.text(), ContainsSubstring("moved from fake to host: 400 B in 1 move\n") &&
                               ContainsSubstring("moved from host to fake: 800 B in 2 moves\n"));
  const Profile later;
  CHECK(later.table().transfers.empty());
}

TEST_CASE("profile: a mode with a timer is timed on the device, without a wait until the result", "[device]") {
  const Device device(timed_mode());
  const Tensor a = ones({4, 4});
  Tensor b = ones({4, 4}).set_requires_grad();
  clock_of_device = {};
  {
    const Profile profile;
    const Tensor y = op::sum(op::matmul(a, b));
    y.backward();
    CHECK(clock_of_device.waits == 0);
    CHECK(clock_of_device.marks > 0);
    CHECK(clock_of_device.open_ranges == 0);
    ProfileTable table = profile.table();
    CHECK(clock_of_device.waits > 0);
    REQUIRE(find(table, "matmul", false) != nullptr);
    CHECK(find(table, "matmul", false)->seconds == 2);
    CHECK(find(table, "matmul", true)->seconds == 2);
    CHECK(table.seconds == 4);
    CHECK(table.wall_seconds < 1);
    // Asked again, and after more work.
    op::matmul(a, b);
    table = profile.table();
    CHECK(find(table, "matmul", false)->seconds == 4);
    CHECK(find(table, "matmul", false)->calls == 2);

    const nlohmann::json trace = trace_of(profile);
    int on_host = 0, on_device = 0;
    for (const auto& event : trace.at("traceEvents")) {
      if (event.at("name") != "matmul") continue;
      (event.at("tid") == 1 ? on_host : on_device) += 1;
      if (event.at("tid") == 2) CHECK(event.at("dur") == 2e6);
    }
    CHECK(on_host == 2);
    CHECK(on_device == 2);
  }
  CHECK(clock_of_device.marks == 0);
  const auto& ranges = clock_of_device.ranges;
  CHECK(std::count(ranges.begin(), ranges.end(), "matmul") == 2);
  CHECK(std::count(ranges.begin(), ranges.end(), "matmul backward") == 1);
}

TEST_CASE("profile: what is changed in place is read and written", "[device]") {
  const Device device{"vectorized"};
  Tensor parameter = ones({100}).set_requires_grad();
  parameter.set_grad(ones({100}));
  optim::SGD sgd({parameter}, {.learning_rate = 0.1});
  const Profile profile;
  sgd.step();
  const ProfileTable table = profile.table();
  REQUIRE(find(table, "sgd", false) != nullptr);
  const double bytes = find(table, "sgd", false)->bytes;
  CHECK(bytes >= 4 * 300);  // and the rate
  CHECK(bytes <= 4 * 300 + 8);
}

TEST_CASE("profile: what an operator waits for counts once", "[device]") {
  const Tensor a = ones({1 << 24});
  const Device device(testing::fake_mode());
  Profile profile;
  const Tensor b = op::add(a.slice(0, 0, 4), 1.0);  // moves all of it
  profile.stop();
  const ProfileTable table = profile.table();
  REQUIRE(find(table, "host to fake", false) != nullptr);
  CHECK(table.seconds <= table.wall_seconds);
}

TEST_CASE("profile: modes are distinguished, whatever their names", "[device]") {
  const std::string odd = R"(odd "one\)";
  const Mode& other = register_mode(odd, tern::mode("sequential"));
  const Tensor x = ones({5});
  const Profile profile;
  for (const Mode* const mode : {&tern::mode("sequential"), &other}) {
    const Device device(*mode);
    op::exp(x);
  }
  CHECK_THAT(profile.table().text(), ContainsSubstring("exp (sequential)") && ContainsSubstring("exp (" + odd + ")"));
  const nlohmann::json trace = trace_of(profile);
  int found = 0;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("name") == "exp") found += event.at("args").at("mode") == odd;
  CHECK(found == 1);
}

TEST_CASE("profile: a device's work does not begin before the host has queued it", "[device]") {
  const Device device(timed_mode());
  const Tensor a = ones({4, 4});
  op::matmul(a, a);
  clock_of_device = {};
  const Profile profile;
  op::exp(a);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the device's clock stands
  op::matmul(a, a);
  const nlohmann::json trace = trace_of(profile);
  double queued = -1, began = -1;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("name") == "matmul") (event.at("tid") == 1 ? queued : began) = event.at("ts").get<double>();
  CHECK(queued >= 5000);
  CHECK(began >= queued - 0.002);
}

TEST_CASE("profile: ranges without times", "[device]") {
  const Device device(timed_mode());
  const Tensor a = ones({4, 4});
  op::matmul(a, a);  // brings `a` to the device
  clock_of_device = {};
  {
    const Profile ranges{{.times = false}};
    op::matmul(a, a);
    CHECK(ranges.table().rows.empty());
  }
  CHECK(clock_of_device.ranges == std::vector<std::string>{"matmul"});
  CHECK(clock_of_device.marks == 0);
  {
    const Profile times{{.ranges = false}};
    op::matmul(a, a);
  }
  CHECK(clock_of_device.ranges.size() == 1);
  CHECK(clock_of_device.open_ranges == 0);
}

TEST_CASE("profile: the trace is JSON with one event per call", "[device]") {
  const Device device{"vectorized"};
  Tensor x = ones({50}).set_requires_grad();
  const Profile profile;
  for (int i = 0; i < 3; ++i) op::sum(op::exp(x)).backward();
  const nlohmann::json trace = trace_of(profile);
  int forward = 0, backward = 0;
  double before = -1;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    CHECK(event.at("ph") == "X");
    CHECK(event.at("dur").get<double>() >= 0);
    CHECK(event.at("ts").get<double>() >= before);
    before = event.at("ts").get<double>();
    CHECK(event.at("args").at("mode") == "vectorized");
    forward += event.at("name") == "exp";
    backward += event.at("name") == "mul backward";
  }
  CHECK(forward == 3);
  CHECK(backward == 3);
  CHECK_THROWS_AS(profile.write_trace("/nonexistent folder/trace.json"), FileError);
}

TEST_CASE("profile: a replayed step is one row, and what is only recorded is not measured", "[device]") {
  static const Capture capture{.begin = [](void*) {},
                               .end = [](void*) -> void* { return new int(0); },
                               .abandon = [](void*) {},
                               .launch = [](void*, void*) { clock_of_device.now += 3; },
                               .destroy = [](void* recording) { delete static_cast<int*>(recording); }};
  Mode mode = timed_mode();
  mode.capture = &capture;
  const Device device(register_mode("timed and captured", mode));
  const Tensor a = ones({4, 4});
  Step step([](const Tensor& x) { return op::matmul(x, x); });
  const Profile profile;
  for (int i = 0; i < 4; ++i) step(a);
  const ProfileTable table = profile.table();
  REQUIRE(find(table, "matmul", false) != nullptr);
  CHECK(find(table, "matmul", false)->calls == 1);
  REQUIRE(find(table, "step replay", false) != nullptr);
  CHECK(find(table, "step replay", false)->calls == 3);
  CHECK(find(table, "step replay", false)->seconds == 9);
  CHECK(table.recorded == 1);
  CHECK_THAT(table.text(), ContainsSubstring("profile its function itself"));
}

TEST_CASE("profile: scopes, threads and errors", "[device]") {
  const Device device{"vectorized"};
  const Tensor x = ones({50});
  Profile outer;
  op::exp(x);
  {
    const Profile inner;
    op::log(x);
    CHECK(find(inner.table(), "log", false) != nullptr);
    CHECK(find(inner.table(), "exp", false) == nullptr);
  }
  CHECK_THROWS_AS(op::exp(ones({2}, DType::int64)), DTypeError);
  std::thread([&] { op::sqrt(x); }).join();
  op::abs(x);
  const ProfileTable table = outer.table();
  CHECK(find(table, "exp", false)->calls == 2);  // the one that failed as well
  CHECK(find(table, "abs", false) != nullptr);
  CHECK(find(table, "log", false) == nullptr);
  CHECK(find(table, "sqrt", false) == nullptr);
  // Stopped out of order.
  auto first = std::make_unique<Profile>();
  const Profile second;
  first.reset();
  op::exp(x);
  CHECK(find(second.table(), "exp", false) != nullptr);
}
