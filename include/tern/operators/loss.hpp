#pragma once

#include "tern/core/member_list.hpp"
#include "tern/kernels/loss.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {
using kernels::Reduce;
}

namespace tern::operators {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this label cost nothing and do not count
  double label_smoothing = 0;        ///< in [0, 1]
  Reduce reduce = Reduce::mean;
  Tensor weight = {};  ///< per class [classes]: a row counts as much as its label's weight, in the mean too

  using Members = MemberList<&CrossEntropyOptions::ignore_index, &CrossEntropyOptions::label_smoothing,
                             &CrossEntropyOptions::reduce>;
};

/// -log(softmax(logits)[label]), fused and stable, never negative. logits [rows, classes] with labels [rows] int64, or
/// logits [N, classes, d...] with labels [N, d...]. A label out of range is a NumericError (on cuda: at the next wait).
/// Floating labels with the logits' shape and dtype are class probabilities p: -sum(p weight log(softmax)), averaged
/// over all rows. These forms and class weights are composed of other operators, with torch's formulas.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {});
/// -log_probabilities[label] weight[label]; log_probabilities [rows, classes] as returned by log_softmax, or with the
/// other forms of dimensions and weights that cross_entropy accepts.
Tensor nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options = {});

// Pointwise losses: prediction and target have one shape; the target takes no gradient.
/// (prediction - target)^2.
Tensor mse(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);
/// |prediction - target|.
Tensor mae(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);
/// -(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))), stable; x the logits, t in [0, 1].
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::mean);
struct BinaryCrossEntropyOptions {
  Tensor weight = {};      ///< per element, broadcast
  Tensor pos_weight = {};  ///< for the logits form: factor of the term with t, broadcast
  Reduce reduce = Reduce::mean;

  using Members = MemberList<&BinaryCrossEntropyOptions::reduce>;
};
/// The same as weight (pos_weight t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))), composed of other operators. The
/// mean is over all elements, whatever their weights, as in torch.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options);
/// -weight (t log(p) + (1 - t) log(1 - p)) for probabilities p, composed of other operators. As in torch, logarithms
/// are at least -100 and the gradient divides by at least 1e-12. NaN for p outside [0, 1]; the logits form keeps more
/// digits.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyOptions& options = {});
/// max(0, 1 - t x), t = -1 or 1.
Tensor hinge(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);

// Composed of other operators; both inputs may require a gradient.
/// error^2 / 2 where |error| <= delta, else delta * (|error| - delta / 2); error = prediction - target.
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1, Reduce reduce = Reduce::mean);
/// huber with delta = beta, divided by beta; mae when beta is 0.
Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta = 1, Reduce reduce = Reduce::mean);
/// t * (log(t) - x), 0 where t is 0; x holds log-probabilities, t probabilities or (`log_target`) log-probabilities.
/// `mean` is over all elements, as in torch; the divergence of a batch is the sum divided by its rows.
Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, bool log_target = false,
              Reduce reduce = Reduce::mean);
/// sum(a * b) / (max(|a|, epsilon) * max(|b|, epsilon)) along `dim` of both, broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim = 1, double epsilon = 1e-8);
/// (1 - p)^gamma times binary_cross_entropy_with_logits, where p is the probability of the target, times alpha for
/// targets of 1 and 1 - alpha for targets of 0 (a negative alpha: unweighted), as in torchvision. The target gets no
/// gradient.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduce reduce = Reduce::none);

}  // namespace tern::operators
