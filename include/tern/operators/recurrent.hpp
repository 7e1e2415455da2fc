#pragma once

#include <vector>

#include "tern/core/member_list.hpp"
#include "tern/operators/activation.hpp"

namespace tern::operators {

// One direction of one recurrent layer over x [T, N, I]: T steps of N sequences; nn::LSTM and its like join layers and
// directions. For H hidden units and G gates weight_ih is [G H, I], weight_hh [G H, H], the biases [G H] or undefined,
// the gates in torch's order. The state before the first step is [N, H], zeros if undefined. `lengths` [N] (int64, or
// undefined): a sequence ends after so many steps; from there on its output is 0 and its state stays. The results are
// the outputs [T, N, H] and the last state, each [N, H].

struct RnnOptions {
  Activation activation = Activation::tanh;
  bool reverse = false;  ///< from the last step to the first
  double clip = 0;       ///< above 0: what enters an activation is limited to [-clip, clip]

  using Members = MemberList<&RnnOptions::activation, &RnnOptions::reverse, &RnnOptions::clip>;
};
/// h = activation(weight_ih x + bias_ih + weight_hh h + bias_hh), as torch.nn.RNN and ONNX's RNN: {outputs, h}.
std::vector<Tensor> rnn(const Tensor& x, const Tensor& hidden, const Tensor& weight_ih, const Tensor& weight_hh,
                        const Tensor& bias_ih = {}, const Tensor& bias_hh = {}, const Tensor& lengths = {},
                        const RnnOptions& options = {});

struct LstmOptions {
  bool reverse = false;
  double clip = 0;
  bool input_forget = false;  ///< f = 1 - i, as ONNX's attribute of this name

  using Members = MemberList<&LstmOptions::reverse, &LstmOptions::clip, &LstmOptions::input_forget>;
};
/// Long short-term memory: gates (i, f, g, o) = weight_ih x + bias_ih + weight_hh h + bias_hh, c = sigmoid(f) c +
/// sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), as torch.nn.LSTM: {outputs, h, c}. `peepholes` [3 H] (or undefined) are
/// the weights with which c enters i, f and, after the step, o; ONNX's LSTM has another order of gates and peepholes
/// (i, o, f). (Hochreiter and Schmidhuber, 1997.)
std::vector<Tensor> lstm(const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weight_ih,
                         const Tensor& weight_hh, const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                         const Tensor& peepholes = {}, const Tensor& lengths = {}, const LstmOptions& options = {});

struct GruOptions {
  bool reverse = false;
  double clip = 0;
  bool reset_after = true;  ///< torch's n = tanh(x' + r (weight_hh h + bias_hh)), ONNX's linear_before_reset = 1; else
                            ///< n = tanh(x' + weight_hh (r h) + bias_hh)

  using Members = MemberList<&GruOptions::reverse, &GruOptions::clip, &GruOptions::reset_after>;
};
/// Gated recurrent unit: r and z are sigmoids of their gates, n the candidate, h = (1 - z) n + z h; gates (r, z, n) as
/// torch.nn.GRU: {outputs, h}. ONNX's order is (z, r, n). (Cho and others, 2014.)
std::vector<Tensor> gru(const Tensor& x, const Tensor& hidden, const Tensor& weight_ih, const Tensor& weight_hh,
                        const Tensor& bias_ih = {}, const Tensor& bias_hh = {}, const Tensor& lengths = {},
                        const GruOptions& options = {});

}  // namespace tern::operators
