// Throws what a mode of its own may throw. It does not link the library.
#include "tern/core/error.hpp"

extern "C" void throw_shape_error();
void throw_shape_error() { throw tern::ShapeError(tern::message("a shape of ", 3, " sides")); }
