#include "tern/device/device.hpp"

#include <omp.h>

#include <atomic>

#include "device/profiler.hpp"
#include "device/way_book.hpp"
#include "tern/core/error.hpp"

namespace tern {

constinit thread_local Scope* detail::innermost_scope = nullptr;

namespace {

std::atomic<const Mode*> process_mode{nullptr};

const Mode& default_mode() {
  const Mode* known = process_mode.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = &mode("vectorized");
    process_mode.store(known, std::memory_order_release);
  }
  return *known;
}

Scope make_scope(const Mode& mode, const DeviceOptions& options, int threads_outside) {
  expects(options.threads >= 0, "Device: ", options.threads, " threads make no sense; 0 inherits, 1 and more bound");
  check_environment_ways(mode);
  return {&mode,
          {.memory = mode.memory,
           .stream = mode.memory->stream(),
           .threads = options.threads != 0 ? options.threads : threads_outside,
           .precision = options.precision,
           .deterministic = options.deterministic,
           .ways = &ways()},
          options.transfers};
}

const Mode& find(std::string_view name) { return name == "auto" ? mode(fastest_mode()) : mode(name); }

}  // namespace

// The scope of a thread outside every Device; follows set_mode.
Scope& detail::default_scope() {
  static thread_local Scope scope;
  const Mode& mode = default_mode();
  if (scope.mode != &mode) scope = make_scope(mode, {}, omp_get_max_threads());
  return scope;
}

void set_mode(std::string_view name) { process_mode.store(&find(name), std::memory_order_release); }

Device::Device(std::string_view mode_name, const DeviceOptions& options) : Device(find(mode_name), options) {}

Device::Device(const Mode& mode, const DeviceOptions& options)
    : scope_(make_scope(mode, options, current_scope().context.threads)), outer_(detail::innermost_scope) {
  detail::innermost_scope = &scope_;
}

Device::Device(const Scope& scope) : scope_(scope), outer_(detail::innermost_scope) {
  scope_.context.stream = scope.context.memory->stream();
  detail::innermost_scope = &scope_;
}

void Device::synchronize() {
  const ProfileSpan span("wait", ProfileSpan::Kind::wait);
  scope_.context.memory->synchronize(scope_.context.stream);
}

MemoryStatistics memory_statistics(std::string_view name) { return mode(name).memory->statistics(); }

}  // namespace tern
