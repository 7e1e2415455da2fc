// Arrangements by position: windows of signals, grids, crops.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "onnx/model.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

DType output_dtype(const Call& call, std::string_view name) {
  const std::int64_t type = call.integer(name, 1);
  const std::optional<DType> dtype = dtype_of_element(type);
  if (!dtype) call.refuse(message("makes elements of ", name_of_element(type)), "no tensor has such elements");
  return *dtype;
}

/// a - b cos(2 pi i / n) + c cos(4 pi i / n), for n elements or, not periodic, n + 1.
template <int kind>
Results window(const Call& call) {
  constexpr double pi = std::numbers::pi;
  constexpr double terms[3][3]{{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
  const auto& [a, b, c] = terms[kind];
  const std::int64_t size = call.known_integer(0);
  if (size < 0) call.refuse(message("has ", size, " elements"), "repair the file");
  call.check_size({size});
  const double whole = static_cast<double>(call.integer("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const double at = 2 * pi * static_cast<double>(i) / whole;
    values.push_back(a - b * std::cos(at) + c * std::cos(2 * at));
  }
  return {op::cast(tern::tensor(values, {size}), output_dtype(call, "output_datatype"))};
}

Results mel_weights(const Call& call) {
  const std::int64_t bins = call.known_integer(0), length = call.known_integer(1), rate = call.known_integer(2);
  const double low = call.known_number(3), high = call.known_number(4);
  if (bins < 1 || length < 1 || bins > 1'000'000 || length > 1'000'000 || rate < 1)
    call.refuse("has sizes out of range", "repair the file");
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const std::int64_t spectrum = length / 2 + 1;
  call.check_size({spectrum, bins});
  const double from = to_mel(low), step = (to_mel(high) - from) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + from) / 2595) - 1);
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(std::abs(edge) < 1e15)) call.refuse("has edges out of range", "repair the file");
    edges.push_back(static_cast<std::int64_t>(edge));
  }
  std::vector<double> values(static_cast<std::size_t>(spectrum * bins));
  const auto set = [&](std::int64_t row, std::int64_t bin, double value) {
    if (row >= 0 && row < spectrum) values[static_cast<std::size_t>(row * bins + bin)] = value;
  };
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const std::int64_t left = edges[bin], centre = edges[bin + 1], right = edges[bin + 2];
    if (centre == left)
      set(centre, bin, 1);
    else
      for (std::int64_t j = std::max<std::int64_t>(left, 0); j <= std::min(centre, spectrum); ++j)
        set(j, bin, static_cast<double>(j - left) / static_cast<double>(centre - left));
    for (std::int64_t j = std::max<std::int64_t>(centre, 0); j < std::min(right, spectrum); ++j)
      set(j, bin, static_cast<double>(right - j) / static_cast<double>(right - centre));
  }
  return {op::cast(tern::tensor(values, {spectrum, bins}), output_dtype(call, "output_datatype"))};
}

/// Coordinates from -1 to 1 of the centres or, aligned, corners of a grid, turned by theta [N, d, d + 1].
Results affine_grid(const Call& call) {
  const Tensor& theta = call.input(0);
  const Integers size = call.known_integers(1);
  const bool aligned = call.integer("align_corners", 0) != 0;
  const std::size_t dims = size.size() < 2 ? 0 : size.size() - 2;
  if ((dims != 2 && dims != 3) || theta.rank() != 3) call.refuse("has a grid of other than two or three dimensions");
  const Shape inner(size.begin() + 2, size.end());
  call.check_size(inner);
  // x runs along the last dimension.
  std::vector<Tensor> coordinates;
  for (std::size_t d = dims; d-- > 0;) {
    const std::int64_t count = inner[static_cast<int>(d)];
    std::vector<double> places;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<double>(i), n = static_cast<double>(count);
      places.push_back(aligned ? -1 + 2 * at / (n - 1) : (2 * at + 1) / n - 1);
    }
    Shape shape = Shape::filled(static_cast<int>(dims), 1);
    shape[static_cast<int>(d)] = count;
    coordinates.push_back(op::expand(tern::tensor(places, shape), inner));
  }
  coordinates.push_back(op::expand(full({}, 1, DType::float64), inner));
  const Tensor places = op::cast(op::reshape(op::stack(coordinates, -1), {-1, std::ssize(coordinates)}), theta.dtype());
  Shape shape{theta.size(0)};
  for (const std::int64_t each : inner) shape.push_back(each);
  shape.push_back(static_cast<std::int64_t>(dims));
  return {op::reshape(op::matmul(places, theta, {.transpose_b = true}), shape)};
}

Results center_crop_pad(const Call& call) {
  Tensor x = call.input(0);
  const Integers sizes = call.known_integers(1);
  Integers axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (axes.size() != sizes.size()) call.refuse(message("has ", sizes.size(), " sizes for ", axes.size(), " axes"));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_of(call, axes[i], x.rank());
    const std::int64_t more = sizes[i] - x.size(axis);
    if (sizes[i] < 0) call.refuse(message("has a size of ", sizes[i]), "repair the file");
    Shape whole = x.shape();
    whole[axis] = sizes[i];
    call.check_size(whole);
    if (more > 0)
      x = op::pad(x, {{axis, more / 2, more - more / 2}}, 0);
    else if (more < 0)
      x = op::slice(x, axis, -more / 2, -more / 2 + sizes[i]);
  }
  return {x};
}

