#pragma once

#include "tern/core/error.hpp"
#include "tern/memory/memory.hpp"

namespace tern {

/// Elements that no kernel has computed are read.
class NoElements : public Error {
  using Error::Error;
};

/// Where the results of operators live that are inferred and not run: blocks have an address and no bytes.
Memory& no_memory();

}  // namespace tern
