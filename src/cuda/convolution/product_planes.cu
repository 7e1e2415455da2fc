// Convolutions with a 1x1 kernel, channels first, as products of the weight with each image's planes by cuBLASLt. Its
// rows are whole planes, so channels may be any number: at most the weight is copied, and where neither inputs nor
// outputs fill lanes, the images of one side.

#include <algorithm>
#include <utility>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/planes.cuh"
#include "cuda/convolution/planes_copies.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"

namespace tern::cuda::convolution {
namespace {

// ---- the products ----

std::int64_t lanes_of(const Problem& p) { return 16 / bytes_of(p.stored); }
std::int64_t whole(const Problem& p, std::int64_t size) { return ceil_div(size, lanes_of(p)) * lanes_of(p); }
std::int64_t area_of(const Problem& p) { return p.H * p.W; }
bool halves(const Problem& p) { return bytes_of(p.stored) == 2; }
bool clips_to_zero(const Problem& p) { return p.activation == Activation::none || p.activation == Activation::relu; }

/// A product for each image, and the copies around it.
struct Work {
  products::Problem product;
  enum class Weight { as_it_is, transposed, with_bias, with_zeros } weight = Weight::as_it_is;
  enum class Side { none, x, y } copied = Side::none;  ///< an image with more rows, which the product reads
  std::int64_t copied_rows = 0;                        ///< of an image in the copy
  bool finishes = false;                               ///< a pass over y, or over x's gradient, follows
  bool swapped = false;                                ///< the gradient of the weight is that of its transpose
  bool sums = false;                                   ///< it is summed over images, or cut
  std::int64_t out_elements() const { return product.batch * product.m * product.n; }
  std::int64_t weight_elements() const { return product.m * product.k; }
};

products::Problem product_for(const Problem& p, const kernels::Matmul& shape, Element out) {
  products::Problem product{shape};
  product.batch = p.N;
  product.in = p.stored;
  product.out = out;
  product.precision = p.precision == Precision::bf16 ? Precision::tf32 : p.precision;
  product.deterministic = p.deterministic;
  product.device = p.device;
  product.inputs = {256, 256, 256, 0};
  return product;
}

/// The bias as further columns of the weight and rows of ones, where copies of x are fewer bytes than a pass over y.
bool adds_bias_in_product(const Problem& p) {
  const std::int64_t columns = whole(p, p.C + (halves(p) ? bias_parts<BFloat16> : bias_parts<float>));
  return p.inputs.bias != 0 && clips_to_zero(p) && 2 * columns * bytes_of(p.stored) < 8 * p.O;
}

Work forward_work(const Problem& p) {
  Work work;
  const std::int64_t area = area_of(p);
  kernels::Matmul shape{.m = p.O, .n = area, .k = p.C};
  if (adds_bias_in_product(p)) {
    work.weight = Work::Weight::with_bias;
    work.copied = Work::Side::x;
    work.copied_rows = shape.k = whole(p, p.C + (halves(p) ? bias_parts<BFloat16> : bias_parts<float>));
  } else if (p.C % lanes_of(p) != 0) {
    work.weight = Work::Weight::transposed;
    shape.transpose_a = true;
    shape.m = whole(p, p.O);
  }
  shape.stride_b = shape.k * area;
  const bool fused = work.weight == Work::Weight::with_bias || (p.inputs.bias == 0 && clips_to_zero(p));
  work.finishes = !fused || shape.m != p.O;
  work.product = product_for(p, shape, fused || !halves(p) ? p.stored : Element::float32);
  if (fused) work.product.activation = p.activation;
  return work;
}

Work grad_x_work(const Problem& p) {
  Work work;
  const std::int64_t area = area_of(p), lanes = lanes_of(p);
  kernels::Matmul shape{.m = p.C, .n = area, .k = p.O, .transpose_a = true, .stride_b = p.O * area};
  if (p.C % lanes != 0 && p.O % lanes == 0) {
    work.weight = Work::Weight::transposed;
    shape.transpose_a = false;
  } else if (p.C % lanes != 0) {
    work.weight = Work::Weight::with_zeros;
    work.finishes = true;
    shape.m = whole(p, p.C);
  }
  work.product = product_for(p, shape, p.stored);
  return work;
}

Work grad_weight_work(const Problem& p) {
  Work work;
  const std::int64_t area = area_of(p), lanes = lanes_of(p);
  const bool both = p.C % lanes != 0 && p.O % lanes != 0;
  work.swapped = both ? p.C > p.O : p.C % lanes != 0;
  const std::int64_t rows = work.swapped ? p.C : p.O, columns = work.swapped ? p.O : p.C;
  if (both) work.copied = work.swapped ? Work::Side::y : Work::Side::x;
  work.copied_rows = whole(p, columns);
  const kernels::Matmul shape{.m = rows,
                              .n = work.copied_rows,
                              .k = area,
                              .transpose_b = true,
                              .stride_a = rows * area,
                              .stride_b = work.copied_rows * area};
  work.sums = p.N > 1 || work.swapped || both;
  work.product = product_for(p, shape, work.sums ? Element::float32 : p.stored);
  return work;
}

Work work_of(const Problem& p) {
  return p.pass == Pass::forward ? forward_work(p) : p.pass == Pass::grad_x ? grad_x_work(p) : grad_weight_work(p);
}

int next_plan(const Problem& p, int plan) { return products::next_algorithm(work_of(p).product, plan); }

struct Workspace {
  void *weight, *image, *out, *rest;
  std::size_t bytes;
  Workspace(const Problem& p, const Work& work, int plan, void* block) {
    Parts parts(block);
    const auto take = [&](bool needed, std::int64_t count, Element element) {
      return needed ? parts.take(static_cast<std::size_t>(count * bytes_of(element))) : nullptr;
    };
    const bool own_out = work.sums || (work.finishes && (work.product.out != p.stored || work.product.m != rows_of(p)));
    weight = take(work.weight != Work::Weight::as_it_is, work.weight_elements(), p.stored);
    image = take(work.copied != Work::Side::none, p.N * work.copied_rows * area_of(p), p.stored);
    out = take(own_out, work.out_elements(), work.product.out);
    rest = parts.take(products::algorithm_workspace(work.product, plan));
    bytes = parts.bytes();
  }

