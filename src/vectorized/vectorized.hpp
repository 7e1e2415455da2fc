#pragma once
// The families of the vectorized mode. Other modes may borrow any of them.

#include "tern/modes/mode.hpp"

namespace tern::vectorized {

const Mode& mode();

// Each is defined and instantiated for float and double at the end of the file of its name.
template <class T>
kernels::Arithmetic<T> arithmetic();
template <class T>
kernels::Dot<T> dot();
template <class T>
kernels::Conv<T> conv();
template <class T>
kernels::Activations<T> activation();
template <class T>
kernels::Pooling<T> pooling();
template <class T>
kernels::Reduction<T> reduction();
template <class T>
kernels::Loss<T> loss();
template <class T>
kernels::Normalization<T> normalization();
template <class T>
kernels::Attention<T> attention();
template <class T>
kernels::Shape<T> shape();
template <class T>
kernels::Update<T> update();
/// The whole table of an integer dtype.
template <class T>
kernels::Operators<T> integer_operators();
kernels::Movement movement();
kernels::Quantized quantized();
kernels::Recurrent recurrent();
kernels::Resampling resampling();

}  // namespace tern::vectorized
