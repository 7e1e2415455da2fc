#include "modes/algorithm_book.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <vector>

#include "modes/registry.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

namespace {

constinit thread_local ForcedAlgorithm* innermost = nullptr;

std::string known_algorithms(const Decision& decision) {
  std::string list;
  for (const char* algorithm : decision.algorithms)
    if (algorithm != nullptr) list += message(list.empty() ? "" : ", ", algorithm);
  return list;
}

const Decision* find_decision(const Mode& mode, std::string_view name) {
  const auto found = std::find_if(mode.decisions.begin(), mode.decisions.end(),
                                  [&](const Decision& decision) { return name == decision.name; });
  return found == mode.decisions.end() ? nullptr : &*found;
}

/// The names of a decision and an algorithm as the mode stores them. Throws Error with the known names.
std::pair<const char*, const char*> find_algorithm(const char* who, const Mode& mode, std::string_view name,
                                                   std::string_view algorithm) {
  const Decision* const decision = find_decision(mode, name);
  if (decision == nullptr) {
    std::string list;
    for (const Decision& known : mode.decisions) list += message(list.empty() ? "" : ", ", known.name);
    throw Error(message(who, ": mode ", mode.name, " has no decision named \"", name, "\"; it has ",
                        list.empty() ? "none" : list));
  }
  for (const char* known : decision->algorithms)
    if (known != nullptr && algorithm == known) return {decision->name, known};
  throw Error(message(who, ": ", name, " has no algorithm \"", algorithm, "\" in mode ", mode.name, "; it has ",
                      known_algorithms(*decision)));
}

/// One entry of TERN_ALGORITHM.
struct Entry {
  std::string mode = {}, decision = {}, algorithm = {};  // without a mode: in all modes; without an algorithm: an error
};

const std::vector<Entry>& environment() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> result;
    const char* const variable = std::getenv("TERN_ALGORITHM");
    std::string_view text = variable == nullptr ? "" : variable;
    while (!text.empty()) {
      const std::string_view item = text.substr(0, text.find(','));
      text.remove_prefix(std::min(text.size(), item.size() + 1));
      const std::size_t colon = item.find(':'), dot = std::min(item.find('.'), colon);
      if (colon == std::string_view::npos) {
        result.push_back({.decision = std::string(item)});
        continue;
      }
      const std::size_t name = dot == colon ? 0 : dot + 1;
      result.push_back({.mode = std::string(item.substr(0, dot == colon ? 0 : dot)),
                        .decision = std::string(item.substr(name, colon - name)),
                        .algorithm = std::string(item.substr(colon + 1))});
    }
    return result;
  }();
  return entries;
}

bool concerns(const Entry& entry, const Mode& mode) {
  return entry.mode.empty() ? !mode.decisions.empty() : entry.mode == name_without_index(mode);
}

}  // namespace

/// What kernels reach through their context.
struct AlgorithmBook {
  static const char* forced(const char* decision) {
    const Mode& mode = *current_scope().mode;
    for (const ForcedAlgorithm* algorithm = innermost; algorithm != nullptr; algorithm = algorithm->outer_)
      if (algorithm->decisions_ == mode.decisions.data() && std::strcmp(algorithm->decision_, decision) == 0)
        return algorithm->algorithm_;
    for (const Entry& entry : environment())
      if (entry.decision == decision && concerns(entry, mode)) return entry.algorithm.c_str();
    return nullptr;
  }

  static void took(const char* decision, const char* algorithm) noexcept {
    if (OperatorCall* const call = OperatorCall::open()) call->took(decision, algorithm);
    const Decision* const decisions = current_scope().mode->decisions.data();
    for (ForcedAlgorithm* forced = innermost; forced != nullptr; forced = forced->outer_) {
      if (forced->decisions_ != decisions || std::strcmp(forced->decision_, decision) != 0) continue;
      ++(std::strcmp(forced->algorithm_, algorithm) == 0 ? forced->taken_ : forced->missed_);
      return;  // an outer one for the same decision does not count
    }
  }

  static Algorithms& instance() {
    static Algorithms algorithms{.watched{environment().empty() ? 0 : 1}, .forced = forced, .took = took};
    return algorithms;
  }

  static std::string list() {
    std::string result;
    for (const Decision& decision : current_scope().mode->decisions)
      if (const char* const algorithm = forced(decision.name); algorithm != nullptr)
        result += message(result.empty() ? "" : ",", decision.name, ':', algorithm);
    return result;
  }
};

const Algorithms& algorithms() { return AlgorithmBook::instance(); }

void watch_algorithms(int change) noexcept {
  AlgorithmBook::instance().watched.fetch_add(change, std::memory_order_relaxed);
}

void check_environment_algorithms(const Mode& mode) {
  for (const Entry& entry : environment()) {
    expects(!entry.algorithm.empty(), "TERN_ALGORITHM: \"", entry.decision,
            "\" is not of the form conv2d:winograd or vectorized.conv2d:winograd");
    if (concerns(entry, mode)) find_algorithm("TERN_ALGORITHM", mode, entry.decision, entry.algorithm);
  }
}

std::string forced_algorithms() {
  return algorithms().watched.load(std::memory_order_relaxed) == 0 ? std::string() : AlgorithmBook::list();
}

ForcedAlgorithm::ForcedAlgorithm(std::string_view decision, std::string_view algorithm) {
  const Mode& mode = *current_scope().mode;
  std::tie(decision_, algorithm_) = find_algorithm("ForcedAlgorithm", mode, decision, algorithm);
  decisions_ = mode.decisions.data();
  outer_ = innermost;
  innermost = this;
  watch_algorithms(+1);
}

ForcedAlgorithm::~ForcedAlgorithm() {
  ForcedAlgorithm** place = &innermost;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  watch_algorithms(-1);
}

}  // namespace tern
