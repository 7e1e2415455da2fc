#pragma once

#include "tern/operators/activation.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/loss.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/pooling.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"
#include "tern/operators/update.hpp"