/// The first elements of each sequence backwards, the others as they are.
Results reverse_sequence(const Call& call) {
  const Tensor& x = call.input(0);
  const int batch = axis_of(call, call.integer("batch_axis", 1), x.rank());
  const int time = axis_of(call, call.integer("time_axis", 0), x.rank());
  if (batch == time) call.refuse("has one axis for batch and time", "repair the file");
  Shape of_batch = Shape::filled(x.rank(), 1), of_time = of_batch;
  of_batch[batch] = -1;
  of_time[time] = -1;
  const Tensor lengths = op::reshape(op::cast(call.input(1), DType::int64), of_batch);
  const Tensor places = op::reshape(arange(0, x.size(time)), of_time);
  const Tensor from = op::where(op::less(places, lengths), op::sub(op::sub(lengths, places), 1.0), places);
  return {op::gather(x, time, op::expand(from, x.shape()))};
}

/// Refuses numbers whose products could overflow.
void check_far(const Call& call, const std::vector<Integers>& all) {
  constexpr std::int64_t far = std::int64_t{1} << 31;
  for (const Integers& each : all)
    for (const std::int64_t number : each)
      if (number <= -far || number >= far) call.refuse(message("has a size of ", number), "repair the file");
}

/// Elements at positions of the whole tensor, zeros elsewhere.
Results max_unpool(const Call& call) {
  const Tensor &x = call.input(0), &index = call.input(1);
  if (x.rank() < 3 || index.shape() != x.shape())
    call.refuse(message("has an input ", x.shape(), " and positions ", index.shape()),
                "both have one shape, [N, C, ...]");
  const std::size_t dims = static_cast<std::size_t>(x.rank()) - 2;
  const Integers kernel = call.integers("kernel_shape");
  const Integers stride = call.integers("strides", Integers(dims, 1));
  const Integers pads = call.integers("pads", Integers(2 * dims, 0));
  if (kernel.size() != dims || stride.size() != dims || pads.size() != 2 * dims)
    call.refuse("has attributes that do not fit", "repair the file");
  check_far(call, {kernel, stride, pads});
  Shape inferred{x.size(0), x.size(1)};
  for (std::size_t d = 0; d < dims; ++d)
    inferred.push_back((x.size(static_cast<std::int64_t>(d) + 2) - 1) * stride[d] - pads[d] - pads[dims + d] +
                       kernel[d]);
  // Positions are those of the inferred shape; a larger result has zeros behind it.
  const Shape shape = call.has(2) ? Shape(call.known_integers(2)) : inferred;
  call.check_size(shape);
  call.check_size(inferred);
  const Tensor zeros = op::copy(op::expand(full({}, 0, x.dtype()), {element_count(inferred)}));
  const Tensor flat = op::scatter(zeros, 0, op::reshape(index, {-1}), op::reshape(x, {-1}));
  const Tensor result = op::reshape(flat, inferred);
  std::vector<op::Padding> edges;
  for (int d = 0; d < x.rank(); ++d)
    if (shape.rank() != x.rank() || shape[d] < inferred[d])
      call.refuse(message("has a result of ", shape));
    else if (shape[d] > inferred[d])
      edges.push_back({d, 0, shape[d] - inferred[d]});
  return {edges.empty() ? result : op::pad(result, edges, 0)};
}

/// Columns of windows back to an image: torch's fold.
Results col2im(const Call& call) {
  const Tensor& x = call.input(0);
  const Integers image = call.known_integers(1), block = call.known_integers(2);
  const std::size_t dims = image.size();
  const Integers stride = call.integers("strides", Integers(dims, 1)),
                 dilation = call.integers("dilations", Integers(dims, 1));
  const Integers pads = call.integers("pads", Integers(2 * dims, 0));
  if (dims != 2 || block.size() != 2 || stride.size() != 2 || dilation.size() != 2 || pads.size() != 4)
    call.refuse(message("has ", dims, " spatial dimensions"), "two are supported");
  call.check_size({image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]});
  // Uneven padding is cut off afterwards.
  const Tensor whole =
      op::fold(x, {image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]}, {block[0], block[1]},
               {.dilation = {dilation[0], dilation[1]}, .padding = 0, .stride = {stride[0], stride[1]}});
  return {op::slice(op::slice(whole, 2, pads[0], pads[0] + image[0]), 3, pads[1], pads[1] + image[1])};
}

}  // namespace

void append_grids(Table& table) {
  table["HannWindow"] = window<0>;
  table["HammingWindow"] = window<1>;
  table["BlackmanWindow"] = window<2>;
  table["MelWeightMatrix"] = mel_weights;
  table["AffineGrid"] = affine_grid;
  table["CenterCropPad"] = center_crop_pad;
  table["ReverseSequence"] = reverse_sequence;
  table["MaxUnpool"] = max_unpool;
  table["Col2Im"] = col2im;
}

}  // namespace tern::onnx
