#pragma once
/// The whole library: `#include <tern/tern.hpp>`.

#include "tern/autograd/tape.hpp"
#include "tern/core/create.hpp"
#include "tern/core/version.hpp"
#include "tern/data/loader.hpp"
#include "tern/data/mnist.hpp"
#include "tern/data/synthetic_digits.hpp"
#include "tern/device/step.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
