// What AddressSanitizer has to report, one per argument: memory that the pool hands out is its own. And what it must
// not: blocks that the pool keeps are no leak ("kept").
#include <cstdio>
#include <string>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "kept" || what == "leaked") {
    std::vector<Tensor> several;
    for (int i = 0; i < 8; ++i)
      for (const std::int64_t elements : {5, 100'000}) several.push_back(ones({elements}));
    if (what == "leaked") (new Tensor(several[0].clone()))->fill_(2);
    return 0;
  }
  // Both paths through the pool: a small block of the thread's cache, and a large one of the shared cache.
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
