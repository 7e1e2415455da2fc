#include <exception>
#include <mutex>
#include <thread>

#include "parallel/threads.hpp"
#include "parallel/transports.hpp"
#include "tern/core/error.hpp"
#include "tern/parallel/group.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

namespace {

using Program = std::function<void(const Group&)>;

/// The first error of the ranks; the others follow from it.
struct FirstFailure {
  std::mutex mutex;
  std::exception_ptr exception;
  void keep(const std::exception_ptr& other) {
    const std::lock_guard lock(mutex);
    if (!exception) exception = other;
  }
};

std::string reason_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception without a message";
  }
}

void launch_threads(const LaunchOptions& options, const Program& program) {
  expects<ShapeError>(options.ranks >= 1, "launch: ", options.ranks, " ranks, expected 1 or more");
  auto ends = thread_ranks(options.ranks, options.limit);
  FirstFailure failure;
  const Scope scope = current_scope();
  const Generator generator = default_generator();
  const auto run = [&](const std::shared_ptr<Collective>& end) {
    const int rank = end->rank();
    try {
      program(Group(end));
      end->leave();
    } catch (...) {
      const std::exception_ptr thrown = std::current_exception();
      failure.keep(thrown);
      end->abandon(message("rank ", rank, " failed: ", reason_of(thrown)));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < options.ranks; ++rank)
      threads.emplace_back([&, end = std::shared_ptr(std::move(ends[static_cast<std::size_t>(rank)]))] {
        const Device device(scope);
        default_generator() = generator;
        run(end);
      });
  } catch (...) {  // no more threads available
    failure.keep(std::current_exception());
    ends[0]->abandon("the ranks could not all be started");
  }
  run(std::move(ends[0]));
  for (std::thread& thread : threads) thread.join();
  if (failure.exception) std::rethrow_exception(failure.exception);
}

void launch_processes(const LaunchOptions& options, const Program& program) {
  std::string reason;
  const TransportPlugin* const plugin = find_transport(options.transport, reason);
  expects<DeviceUnavailable>(plugin != nullptr, options.transport, " is not available: ", reason);
  const Group group(plugin->open({.limit = options.limit.count()}));
  try {
    program(group);
  } catch (const std::exception& error) {
    group.abandon(error.what());
    throw;
  }
}

}  // namespace

void launch(const LaunchOptions& options, const Program& program) {
  if (options.transport == "threads") return launch_threads(options, program);
  expects<DeviceUnavailable>(options.transport == "mpi", "launch: there is no transport \"", options.transport,
                             "\" that starts ranks; there are threads and mpi");
  launch_processes(options, program);
}

}  // namespace tern::parallel
