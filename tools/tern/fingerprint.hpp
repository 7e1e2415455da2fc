#pragma once

#include "tern/data/fingerprint.hpp"

namespace tern::tool {

using data::Fingerprint;

}  // namespace tern::tool
