#include <array>
#include <optional>

#include "cuda/fused_rows.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::products {
namespace {

constexpr std::array by_library{&library_algorithm};

/// The arrays of a layer with m rows, n outputs and k inputs: as they are, and with whole rows. Those of the weight
/// also have a row for each output.
struct Arrangement {
  Copied x, weight, y;
  explicit Arrangement(const Problem& layer)
      : x{1, layer.m, layer.k, layer.m, whole(layer.k, layer.in)},
        weight{1, layer.n, layer.k, whole(layer.n, layer.in), x.whole_columns},
        y{1, layer.m, layer.n, layer.m, weight.whole_rows} {}
};

/// The product for the gradient of the weight, or of x, with whole rows.
Problem product_of(const Problem& layer, const Arrangement& sizes, bool of_weight) {
  kernels::Matmul shape{.m = layer.m, .n = sizes.x.whole_columns, .k = sizes.y.whole_columns};
  if (of_weight) shape = {.m = sizes.y.whole_columns, .n = sizes.x.whole_columns, .k = layer.m, .transpose_a = true};
  Problem product{shape};
  product.in = layer.in;
  product.out = of_weight ? layer.out : layer.in;
  product.precision = layer.precision == Precision::bf16 ? Precision::tf32 : layer.precision;
  product.deterministic = layer.deterministic;
  product.device = layer.device;
  product.inputs = {256, 256, 256, 0};
  return product;
}

std::size_t bytes_for(const Problem& layer, bool copies, const Copied& sizes) {
  return copies ? static_cast<std::size_t>(sizes.elements() * bytes_of(layer.in)) : 0;
}

/// That of the weight may be float32 beside 16 bits.
std::size_t bytes_of_gradient(const Problem& layer, bool copies, const Copied& sizes) {
  return copies ? static_cast<std::size_t>(sizes.elements() * bytes_of(layer.out)) : 0;
}

/// A gradient's product, and its way to the caller's array.
class Half {
 public:
  Half(Context& context, const Problem& product, const Arrays& arrays, void* to, const Copied& sizes)
      : product_(context, nullptr, by_library, product, arrays),
        element_(product.out),
        made_(arrays.out),
        to_(to),
        sizes_(sizes) {}
  void run(Context& where) const {
    product_.run(where);
    if (made_ != to_) cut(where, element_, to_, element_, made_, nullptr, sizes_, Activation::none);
  }

 private:
  Prepared<Problem, Arrays> product_;
  Element element_;
  const void* made_;
  void* to_;
  Copied sizes_;
};

template <class T>
void run_as(Context& context, const Problem& layer, const Gradients& to) {
  const Arrangement sizes(layer);
  const bool masked = layer.activation != Activation::none, sums = to.grad_bias != nullptr,
             for_weight = to.grad_weight != nullptr, for_x = to.grad_x != nullptr;
  const bool copies_y = masked || !sizes.y.is_whole(), copies_x = for_weight && !sizes.x.is_whole();
  const Rows rows{layer.m, layer.n, layer.n};
  const std::int64_t slices = sums ? row_slices(rows) : 0;
  const Scratch g(context, bytes_for(layer, copies_y, sizes.y)), x(context, bytes_for(layer, copies_x, sizes.x)),
      weight(context, bytes_for(layer, for_x, sizes.weight)),
      grad_x(context, bytes_for(layer, for_x && !sizes.x.is_whole(), sizes.x)),
      grad_weight(context, bytes_of_gradient(layer, for_weight, sizes.weight)),
      partials(context, static_cast<std::size_t>(slices * layer.n) * sizeof(float));
  if (copies_y || sums)
    through_rows(context, g.as<T>(), partials.as<float>(), static_cast<const T*>(to.grad_y),
                 masked ? static_cast<const T*>(to.y) : nullptr, rows, layer.activation, sizes.y.whole_columns);
  if (copies_x) pad(context, layer.in, x.as<void>(), to.x, sizes.x);
  if (for_x) pad(context, layer.in, weight.as<void>(), to.weight, sizes.weight);
  const void* const through = copies_y ? g.as<void>() : to.grad_y;
  std::optional<Half> to_x, to_weight;
  if (for_weight) {
    to_weight.emplace(context, product_of(layer, sizes, true),
                      Arrays{grad_weight.as<void>(), through, copies_x ? x.as<void>() : to.x}, to.grad_weight,
                      sizes.weight);
  }
  if (for_x) {
    void* const out = sizes.x.is_whole() ? to.grad_x : grad_x.as<void>();
    to_x.emplace(context, product_of(layer, sizes, false), Arrays{out, through, weight.as<void>()}, to.grad_x, sizes.x);
  }
  run_side_by_side(context, to_x, to_weight, [&](const Context& where) {
    if (sums)
      sum_bias(where, static_cast<T*>(to.grad_bias), layer.out != layer.in, partials.as<float>(), slices, layer.n);
  });
}

}  // namespace

bool fits_padded_backward(const Problem& layer) {
  const bool tensor_cores =
      bytes_of(layer.in) == 2 || (layer.in == Element::float32 && layer.precision != Precision::strict);
  const bool for_x = layer.gradients.a != 0, for_weight = layer.gradients.b != 0;
  if (!tensor_cores || card().code < 80 || layer.work() == 0 || (!for_x && !for_weight)) return false;
  const Arrangement sizes(layer);
  if (sizes.weight.is_whole() || !sizes.x.fits() || !sizes.weight.fits() || !sizes.y.fits()) return false;
  if (sizes.y.whole_columns > most_through_channels) return false;
  const auto whole_array = [](std::uint32_t alignment) { return alignment == 0 || alignment >= 16; };
  // What is not copied is read as it lies; only the gradient of y may be neither.
  if (sizes.x.is_whole() && !(whole_array(layer.inputs.a) && whole_array(layer.gradients.a))) return false;
  const bool copies_y = layer.activation != Activation::none || !sizes.y.is_whole();
  if (!copies_y && !whole_array(layer.gradients.out)) return false;
  return (!for_x || next_algorithm(product_of(layer, sizes, false), -1) >= 0) &&
         (!for_weight || next_algorithm(product_of(layer, sizes, true), -1) >= 0);
}

bool prefers_padded_backward(const Problem& layer) {
  const Arrangement sizes(layer);
  const bool for_x = layer.gradients.a != 0, for_weight = layer.gradients.b != 0;
  double elements = 0;
  int copies = 0;
  const auto count = [&](bool copied, const Copied& one) {
    if (copied) elements += static_cast<double>(one.elements()), ++copies;
  };
  // Through an activation, or for the bias, that of y is read anyway.
  count(!sizes.y.is_whole() && layer.activation == Activation::none && layer.gradients.bias == 0, sizes.y);
  for (const bool product : {for_x, for_weight}) {
    count(product && !sizes.x.is_whole(), sizes.x);
    count(product, sizes.weight);
  }
  const int products = (for_x ? 1 : 0) + (for_weight ? 1 : 0);
  return pays_in_copies(layer, 2 * layer.work() * products, products, elements, copies);
}

void padded_backward(Context& context, const Problem& layer, const Gradients& to) {
  if (layer.in == Element::bfloat16) return run_as<BFloat16>(context, layer, to);
  if (layer.in == Element::float16) return run_as<Float16>(context, layer, to);
  run_as<float>(context, layer, to);
}

}  // namespace tern::cuda::products
