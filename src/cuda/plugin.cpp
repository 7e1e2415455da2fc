// The entry point of the plug-in. Compiled by the library's compiler, which writes the names in the contract in the
// same form.

#include "tern/modes/plugin.hpp"

#include <cctype>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "cuda/cuda.hpp"

namespace {

int gpus() {
  int count = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", failed)) {
    const std::string name = entry.path().filename().string();
    count += name.size() > 6 && name.starts_with("nvidia") && std::isdigit(static_cast<unsigned char>(name[6])) != 0;
  }
  return count;
}

// CUDA loads a kernel at its first launch, and may wait for the GPU's running work to do so. In ranks that are threads
// with a GPU each, that work may be a sum that waits for another rank, whose thread waits for the loader. So all
// kernels are loaded at the start where there are several GPUs.
void load_kernels_early() {
  constexpr int keep = 0;
  if (gpus() > 1) (void)setenv("CUDA_MODULE_LOADING", "EAGER", keep);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static tern::Plugin plugin;
  static const std::string reason = [] {
    try {
      load_kernels_early();
      std::string sentence = tern::cuda::why_not();
      if (sentence.empty()) plugin.mode = &tern::cuda::mode();
      plugin.set_host = [](const tern::HostFunctions& host) { tern::cuda::host_functions = host; };
      return sentence;
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  }();
  plugin.status = plugin.mode == nullptr ? reason.c_str() : nullptr;
  return &plugin;
}
