#pragma once
// For the HWY_ONCE part of a multi-target file (targets.hpp).

/// Defines name<float>() and name<double>() as function_float() and function_double() of the best instruction set that
/// this machine has, chosen once: a slot is the function for that set.
#define TERN_DISPATCHED(name, function)               \
  HWY_EXPORT(function##_float);                       \
  HWY_EXPORT(function##_double);                      \
  TERN_DISPATCHED_TYPE(name<float>, function##_float) \
  TERN_DISPATCHED_TYPE(name<double>, function##_double)
#define TERN_DISPATCHED_TYPE(name, function)                      \
  template <>                                                     \
  decltype(HWY_STATIC_DISPATCH(function)()) name() {              \
    static const auto& chosen = HWY_DYNAMIC_DISPATCH(function)(); \
    return chosen;                                                \
  }
