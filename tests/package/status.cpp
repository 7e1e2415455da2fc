// Whether the sentence about cuda tells the truth about this machine; the driver is looked for independently of it.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <tern/core/error.hpp>
#include <tern/core/version.hpp>
#include <tern/modes/device.hpp>

namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

int complain(const char* about, const std::string& reason) {
  std::fprintf(stderr, "%s, but the sentence is: %s\n", about, reason.c_str());
  return 1;
}

}  // namespace

// The argument says what is here: a plug-in ("present"), none in its folder ("absent"), or a library without the mode
// ("unbuilt").
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::strcmp(tern::version(), TERN_EXPECTED_VERSION) != 0 ||
      std::strcmp(TERN_VERSION_STRING, TERN_EXPECTED_VERSION) != 0) {
    std::fprintf(stderr, "the version is %s in the library, %s in the headers and %s in CMake\n", tern::version(),
                 TERN_VERSION_STRING, TERN_EXPECTED_VERSION);
    return 1;
  }
  const std::string built = argv[1];
  for (const tern::ModeStatus& mode : tern::modes()) {
    std::printf("%s: %s\n", mode.name.c_str(), mode.reason.c_str());
    if (mode.name != "cuda") {
      if (!mode.available) return complain("a mode on host memory is missing", mode.reason);
      continue;
    }
    if (built == "unbuilt" && !has(mode.reason, "built without")) return complain("it is not built", mode.reason);
    if (built == "absent" && !has(mode.reason, "was not found")) return complain("there is not a plug-in", mode.reason);
    if (built != "present") continue;
    const bool driver = dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
    const bool library = !has(mode.reason, "a library could not be loaded");
    if (mode.available && !driver) return complain("there is no driver, yet cuda is available", mode.reason);
    if (library && !driver && !has(mode.reason, "no NVIDIA driver")) return complain("there is no driver", mode.reason);
    if (library && driver && has(mode.reason, "no NVIDIA driver")) return complain("there is a driver", mode.reason);
    if (has(mode.reason, "was not found (looked")) return complain("the plug-in is here", mode.reason);
    if (mode.available) continue;
    try {
      const tern::Device cuda{"cuda"};
      return complain("cuda is missing and yet opens", mode.reason);
    } catch (const tern::DeviceUnavailable& error) {
      if (!has(error.what(), mode.reason.c_str())) return complain(error.what(), mode.reason);
    }
  }
  return 0;
}
