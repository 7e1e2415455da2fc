#include "modes/optional_kernels.hpp"

#include <map>
#include <mutex>

#include "tern/modes/mode.hpp"

namespace tern {

namespace {

struct Known {
  std::mutex mutex;
  std::map<std::string, OptionalKernels, std::less<>> of_modes;
};
Known& known() {
  static Known all;
  return all;
}

}  // namespace

void set_optional_kernels(const std::string& mode, const OptionalKernels& kernels) {
  const std::lock_guard lock(known().mutex);
  known().of_modes.insert_or_assign(mode, kernels);
}

const OptionalKernels& optional_kernels(const Mode& mode) {
  static const OptionalKernels none;
  const std::lock_guard lock(known().mutex);
  const auto found = known().of_modes.find(mode.name);
  return found == known().of_modes.end() ? none : found->second;
}

}  // namespace tern
