#pragma once
// The families of the cuda mode. Other modes may borrow any of them.

#include "tern/modes/mode.hpp"
#include "tern/modes/plugin.hpp"

namespace tern::cuda {

/// Of the program that opened the plug-in.
inline HostFunctions host_functions;

const Mode& mode();
/// One sentence; empty if the first card can run the mode.
std::string why_not();
/// The memory of one card.
Memory& memory(int device);
/// Makes the card of a stream the thread's current one.
void use_card_of(void* stream);
/// Makes every kernel of the mode first select its context's card, for more than one card. Once per process.
void use_cards(Mode& mode);
/// Records a stream's work as a CUDA graph.
const Capture& capture();
/// Events on a stream, and NVTX ranges.
const Timer& timer();

// Each is defined and instantiated for the compute types at the end of the file of its name; products and convolutions
// of 16 bits in halves.cu of their folders.
template <class T>
kernels::Arithmetic<T> arithmetic();
template <class T>
kernels::Dot<T> dot();
template <>
kernels::Dot<BFloat16> dot<BFloat16>();
template <>
kernels::Dot<Float16> dot<Float16>();
template <class T>
kernels::Conv<T> conv();
template <>
kernels::Conv<BFloat16> conv<BFloat16>();
template <>
kernels::Conv<Float16> conv<Float16>();
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

/// The whole table of one compute dtype.
template <class T>
kernels::Operators<T> operators() {
  return {.arithmetic = arithmetic<T>(),
          .dot = dot<T>(),
          .conv = conv<T>(),
          .activation = activation<T>(),
          .pooling = pooling<T>(),
          .reduction = reduction<T>(),
          .loss = loss<T>(),
          .normalization = normalization<T>(),
          .attention = attention<T>(),
          .shape = shape<T>(),
          .update = update<T>(),
          .channels_last = true,
          .wide_parameters = !std::is_same_v<T, Scalar<T>>};
}

}  // namespace tern::cuda
