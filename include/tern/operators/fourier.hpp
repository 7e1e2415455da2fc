#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

struct DftOptions {
  std::optional<std::int64_t> length = {};  ///< of the signal, cut off or filled with zeros; its own if absent
  bool inverse = false;                     ///< with the factor 1 / length
  bool onesided = false;  ///< the first length / 2 + 1 numbers of a real signal's spectrum; inverse: a
                          ///< real signal from those, whose usual length is 2 (size - 1)

  using Members = MemberList<&DftOptions::length, &DftOptions::inverse, &DftOptions::onesided>;
};
/// The discrete Fourier transform along `dim`, as torch.fft.fft, ifft, rfft and irfft, and ONNX's DFT. The last
/// dimension of x holds the real and the imaginary part (2), or the real part alone (1); that of the result both, or
/// for a one-sided inverse the real part. A length with factors up to 64 takes a few products of small matrices (Cooley
/// and Tukey, 1965). Throws ShapeError for an empty signal or another last dimension.
Tensor dft(const Tensor& x, std::int64_t dim = -2, const DftOptions& options = {});

}  // namespace tern::operators
