// Every operator of the catalogue in every available mode, on its largest sample: the inputs that the tests check are
// the inputs that are timed. `--benchmark_filter=conv2d` selects.

#include <benchmark/benchmark.h>

#include "support/catalogue.hpp"
#include "tern/autograd/tape.hpp"

namespace {

using namespace tern;
using testing::Operator;
using testing::Sample;

std::int64_t elements_of(const Sample& sample) {
  std::int64_t count = 0;
  for (const testing::Argument& argument : sample.arguments) count += element_count(argument.shape);
  return count;
}

const Sample* largest_sample(const Operator& op) {
  const Sample* largest = nullptr;
  for (const Sample& sample : op.samples)
    if (largest == nullptr || elements_of(sample) > elements_of(*largest)) largest = &sample;
  return largest;
}

void run(benchmark::State& state, const Operator& op, const Sample& sample, const std::string& mode) {
  Device device(mode);
  const NoGrad no_grad;
  const std::vector<Tensor> inputs = testing::make_inputs(op, sample, sample.dtypes.front());
  for (int i = 0; i < 3; ++i) sample.call(inputs);
  device.synchronize();
  // Calls are queued in groups, so that a device is timed at work rather than waiting.
  constexpr int group = 16;
  for (auto _ : state) {
    for (int i = 0; i < group; ++i) benchmark::DoNotOptimize(sample.call(inputs));
    device.synchronize();
  }
  state.SetItemsProcessed(state.iterations() * group);
  state.counters["elements"] = static_cast<double>(elements_of(sample));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const ModeStatus& status : modes()) {
    if (!status.available) continue;
    benchmark::AddCustomContext(status.name, status.reason);
    for (const Operator& op : testing::catalogue())
      if (const Sample* sample = largest_sample(op))
        benchmark::RegisterBenchmark(
            (op.name + "/" + sample->name + "/" + status.name).c_str(),
            [&op, sample, mode = status.name](benchmark::State& state) { run(state, op, *sample, mode); })
            ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
