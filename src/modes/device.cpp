#include "tern/modes/device.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/built.hpp"
#include "modes/algorithm_book.hpp"
#include "modes/cores.hpp"
#include "modes/explanations.hpp"
#include "modes/observed.hpp"
#include "modes/registry.hpp"
#include "modes/scope_observer.hpp"
#include "tern/core/error.hpp"

namespace tern {

constinit thread_local Scope* detail::innermost_scope = nullptr;

namespace {

std::atomic<const Mode*> process_mode{nullptr};

const Mode& default_mode() {
  const Mode* known = process_mode.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = &fastest_built_in();
    process_mode.store(known, std::memory_order_release);
  }
  return *known;
}

// Writes member by member: copying the whole would wait for the smaller writes that have just been made.
void inherit(Scope& scope, const Mode& mode, const Scope& outside) {
  scope.mode = &mode;
  scope.context.memory = mode.memory;
  // Both are scopes of this thread, and a memory has one stream per thread.
  scope.context.stream = mode.memory == outside.context.memory ? outside.context.stream : mode.memory->stream();
  scope.context.threads = outside.context.threads;
  scope.context.precision = outside.context.precision;
  scope.context.deterministic = outside.context.deterministic;
  scope.context.algorithms = outside.context.algorithms;
  scope.activations = outside.activations;
  scope.transfers = outside.transfers;
  scope.numerics = outside.numerics;
  scope.verify = outside.verify;
  scope.observer = outside.observer;
  scope.automatic = 0;
}

DType activations_of(Precision precision) {
  return precision == Precision::bf16 ? DType::bfloat16 : precision == Precision::f16 ? DType::float16 : DType::float32;
}

void set_up(Scope& scope, const Mode& mode, const DeviceOptions& options, const Scope& outside) {
  expects(options.threads >= 0, "Device: ", options.threads,
          " threads; expected 0 (inherited) or a limit of 1 or more");
  inherit(scope, mode, outside);
  if (options.threads != 0) scope.context.threads = options.threads;
  scope.context.precision = options.precision.value_or(scope.context.precision);
  if (options.precision) scope.activations = activations_of(*options.precision);
  scope.context.deterministic = options.deterministic.value_or(scope.context.deterministic);
  scope.transfers = options.transfers.value_or(scope.transfers);
  scope.numerics = options.numerics.value_or(scope.numerics);
  scope.verify = options.verify.value_or(scope.verify);
  expects<DeviceUnavailable>(built::whole || !scope.verify,
                             "verify: a library built with TERN_OPERATORS has no "
                             "reference to compare with; link with the whole library");
  const bool checks = scope.verify || scope.numerics == Numerics::check;
  scope.observer = checks ? scope_observer(scope.numerics, scope.verify) : nullptr;
}

// Nodes, threads and recordings keep a mode's address, so it must last; registered modes last forever.
const Mode& lasting(const Mode& mode) {
  static thread_local const Mode* known = nullptr;
  if (&mode != known) {
    expects(is_registered(mode), "Device: the mode \"", mode.name,
            "\" is an unregistered copy; pass what register_mode returns");
    check_environment_algorithms(mode);
    known = &mode;
  }
  return mode;
}

constexpr std::string_view verify_prefix = "verify:", fastest_name = "fastest", auto_name = "auto";

std::string_view unverified(std::string_view name) {
  if (name.starts_with(verify_prefix)) name.remove_prefix(verify_prefix.size());
  return name;
}

const Mode& find(std::string_view name) {
  name = unverified(name);
  return name == fastest_name || name == auto_name ? mode(fastest_mode()) : mode(name);
}

// With an index, that device of the mode.
const Mode& indexed(const Mode& mode, const DeviceOptions& options) {
  return options.index ? tern::mode(message(mode.name, ':', *options.index)) : mode;
}

DeviceOptions named(std::string_view mode, DeviceOptions options) {
  if (mode.starts_with(verify_prefix)) options.verify = true;
  return options;
}

}  // namespace

namespace {

// The scopes of a thread outside every Device: one per mode, because an operator may still be running in the previous
// one.
constinit thread_local Scope* latest_default = nullptr;

[[gnu::noinline]] Scope& default_scope_of(const Mode& mode) {
  static thread_local std::vector<std::unique_ptr<Scope>> scopes;
  for (const auto& scope : scopes)
    if (scope->mode == &mode) return *(latest_default = scope.get());
  Scope outside;
  outside.context.threads = default_threads();
  outside.context.algorithms = &algorithms();
  check_environment_algorithms(mode);
  auto made = std::make_unique<Scope>();
  inherit(*made, mode, outside);
  return *(latest_default = scopes.emplace_back(std::move(made)).get());
}

}  // namespace

// Follows set_mode.
Scope& detail::default_scope() {
  const Mode& mode = default_mode();
  if (latest_default != nullptr && latest_default->mode == &mode) [[likely]]
    return *latest_default;
  return default_scope_of(mode);
}

void set_mode(std::string_view name) {
  if (unverified(name) == auto_name)
    throw DeviceUnavailable("set_mode: only a Device tries modes; \"fastest\" is the fastest one present");
  process_mode.store(&find(name), std::memory_order_release);
}

namespace detail {

struct OpenScopes;

struct OpenScope {
  Scope scope;
  OpenScopes* owner = nullptr;
  std::atomic<bool> ended{false};  // possibly by another thread
};

// The scopes of one thread's Devices, the most recent last. They outlive the thread, because a Device may.
struct OpenScopes {
  std::vector<std::unique_ptr<OpenScope>> scopes;  // kept for the next Device
  std::size_t count = 0;

