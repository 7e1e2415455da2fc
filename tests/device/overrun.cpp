// Accesses that AddressSanitizer has to report, one per argument: memory that the pool hands out is its own.
#include <cstdio>
#include <string>

#include "tern/core/create.hpp"
#include "tern/device/device.hpp"

using namespace tern;

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  // Both ways through the pool: a small block of the thread's cache, and a large one of the shared cache.
  for (const std::int64_t elements : {5, 100'000}) {
    if (what != (elements == 5 ? "small_past" : "large_past") &&
        what != (elements == 5 ? "small_freed" : "large_freed"))
      continue;
    volatile float* data = nullptr;
    {
      Tensor x = ones({elements});  // what was a block of another tensor before
      x = Tensor();
      x = ones({elements});
      data = x.write<float>().data();
      data[elements - 1] = 1;  // allowed
      if (what.ends_with("past")) data[elements] = 1;
    }
    data[0] = 1;  // freed
  }
  std::puts("nothing was noticed");
}
