#pragma once
/// The whole library: `#include <tern/tern.hpp>`.

#include "tern/autograd/tape.hpp"
#include "tern/core/create.hpp"
#include "tern/core/version.hpp"
#include "tern/device/step.hpp"
#include "tern/operators/operators.hpp"
