// The debug device: the kernels of a mode on host memory, on a simulated device. See docs/debug.md.

#include "debug/mode.hpp"

#include "debug/capture.hpp"
#include "debug/card.hpp"
#include "debug/table.hpp"

namespace tern::debug {

Mode mode(const std::string& name, const Mode& kernels) {
  Card& card = *new Card(name, kernels);  // as long as the process: tensors may outlive static destructors
  Mode made = kernels;
  made.name = name;
  made.description =
      message("the kernels of ", kernels.name, " on a simulated device, to find faults; seed ", card.seed());
  made.memory = &card;
  made.capture = &capture();
  made.timer = nullptr;
  made.places = nullptr;
  made.index = 0;
  queue_kernels(made);
  return made;
}

}  // namespace tern::debug
