#pragma once
// Losses of rows whose targets are labels, for the slots of kernels::Loss; for every compute type.

#include "tern/kernels/loss.hpp"

namespace tern::cuda {

template <class T>
void cross_entropy(Context& context, Scalar<T>* loss, Scalar<T>* probabilities, T* grad_logits, const T* logits,
                   const std::int64_t* labels, const kernels::CrossEntropy& sizes);
template <class T>
void cross_entropy_backward(Context& context, T* grad_logits, const Scalar<T>* grad_loss,
                            const Scalar<T>* probabilities, const std::int64_t* labels,
                            const kernels::CrossEntropy& sizes);
template <class T>
void nll(Context& context, Scalar<T>* loss, const T* log_probabilities, const std::int64_t* labels,
         const kernels::CrossEntropy& sizes);
template <class T>
void nll_backward(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                  const kernels::CrossEntropy& sizes);

}  // namespace tern::cuda