  /// The slot of the next scope, which `open` makes the innermost one.
  OpenScope& next() {
    pop_ended();
    if (count == scopes.size()) [[unlikely]]
      grow();
    return *scopes[count];
  }
  void open(OpenScope& scope) {
    scope.owner = this;
    scope.ended.store(false, std::memory_order_relaxed);
    ++count;
    innermost_scope = &scope.scope;
    if (scope.scope.hears() || hearing.on) update_hearing();
  }
  void pop_ended() {
    Scope* innermost = nullptr;
    for (; count > 0; --count) {
      OpenScope& last = *scopes[count - 1];
      if (last.ended.load(std::memory_order_acquire)) continue;
      innermost = &last.scope;
      break;
    }
    innermost_scope = innermost;
    if ((innermost != nullptr && innermost->hears()) || hearing.on) update_hearing();
  }
  bool all_ended() const;

 private:
  [[gnu::noinline]] void grow() { scopes.push_back(std::make_unique<OpenScope>()); }
};

bool OpenScopes::all_ended() const {
  for (std::size_t i = 0; i < count; ++i)
    if (!scopes[i]->ended.load(std::memory_order_acquire)) return false;
  return true;
}

}  // namespace detail

namespace {

// Later threads reuse the lists; a list with a Device that outlives its thread waits for it.
struct Lists {
  std::mutex mutex;
  std::vector<std::unique_ptr<detail::OpenScopes>> all;
  std::vector<detail::OpenScopes*> free;
};
Lists& lists() {
  static Lists* const lists = new Lists;  // never destroyed: a Device may outlive static destructors
  return *lists;
}

constinit thread_local detail::OpenScopes* own_scopes = nullptr;

detail::OpenScopes* take_list() {
  const std::lock_guard lock(lists().mutex);
  for (detail::OpenScopes*& list : lists().free) {
    if (!list->all_ended()) continue;
    std::swap(list, lists().free.back());
    detail::OpenScopes* const taken = lists().free.back();
    lists().free.pop_back();
    return taken;
  }
  lists().all.push_back(std::make_unique<detail::OpenScopes>());
  lists().free.reserve(lists().all.size());
  return lists().all.back().get();
}

struct Lease {
  Lease() { own_scopes = take_list(); }
  ~Lease() {
    const std::lock_guard lock(lists().mutex);
    lists().free.push_back(std::exchange(own_scopes, nullptr));
  }
};

detail::OpenScopes& open_scopes() {
  if (own_scopes == nullptr) [[unlikely]] {
    static thread_local const Lease lease;
    // After the lease has ended, only a destructor of the thread gets here.
    if (own_scopes == nullptr) own_scopes = take_list();
  }
  return *own_scopes;
}

}  // namespace

Precision precision_of(std::string_view name) {
  if (name == "strict") return Precision::strict;
  if (name == "tf32") return Precision::tf32;
  if (name == "bf16") return Precision::bf16;
  if (name == "f16") return Precision::f16;
  throw Error(message("precision \"", name, "\" is unknown; there are strict, tf32, bf16 and f16"));
}

Device::Device(std::string_view mode_name, const DeviceOptions& options)
    : Device(find(mode_name), named(mode_name, options)) {
  static std::atomic<std::uint64_t> made{0};
  if (unverified(mode_name) == auto_name) open_->scope.automatic = ++made;
}

Device::Device(const Mode& mode) : open_(&open_scopes().next()) {
  inherit(open_->scope, lasting(mode), current_scope());
  own_scopes->open(*open_);
}

Device::Device(const Mode& mode, const DeviceOptions& options) : open_(&open_scopes().next()) {
  set_up(open_->scope, lasting(indexed(mode, options)), options, current_scope());
  own_scopes->open(*open_);
}

Device::Device(const Scope& scope) : open_(&open_scopes().next()) {
  open_->scope = scope;
  open_->scope.context.stream = scope.context.memory->stream();
  own_scopes->open(*open_);
}

Device::~Device() {
  detail::OpenScopes* const owner = open_->owner;
  if (open_->scope.automatic != 0) forget_explanations(open_->scope.automatic);
  open_->ended.store(true, std::memory_order_release);
  if (owner == own_scopes) owner->pop_ended();
}

const Mode& Device::mode() const { return *open_->scope.mode; }

std::string Device::explain() const {
  const Scope& scope = open_->scope;
  std::string text = message(scope.automatic != 0 ? "auto: what is outside a Step runs in " : "everything runs in ",
                             name(), " (", description(), ")");
  if (mode().inner != nullptr) {
    text += ": its own are";
    for (const char* const each : mode().own) text += message(each == mode().own.front() ? " " : ", ", each);
    text += message("; the others run in ", mode().inner, "; tensors move there and back automatically");
  }
  if (scope.verify) text += message("; each operator also runs in ", reference_mode().name, " and is compared");
  if (scope.automatic != 0)
    for (const std::string& sentence : explanations(scope.automatic)) text += "\n" + sentence;
  return text;
}

void Device::synchronize() {
  const ObservedWait wait;
  open_->scope.context.memory->synchronize(open_->scope.context.stream);
}

MemoryStatistics memory_statistics(std::string_view name) { return mode(name).memory->statistics(); }

}  // namespace tern
