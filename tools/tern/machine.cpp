#include "machine.hpp"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <fstream>
#include <thread>

#include "tern/core/error.hpp"
#include "tern/core/version.hpp"
#include "tern/modes/mode.hpp"

namespace tern::tool {

namespace {

std::string operating_system() {
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=")) {
      std::string name = line.substr(12);
      std::erase(name, '"');
      return name;
    }
  return "unknown system";
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace

std::string processor() {
  std::ifstream information("/proc/cpuinfo");
  for (std::string line; std::getline(information, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

Json describe_machine() {
  utsname kernel{};
  uname(&kernel);
  struct sysinfo memory {};
  sysinfo(&memory);
  Json modes = Json::array();
  for (const ModeStatus& status : tern::modes())
    modes.push_back({{"name", status.name}, {"available", status.available}, {"reason", status.reason}});
  Json places = Json::array();
  for (const Place& place : devices())
    places.push_back(
        {{"name", place.name}, {"mode", place.mode}, {"index", place.index}, {"description", place.description}});
  return {{"version", version()},
          {"compiler", compiler()},
          {"system", operating_system() + ", " + kernel.sysname + " " + kernel.release + " " + kernel.machine},
          {"processor", processor()},
          {"threads", std::thread::hardware_concurrency()},
          {"memory_mib", static_cast<std::int64_t>(memory.totalram) * memory.mem_unit / (1 << 20)},
          {"modes", modes},
          {"devices", places},
          {"libraries",
           {{"Highway", TERN_VERSION_HIGHWAY},
            {"zlib", zlibVersion()},
            {"libjpeg", TERN_VERSION_JPEG},
            {"libpng", TERN_VERSION_PNG},
            {"nlohmann-json", message(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR, ".",
                                      NLOHMANN_JSON_VERSION_PATCH)}}}};
}

}  // namespace tern::tool
