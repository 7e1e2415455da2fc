#include "cuda/convolution/strips.cuh"

namespace tern::cuda::convolution::strips {

Work work_of(const Problem& p) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  const bool back = p.pass == Pass::grad_x, last = p.channels_last();
  // Gradients of y are dense here.
  const std::int64_t x_pitch = last ? p.C : 1, y_pitch = !last ? 1 : p.pass == Pass::forward ? p.y_channels : p.O;
  const std::int64_t from = back ? y_pitch : x_pitch, to = back ? x_pitch : y_pitch;
  const std::int64_t x_width = p.W * x_pitch, y_width = p.OW * y_pitch;
  const Side rows{
      back ? i(p.OH) : i(p.H),  back ? i(p.H) : i(p.OH),  i(p.KH), i(p.stride_h), i(p.pad_h), i(p.dilation_h),
      back ? y_width : x_width, back ? x_width : y_width, i(p.KW)};
  const Side columns{back ? i(p.OW) : i(p.W),
                     back ? i(p.W) : i(p.OW),
                     i(p.KW),
                     i(p.stride_w),
                     i(p.pad_w),
                     i(p.dilation_w),
                     from,
                     to,
                     1};
  Work work{};
  work.strip = last ? columns : rows;
  work.across = last ? rows : columns;
  work.images = i(last ? p.N : p.N * p.C);
  work.channels = i(back ? p.C : p.O);
  work.read_image = back ? p.OH * y_width : p.H * x_width;
  work.write_image = back ? p.H * x_width : p.OH * y_width;
  work.rows_each = 1;
  return work;
}

bool is_countable(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, edge = 8;
  const std::int64_t channels = std::max(p.C, p.channels_last() ? p.y_channels : p.O);
  return !p.pools && p.element != Element::bfloat16 &&
         p.N * channels * (p.H + p.pad_h + edge) * (p.W + p.pad_w + edge) < most &&
         p.N * channels * (p.OH + edge) * (p.OW + edge) < most && (p.KH - 1) * p.dilation_h + p.stride_h < most &&
         (p.KW - 1) * p.dilation_w + p.stride_w < most;
}

}  // namespace tern::cuda::convolution::strips
