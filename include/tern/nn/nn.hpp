#pragma once

#include "tern/nn/activation.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/init.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/nn/module.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/sequential.hpp"
#include "tern/nn/shape.hpp"
#include "tern/nn/summary.hpp"
