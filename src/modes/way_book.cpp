#include "modes/way_book.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <vector>

#include "modes/registry.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_way.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

namespace {

constinit thread_local ForcedWay* innermost = nullptr;

std::string known_ways(const Decision& decision) {
  std::string list;
  for (const char* way : decision.ways)
    if (way != nullptr) list += message(list.empty() ? "" : ", ", way);
  return list;
}

const Decision* find_decision(const Mode& mode, std::string_view name) {
  const auto found = std::find_if(mode.decisions.begin(), mode.decisions.end(),
                                  [&](const Decision& decision) { return name == decision.name; });
  return found == mode.decisions.end() ? nullptr : &*found;
}

/// The names of a decision and a way as the mode keeps them. Throws Error with those there are.
std::pair<const char*, const char*> find_way(const char* who, const Mode& mode, std::string_view name,
                                             std::string_view way) {
  const Decision* const decision = find_decision(mode, name);
  if (decision == nullptr) {
    std::string list;
    for (const Decision& known : mode.decisions) list += message(list.empty() ? "" : ", ", known.name);
    throw Error(message(who, ": mode ", mode.name, " has no choice of ways called \"", name, "\"; it has ",
                        list.empty() ? "none" : list));
  }
  for (const char* known : decision->ways)
    if (known != nullptr && way == known) return {decision->name, known};
  throw Error(message(who, ": ", name, " knows no way \"", way, "\" in mode ", mode.name, "; it knows ",
                      known_ways(*decision)));
}

/// One entry of TERN_WAY.
struct Entry {
  std::string mode = {}, decision = {}, way = {};  // without a mode: in all of them; without a way: no sense
};

const std::vector<Entry>& environment() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> result;
    const char* const variable = std::getenv("TERN_WAY");
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
                        .way = std::string(item.substr(colon + 1))});
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
struct WayBook {
  static const char* forced(const char* decision) {
    const Mode& mode = *current_scope().mode;
    for (const ForcedWay* way = innermost; way != nullptr; way = way->outer_)
      if (way->decisions_ == mode.decisions.data() && std::strcmp(way->decision_, decision) == 0) return way->way_;
    for (const Entry& entry : environment())
      if (entry.decision == decision && concerns(entry, mode)) return entry.way.c_str();
    return nullptr;
  }

  static void took(const char* decision, const char* way) noexcept {
    if (OperatorCall* const call = OperatorCall::open()) call->took(decision, way);
    const Decision* const decisions = current_scope().mode->decisions.data();
    for (ForcedWay* forced = innermost; forced != nullptr; forced = forced->outer_) {
      if (forced->decisions_ != decisions || std::strcmp(forced->decision_, decision) != 0) continue;
      ++(std::strcmp(forced->way_, way) == 0 ? forced->taken_ : forced->missed_);
      return;  // an outer one of the same decision does not count
    }
  }

  static Ways& instance() {
    static Ways ways{.watched{environment().empty() ? 0 : 1}, .forced = forced, .took = took};
    return ways;
  }

  static std::string list() {
    std::string result;
    for (const Decision& decision : current_scope().mode->decisions)
      if (const char* const way = forced(decision.name); way != nullptr)
        result += message(result.empty() ? "" : ",", decision.name, ':', way);
    return result;
  }
};

const Ways& ways() { return WayBook::instance(); }

void watch_ways(int change) noexcept { WayBook::instance().watched.fetch_add(change, std::memory_order_relaxed); }

void check_environment_ways(const Mode& mode) {
  for (const Entry& entry : environment()) {
    expects(!entry.way.empty(), "TERN_WAY: \"", entry.decision,
            "\" is not of the form conv2d:tiles or vectorized.conv2d:tiles");
    if (concerns(entry, mode)) find_way("TERN_WAY", mode, entry.decision, entry.way);
  }
}

std::string forced_ways() {
  return ways().watched.load(std::memory_order_relaxed) == 0 ? std::string() : WayBook::list();
}

ForcedWay::ForcedWay(std::string_view decision, std::string_view way) {
  const Mode& mode = *current_scope().mode;
  std::tie(decision_, way_) = find_way("ForcedWay", mode, decision, way);
  decisions_ = mode.decisions.data();
  outer_ = innermost;
  innermost = this;
  watch_ways(+1);
}

ForcedWay::~ForcedWay() {
  ForcedWay** place = &innermost;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  watch_ways(-1);
}

}  // namespace tern
