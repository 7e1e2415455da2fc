#pragma once

#include "tern/optim/adam.hpp"
#include "tern/optim/average.hpp"
#include "tern/optim/clip.hpp"
#include "tern/optim/groups.hpp"
#include "tern/optim/lion.hpp"
#include "tern/optim/mixed.hpp"
#include "tern/optim/rms.hpp"
#include "tern/optim/schedule.hpp"
#include "tern/optim/sgd.hpp"
