#pragma once
// Faults of kernels, planted in copies of a healthy mode: what DeviceOptions::verify has to find.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace tern::testing {

inline const Mode& healthy() { return mode("vectorized"); }
inline const kernels::Operators<float>& table() { return healthy().operators; }

/// A kernel with a fault, and what the message about it has to name.
struct Fault {
  std::string name;
  std::string said;  // the operator
  void (*plant)(Mode& mode);
};

// Off by a hundredth: what an index or a factor that is a little wrong makes of one element.
inline void nudge(float& value) { value += 0.01f * (1 + std::abs(value)); }

/// In LeNet and a small GoogLeNet.
inline const std::vector<Fault>& planted_faults() {
  using namespace kernels;
  static const std::vector<Fault> list{
      {"conv2d forgets the bias", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d = +[](Context& c, float* y, const float* x, const float* w, const float*,
                                       const Conv2d& s) { table().conv.conv2d(c, y, x, w, nullptr, s); };
       }},
      {"conv2d forgets the activation", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               Conv2d plain = s;
               plain.activation = Activation::none;
               table().conv.conv2d(c, y, x, w, b, plain);
             };
       }},
      {"conv2d: the last output is another's", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               table().conv.conv2d(c, y, x, w, b, s);
               nudge(y[s.OH * s.OW - 1]);
             };
       }},
      {"conv2d reads its weights flipped", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               const std::vector<float> flipped(std::make_reverse_iterator(w + s.O * (s.C / s.groups) * s.KH * s.KW),
                                                std::make_reverse_iterator(w));
               table().conv.conv2d(c, y, x, flipped.data(), b, s);
             };
       }},
      {"conv2d: one image of the batch is not computed", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               Conv2d fewer = s;
               fewer.N = s.N - 1;
               table().conv.conv2d(c, y, x, w, b, fewer);
               const std::int64_t pitch = s.y_channels > 0 ? s.y_channels : s.O;
               for (std::int64_t i = 0; i < s.OH * s.OW; ++i) y[fewer.N * s.OH * s.OW * pitch + i] = 0;
             };
       }},
      {"the gradient of conv2d's input is off", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gx != nullptr) gx[3] = -gx[3] + 1e-3f;
         };
       }},
      {"the gradient of conv2d's weight is added twice", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) gw[0] *= 2;
         };
       }},
      {"the gradient of conv2d's bias misses the activation", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           Conv2d plain = s;
           plain.activation = Activation::none;
           table().conv.conv2d_backward(c, gx, gw, nullptr, g, x, w, y, s);
           if (gb != nullptr) table().conv.conv2d_backward(c, nullptr, nullptr, gb, g, x, w, nullptr, plain);
           if (gb != nullptr && s.activation == Activation::none) nudge(gb[0]);
         };
       }},
      {"conv2d's backward leaves the last weight unwritten", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) gw[s.O * (s.C / s.groups) * s.KH * s.KW - 1] = 77;
         };
       }},
      {"max_pool2d takes the last maximum", "max_pool2d in",
       [](Mode& m) {
         m.operators.pooling.max_pool2d =
             +[](Context& c, float* out, std::uint8_t* index, const float* in, const Pool2d& s) {
               table().pooling.max_pool2d(c, out, index, in, s);
               if (index != nullptr) index[1] = static_cast<std::uint8_t>((index[1] + 1) % (s.KH * s.KW));
             };
       }},
      {"max_pool2d: one maximum is not the largest", "max_pool2d in",
       [](Mode& m) {
         m.operators.pooling.max_pool2d =
             +[](Context& c, float* out, std::uint8_t* index, const float* in, const Pool2d& s) {
               table().pooling.max_pool2d(c, out, index, in, s);
               out[5] -= 0.01f;
             };
       }},
      {"max_pool2d's gradient goes to the neighbour", "max_pool2d backward",
       [](Mode& m) {
         m.operators.pooling.max_pool2d_backward =
             +[](Context& c, float* gx, const float* g, const std::uint8_t* index, const Pool2d& s) {
               table().pooling.max_pool2d_backward(c, gx, g, index, s);
               std::rotate(gx, gx + 1, gx + s.planes * s.H * s.W);
             };
       }},
      {"avg_pool2d divides by another number", "avg_pool2d",
       [](Mode& m) {
         m.operators.pooling.avg_pool2d = +[](Context& c, float* out, const float* in, const Pool2d& s) {
           table().pooling.avg_pool2d(c, out, in, s);
           out[0] *= 1.02f;
           out[0] += 0.01f;
         };
         m.operators.pooling.adaptive_avg_pool2d =
             +[](Context& c, float* out, const float* in, const AdaptivePool2d& s) {
               table().pooling.adaptive_avg_pool2d(c, out, in, s);
               out[0] += 0.01f;
             };
       }},
      {"avg_pool2d's gradient keeps what was there", "avg_pool2d backward",
       [](Mode& m) {
         m.operators.pooling.avg_pool2d_backward = +[](Context& c, float* gx, const float* g, const Pool2d& s) {
           table().pooling.avg_pool2d_backward(c, gx, g, s);
           gx[2] += 1;
         };
         m.operators.pooling.adaptive_avg_pool2d_backward =
             +[](Context& c, float* gx, const float* g, const AdaptivePool2d& s) {
               table().pooling.adaptive_avg_pool2d_backward(c, gx, g, s);
               gx[2] += 1;
             };
       }},
      {"linear forgets the bias", "linear in",
       [](Mode& m) {
         m.operators.dot.linear = +[](Context& c, float* y, const float* x, const float* w, const float*,
                                      const Linear& s) { table().dot.linear(c, y, x, w, nullptr, s); };
       }},
      {"linear: the last feature is left out", "linear in",
       [](Mode& m) {
         m.operators.dot.linear =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Linear& s) {
               std::vector<float> shorter(x, x + s.rows * s.in);
               for (std::int64_t i = 0; i < s.rows; ++i) shorter[(i + 1) * s.in - 1] = 0;
               table().dot.linear(c, y, shorter.data(), w, b, s);
             };
       }},
      {"linear's last row is computed with the row before", "linear in",
       [](Mode& m) {
         m.operators.dot.linear =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Linear& s) {
               table().dot.linear(c, y, x, w, b, s);
               std::copy_n(y, s.out, y + (s.rows - 1) * s.out);
             };
       }},
      {"the gradient of linear's input is transposed", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gx != nullptr) std::reverse(gx, gx + s.rows * s.in);
         };
       }},
      {"the gradient of linear's weight is off", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) nudge(gw[s.in - 1]);
         };
       }},
      {"the gradient of linear's bias is a mean", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           for (std::int64_t i = 0; gb != nullptr && i < s.out; ++i) gb[i] /= 2;
         };
       }},
      {"cross_entropy is a sum", "cross_entropy in",
       [](Mode& m) {
         m.operators.loss.cross_entropy = +[](Context& c, float* loss, float* p, float* gx, const float* x,
                                              const std::int64_t* labels, const CrossEntropy& s) {
           CrossEntropy sum = s;
           sum.reduce = Reduce::sum;
           table().loss.cross_entropy(c, loss, p, gx, x, labels, sum);
         };
       }},
      {"cross_entropy's probabilities do not add up", "cross_entropy in",
       [](Mode& m) {
         m.operators.loss.cross_entropy = +[](Context& c, float* loss, float* p, float* gx, const float* x,
                                              const std::int64_t* labels, const CrossEntropy& s) {
           table().loss.cross_entropy(c, loss, p, gx, x, labels, s);
           if (p != nullptr) p[1] *= 1.01f;
         };
       }},
      {"cross_entropy's gradient forgets the label", "cross_entropy backward",
       [](Mode& m) {
         m.operators.loss.cross_entropy_backward = +[](Context& c, float* gx, const float* g, const float* p,
                                                       const std::int64_t* labels, const CrossEntropy& s) {
           table().loss.cross_entropy_backward(c, gx, g, p, labels, s);
           gx[labels[0]] += 1.0f / static_cast<float>(s.rows);
         };
       }},
      {"local_response_norm looks at one channel less", "local_response_norm in",
       [](Mode& m) {
         m.operators.normalization.local_response_norm =
             +[](Context& c, float* y, const float* x, const LocalResponseNorm& s) {
               LocalResponseNorm narrow = s;
               narrow.alpha = s.alpha * 40;
               table().normalization.local_response_norm(c, y, x, narrow);
             };
       }},
      {"local_response_norm's gradient is the output's", "local_response_norm backward",
       [](Mode& m) {
         m.operators.normalization.local_response_norm_backward =
             +[](Context& c, float* gx, const float* g, const float* x, const float* y, const LocalResponseNorm& s) {
               table().normalization.local_response_norm_backward(c, gx, g, x, y, s);
               gx[0] = g[0] + 1e-3f;
             };
       }},
      {"dropout keeps what it should not", "dropout in",
       [](Mode& m) {
         m.operators.shape.dropout =
             +[](Context& c, float* out, const float* in, std::int64_t n, double probability, const random::Key& key) {
               table().shape.dropout(c, out, in, n, probability, {key.seed, key.offset + 1, key.base});
             };
       }},
      {"add_all forgets an addend", "add_all",
       [](Mode& m) {
         m.operators.arithmetic.add_all =
             +[](Context& c, float* out, const float* a, const float* b, const float*, const float* d, const float* e,
                 const float* f, const float* g, const float* h,
                 std::int64_t n) { table().arithmetic.add_all(c, out, a, b, d, e, f, g, h, nullptr, n); };
       }},
      {"sgd forgets the weight decay", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Sgd without = s;
           without.weight_decay = 0;
           table().update.sgd(c, p, rate, without);
         };
       }},
      {"sgd skips the last parameter", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Parameters<float> fewer = p;
           --fewer.count;
           table().update.sgd(c, fewer, rate, s);
         };
       }},
      {"sgd's momentum has the wrong sign", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Sgd reversed = s;
           reversed.momentum = -s.momentum;
           reversed.first_step = false;
           table().update.sgd(c, p, rate, reversed);
         };
       }},
      {"a copy leaves the last element", "copy", [](Mode& m) {
         m.movement.copy = +[](Context& c, void* out, const void* in, const Strided& s, std::size_t element) {
           healthy().movement.copy(c, out, in, s, element);
           if (s.count > 1) static_cast<std::byte*>(out)[0] ^= std::byte{0x40};
         };
       }}};
  return list;
}

}  // namespace tern::testing
