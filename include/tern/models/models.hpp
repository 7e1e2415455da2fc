#pragma once

#include "tern/models/lenet.hpp"
#include "tern/models/mlp.hpp"