 private:
  static std::int64_t rows_of(const Problem& p) { return p.pass == Pass::forward ? p.O : p.C; }
};
std::size_t workspace(const Problem& p, int plan) { return Workspace(p, work_of(p), plan, nullptr).bytes; }

// ---- the passes ----

/// How many elements a pack of a plane has.
template <class T>
constexpr int lanes = 16 / static_cast<int>(sizeof(T));

template <class T>
void copy_planes(const Context& context, void* to, const void* from, const Problem& p, std::int64_t to_rows,
                 std::int64_t from_rows, int ones) {
  constexpr int V = lanes<T>;
  const std::int64_t plane = area_of(p) / V, packs = p.N * to_rows * plane;
  launch(context, Grid(blocks_for(packs), 256), copy_planes_kernel<V, T>, static_cast<T*>(to),
         static_cast<const T*>(from), static_cast<std::uint32_t>(packs), Divide(plane), Divide(to_rows),
         static_cast<std::uint32_t>(from_rows), static_cast<std::uint32_t>(ones));
}

template <class T, class In>
void finish(const Context& context, T* y, const In* in, const T* bias, const Problem& p, std::int64_t from_rows) {
  constexpr int V = 4;
  const std::int64_t plane = area_of(p) / V, packs = p.N * p.O * plane;
  launch(
      context, Grid(blocks_for(packs), 256),
      p.activation == Activation::gelu ? finish_planes_kernel<V, true, T, In> : finish_planes_kernel<V, false, T, In>,
      y, in, bias, static_cast<std::uint32_t>(packs), Divide(plane), Divide(p.O), static_cast<std::uint32_t>(from_rows),
      p.activation);
}

/// The weight as the product reads it.
template <class T>
const void* weight_for(const Context& context, const Problem& p, const Work& work, void* to, const Arrays& arrays) {
  const auto* const weight = static_cast<const T*>(arrays.weight);
  const products::Problem& product = work.product;
  const std::int64_t count = work.weight_elements();
  switch (work.weight) {
    case Work::Weight::as_it_is:
      return weight;
    case Work::Weight::transposed: {
      const std::int64_t rows = product.transpose_a ? product.m : product.k;
      launch(
          context,
          Grid(dim3(static_cast<unsigned>(ceil_div(p.C, tile_side)), static_cast<unsigned>(ceil_div(rows, tile_side))),
               dim3(tile_side, tile_lines)),
          transpose_kernel<T>, static_cast<T*>(to), weight, static_cast<int>(p.O), static_cast<int>(p.C),
          static_cast<int>(rows));
      return to;
    }
    case Work::Weight::with_bias:
      launch(context, Grid(blocks_for(count), 256), weight_and_bias_kernel<T>, static_cast<T*>(to), weight,
             static_cast<const T*>(arrays.bias), static_cast<std::uint32_t>(count), Divide(product.k),
             static_cast<int>(p.C));
      return to;
    case Work::Weight::with_zeros:
      products::pad(context, p.stored, to, weight, products::Copied{1, p.O, p.C, p.O, product.m});
      return to;
  }
  return nullptr;
}

template <class T>
void run_forward(Context& context, const Problem& p, const Arrays& arrays, const Work& work, int plan,
                 const Workspace& in) {
  const void* const weight = weight_for<T>(context, p, work, in.weight, arrays);
  if (work.copied != Work::Side::none)
    copy_planes<T>(context, in.image, arrays.x, p, work.copied_rows, p.C, bias_parts<T>);
  void* const out = in.out == nullptr ? arrays.y : in.out;
  products::run_algorithm(context, work.product, {out, weight, in.image == nullptr ? arrays.x : in.image}, plan,
                          in.rest);
  if (!work.finishes) return;
  const auto finish_from = [&]<class In>(const In* from) {
    finish(context, static_cast<T*>(arrays.y), from, static_cast<const T*>(arrays.bias), p, work.product.m);
  };
  if constexpr (is_half<T>)
    if (work.product.out == p.stored) return finish_from(static_cast<const T*>(out));
  finish_from(static_cast<const float*>(out));
}

template <class T>
void run_grad_x(Context& context, const Problem& p, const Arrays& arrays, const Work& work, int plan,
                const Workspace& in) {
  const void* const weight = weight_for<T>(context, p, work, in.weight, arrays);
  void* const out = in.out == nullptr ? arrays.x : in.out;
  products::run_algorithm(context, work.product, {out, weight, arrays.y}, plan, in.rest);
  if (work.finishes) copy_planes<T>(context, arrays.x, out, p, p.C, work.product.m, 0);
}

template <class T>
void run_grad_weight(Context& context, const Problem& p, const Arrays& arrays, const Work& work, int plan,
                     const Workspace& in) {
  if (arrays.bias != nullptr)
    sum_planes<T>(context, static_cast<T*>(arrays.bias), static_cast<const T*>(arrays.y), p.N, p.O, area_of(p));
  if (arrays.weight == nullptr) return;
  const void *x = arrays.x, *y = arrays.y;
  if (work.copied == Work::Side::x) copy_planes<T>(context, in.image, x, p, work.copied_rows, p.C, 0), x = in.image;
  if (work.copied == Work::Side::y) copy_planes<T>(context, in.image, y, p, work.copied_rows, p.O, 0), y = in.image;
  void* const out = in.out == nullptr ? arrays.weight : in.out;
  const products::Arrays on = work.swapped ? products::Arrays{out, x, y} : products::Arrays{out, y, x};
  products::run_algorithm(context, work.product, on, plan, in.rest);
  if (!work.sums) return;
  const std::int64_t count = p.weights(), columns = work.product.n;
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, 256)), 256), sum_images_kernel<T>,
         static_cast<T*>(arrays.weight), static_cast<const float*>(in.out), static_cast<std::uint32_t>(count),
         Divide(p.C), static_cast<int>(p.N), work.product.m * columns, static_cast<int>(work.swapped ? 1 : columns),
         static_cast<int>(work.swapped ? columns : 1));
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* block) {
  const Work work = work_of(p);
  const Workspace in(p, work, plan, block);
  with_stored(p, [&]<class T>(T*) {
    if (p.pass == Pass::forward) return run_forward<T>(context, p, arrays, work, plan, in);
    if (p.pass == Pass::grad_x) return run_grad_x<T>(context, p, arrays, work, plan, in);
    run_grad_weight<T>(context, p, arrays, work, plan, in);
  });
}

