// What the library costs beside the work: a call through guard and table, and whole eager operators on eight floats.

#include <benchmark/benchmark.h>

#include "tern/tern.hpp"

namespace {

using namespace tern;

constexpr std::int64_t n = 8;

void add_eight(Context&, float* out, const float* a, const float* b, const kernels::Broadcast&) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

// The baseline: the same function called through a pointer that the compiler cannot see through.
void direct_call(benchmark::State& state) {
  float a[n]{1}, b[n]{2}, out[n];
  auto* function = &add_eight;
  benchmark::DoNotOptimize(function);
  Context context;
  const kernels::Broadcast sizes;
  for (auto _ : state) {
    function(context, out, a, b, sizes);
    benchmark::DoNotOptimize(out);
  }
}

const Mode& add_eight_mode() {
  static const Mode& mode = []() -> const Mode& {
    Mode own = tern::mode("vectorized");
    own.operators.arithmetic.add = add_eight;
    return register_mode("add-eight", own);
  }();
  return mode;
}

void call_through_table(benchmark::State& state) {
  float a[n]{1}, b[n]{2}, out[n];
  const Device device(add_eight_mode());
  const kernels::Broadcast sizes;
  for (auto _ : state) {
    Scope& scope = current_scope();
    scope.mode->table<float>()->arithmetic.add(scope.context, out, a, b, sizes);
    benchmark::DoNotOptimize(out);
  }
}

void call_through_guard_and_table(benchmark::State& state) {
  float a[n]{1}, b[n]{2}, out[n];
  const Mode& mode = add_eight_mode();
  const kernels::Broadcast sizes;
  for (auto _ : state) {
    const Device device(mode);
    Scope& scope = current_scope();
    scope.mode->table<float>()->arithmetic.add(scope.context, out, a, b, sizes);
    benchmark::DoNotOptimize(out);
  }
}

void eager_add(benchmark::State& state) {
  const Device device("vectorized");
  Generator generator(1);
  const Tensor a = rand({n}, generator), b = rand({n}, generator);
  for (auto _ : state) {
    Tensor c = operators::add(a, b);
    benchmark::DoNotOptimize(c);
  }
}

void eager_add_recorded(benchmark::State& state) {
  const Device device("vectorized");
  Generator generator(1);
  Tensor a = rand({n}, generator);
  const Tensor b = rand({n}, generator);
  a.set_requires_grad();
  for (auto _ : state) {
    Tensor c = operators::add(a, b);
    benchmark::DoNotOptimize(c);
  }
}

// What a live Profile adds. A new one now and then, because it keeps what it saw.
void eager_add_profiled(benchmark::State& state) {
  const Device device("vectorized");
  Generator generator(1);
  const Tensor a = rand({n}, generator), b = rand({n}, generator);
  auto profile = std::make_unique<Profile>();
  std::int64_t count = 0;
  for (auto _ : state) {
    Tensor c = operators::add(a, b);
    benchmark::DoNotOptimize(c);
    if (++count % 10000 == 0) {
      state.PauseTiming();
      profile.reset();
      profile = std::make_unique<Profile>();
      state.ResumeTiming();
    }
  }
}

BENCHMARK(direct_call);
BENCHMARK(call_through_table);
BENCHMARK(call_through_guard_and_table);
BENCHMARK(eager_add);
BENCHMARK(eager_add_recorded);
BENCHMARK(eager_add_profiled);

}  // namespace

BENCHMARK_MAIN();
