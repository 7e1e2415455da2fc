#pragma once
// A sequential mode whose recordings log the order in which they are made.

#include <string>

#include "tern/modes/mode.hpp"

namespace tern::testing {

/// The calls of `logged_capture`, one word each.
inline std::string capture_log;

inline const Capture logged_capture{.begin = [](void*) { capture_log += "begin "; },
                                    .end = [](void*) -> void* {
                                      capture_log += "end ";
                                      return new int(0);
                                    },
                                    .abandon = [](void*) { capture_log += "abandon "; },
                                    .launch = [](void*, void*) { capture_log += "launch "; },
                                    .destroy = [](void* recording) { delete static_cast<int*>(recording); },
                                    .branch = [](void*) { capture_log += "branch "; },
                                    .join = [](void*) { capture_log += "join "; }};

/// Registers such a mode, with an empty log.
inline const Mode& register_logged(const std::string& name) {
  Mode captured = mode("sequential");
  captured.capture = &logged_capture;
  capture_log.clear();
  return register_mode(name, captured);
}

}  // namespace tern::testing