// ---- when ----

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const bool single = p.KH == 1 && p.KW == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0;
  const auto whole_array = [](std::uint32_t alignment) { return alignment == 0 || alignment % 16 == 0; };
  if (!p.tensor_cores() || card().code < 80 || p.channels_last() || p.pools || p.element != Element::float32 ||
      p.stored == Element::float64 || p.groups != 1 || !single || p.H != p.OH || p.W != p.OW || p.C == 0)
    return false;
  const std::int64_t more = lanes_of(p);
  if (area_of(p) % lanes_of(p) != 0 || p.N * (p.C + more) * area_of(p) >= most ||
      p.N * (p.O + more) * area_of(p) >= most || (p.C + more) * (p.O + more) >= most ||
      p.O >= std::int64_t{65535} * tile_side)
    return false;
  return whole_array(p.inputs.x) && whole_array(p.inputs.y) && whole_array(p.inputs.weight) && next_plan(p, -1) >= 0;
}

// Microseconds on an H200.
constexpr double bytes_rate = 3e6, launched = 2;

/// By copies in lanes around a product of all positions, which takes at least `least` (padded.cu).
double padded_time(const Problem& p, double least) {
  const auto moved = [&](std::int64_t elements) {
    return static_cast<double>(elements * bytes_of(p.stored)) / bytes_rate;
  };
  double product = least, weight = 0;
  if (!halves(p) && p.pass != Pass::grad_weight) {
    Problem lanes = in_lanes(p, lanes_of(p));
    lanes.pass = Pass::forward;
    if (p.pass == Pass::grad_x) std::swap(lanes.C, lanes.O), std::swap(lanes.x_channels, lanes.y_channels);
    product = std::max(product, std::min(implicit_time(lanes), library_time(lanes)));
  }
  if (p.C % lanes_of(p) != 0 || p.O % lanes_of(p) != 0) weight = moved(2 * p.weights()) + launched;
  return product + moved(2 * (p.images() + p.outputs())) + weight + 4 * launched;
}

