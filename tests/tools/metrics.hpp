#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace tern::testing {

/// The events of a run's metrics.jsonl; every line must be whole.
inline std::vector<nlohmann::json> events_of(const std::string& run) {
  std::istringstream lines(read_bytes(run + "/metrics.jsonl"));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

}  // namespace tern::testing
