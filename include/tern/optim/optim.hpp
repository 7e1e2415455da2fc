#pragma once

#include "tern/optim/adam.hpp"
#include "tern/optim/clip.hpp"
#include "tern/optim/schedule.hpp"
#include "tern/optim/sgd.hpp"