/// Against that, or our own tiles.
bool pays(const Problem& p) {
  const double rate = halves(p) ? 4e8 : 2e8;
  const Work work = work_of(p);
  const products::Problem& product = work.product;
  const auto bytes = static_cast<double>(bytes_of(p.stored)), positions = static_cast<double>(p.positions());
  const double operations = 2 * static_cast<double>(p.outputs()) * static_cast<double>(p.C);
  const auto images = static_cast<double>(p.images() + p.outputs());
  const auto of = [](std::int64_t size) {
    return static_cast<double>(ceil_div(size, 64) * 64) / static_cast<double>(size);
  };
  double copied = 0, launches = 2;
  // A transposing copy reaches half of the rate.
  const double slower = work.weight == Work::Weight::transposed ? 2 : 1;
  if (work.weight != Work::Weight::as_it_is)
    copied += slower * 2 * bytes * static_cast<double>(p.weights()), ++launches;
  if (work.copied != Work::Side::none)
    copied += 2 * bytes * positions * static_cast<double>(work.copied_rows), ++launches;
  if (work.finishes)
    copied += (p.pass == Pass::forward ? 8 : 2 * bytes) * positions *
              static_cast<double>(p.pass == Pass::forward ? p.O : p.C),
        ++launches;
  if (work.sums) copied += 8 * static_cast<double>(work.out_elements()), ++launches;
  const double here = std::max(of(product.n) * of(product.m) * operations / rate, bytes * images / bytes_rate) +
                      copied / bytes_rate + launches * launched;
  const double there = padded_time(p, std::max(operations / rate, bytes * images / bytes_rate));
  return here < (halves(p) ? there : std::min(there, tiles_time(p)));
}
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

constexpr auto named = "planes";

}  // namespace

const Algorithm planes_forward_first{named, fits_first, workspace, run, next_plan};
const Algorithm planes_forward_last{named, fits_last, workspace, run, next_plan};
const Algorithm planes_grad_x_first{named, fits_first, workspace, run, next_plan};
const Algorithm planes_grad_x_last{named, fits_last, workspace, run, next_plan};
const Algorithm planes_grad_weight_first{named, fits_first, workspace, run, next_plan};
const Algorithm planes_grad_weight_last{named, fits_last, workspace, run, next_plan};

}  // namespace tern::cuda::convolution
