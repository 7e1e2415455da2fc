// The implementation of tern_single.hpp, for the programs beside it.

#define TERN_IMPLEMENTATION
#include "tern_single.hpp"
