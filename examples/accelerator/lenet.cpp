// LeNet learns digits on the accelerator, beside the same training on the processor, and prints what ran where.
//
// usage: lenet PLUGIN [STEPS]

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <tern/tern.hpp>

namespace {

using namespace tern;

struct Result {
  double first, last;  // losses
};

Result train(const Mode& mode, int steps) {
  const Device device(mode);
  manual_seed(1);
  const data::Dataset digits = data::synthetic_digits(512);
  const Tensor images = data::to_float(digits.images);
  models::LeNet net{/*seed=*/1};
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  Result result{};
  for (int step = 0; step < steps; ++step) {
    const std::int64_t begin = step % 16 * 32;
    const Tensor x = images.slice(0, begin, begin + 32), y = digits.labels.slice(0, begin, begin + 32);
    sgd.zero_grad();
    const Tensor loss = net.loss(x, y);
    loss.backward();
    sgd.step();
    result.last = loss.item();
    if (step == 0) result.first = result.last;
  }
  return result;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s PLUGIN [STEPS]\n", arguments[0]);
    return 2;
  }
  const Mode& systolic = load_mode(arguments[1]);
  const int steps = count > 2 ? std::atoi(arguments[2]) : 48;
  std::printf("%s: %s\n", systolic.name.c_str(), systolic.description.c_str());

  reset_transfers();
  const Profile profile;
  const Result there = train(systolic, steps);
  const ProfileTable table = profile.table();
  const Result here = train(mode("vectorized"), steps);

  std::puts("\nwhat ran where");
  for (const ProfileRow& row : table.rows)
    if (!row.transfer)
      std::printf("  %-10s  %s%s, %lld times\n", row.mode.c_str(), row.name.c_str(), row.backward ? " backward" : "",
                  static_cast<long long>(row.calls));
  std::puts("\nwhat moved");
  for (const Transfer& move : table.transfers)
    std::printf("  %s to %s: %lld times, %.1f MB\n", move.from.c_str(), move.to.c_str(),
                static_cast<long long>(move.count), static_cast<double>(move.bytes) * 1e-6);
  std::printf("\nloss in %d steps: %.3f to %.3f on the accelerator, %.3f to %.3f in float32\n", steps, there.first,
              there.last, here.first, here.last);
  return there.last < there.first / 2 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
