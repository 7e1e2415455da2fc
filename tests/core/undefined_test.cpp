// Every method of Tensor and every public operator on tensors that are not there: a typed error, never a signal.

#include <functional>
#include <utility>

#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

struct Use {
  const char* name;
  std::function<void(Tensor&)> call;
};

const std::vector<Use>& methods() {
  static const std::vector<Use> all{
      {"shape", [](Tensor& x) { (void)x.shape(); }},
      {"strides", [](Tensor& x) { (void)x.strides(); }},
      {"offset", [](Tensor& x) { (void)x.offset(); }},
      {"dtype", [](Tensor& x) { (void)x.dtype(); }},
      {"rank", [](Tensor& x) { (void)x.rank(); }},
      {"size", [](Tensor& x) { (void)x.size(0); }},
      {"numel", [](Tensor& x) { (void)x.numel(); }},
      {"is_contiguous", [](Tensor& x) { (void)x.is_contiguous(); }},
      {"storage", [](Tensor& x) { (void)x.storage(); }},
      {"shared_storage", [](Tensor& x) { (void)x.shared_storage(); }},
      {"item", [](Tensor& x) { (void)x.item(); }},
      {"item<int64>", [](Tensor& x) { (void)x.item<std::int64_t>(); }},
      {"to_vector", [](Tensor& x) { (void)x.to_vector<float>(); }},
      {"values", [](Tensor& x) { (void)x.values(); }},
      {"read", [](Tensor& x) { (void)x.read<float>(); }},
      {"write", [](Tensor& x) { (void)x.write<float>(); }},
      {"reshape", [](Tensor& x) { (void)x.reshape({1}); }},
      {"flatten", [](Tensor& x) { (void)x.flatten(); }},
      {"slice", [](Tensor& x) { (void)x.slice(0, 0, 0); }},
      {"transpose", [](Tensor& x) { (void)x.transpose(0, 0); }},
      {"permute", [](Tensor& x) { (void)x.permute({}); }},
      {"expand", [](Tensor& x) { (void)x.expand({2}); }},
      {"squeeze", [](Tensor& x) { (void)x.squeeze(0); }},
      {"squeeze of all", [](Tensor& x) { (void)x.squeeze(); }},
      {"[]", [](Tensor& x) { (void)x[0]; }},
      {"begin", [](Tensor& x) { (void)x.begin(); }},
      {"end", [](Tensor& x) { (void)x.end(); }},
      {"t", [](Tensor& x) { (void)x.t(); }},
      {"sum", [](Tensor& x) { (void)x.sum(); }},
      {"+=", [](Tensor& x) { x += ones({1}); }},
      {"+= of one",
       [](Tensor& x) {
         Tensor y = ones({1});
         y += x;
       }},
      {">", [](Tensor& x) { (void)(x > 0); }},
      {"unsqueeze", [](Tensor& x) { (void)x.unsqueeze(0); }},
      {"contiguous", [](Tensor& x) { (void)x.contiguous(); }},
      {"clone", [](Tensor& x) { (void)x.clone(); }},
      {"to", [](Tensor& x) { (void)x.to(DType::float64); }},
      {"fill_", [](Tensor& x) { x.fill_(0); }},
      {"copy_", [](Tensor& x) { x.copy_(ones({1})); }},
      {"copy_ of one", [](Tensor& x) { ones({1}).copy_(x); }},
      {"set_requires_grad", [](Tensor& x) { x.set_requires_grad(); }},
      {"is_leaf", [](Tensor& x) { (void)x.is_leaf(); }},
      {"grad", [](Tensor& x) { (void)x.grad(); }},
      {"set_grad", [](Tensor& x) { x.set_grad(ones({1})); }},
      {"zero_grad", [](Tensor& x) { x.zero_grad(); }},
      {"backward", [](Tensor& x) { x.backward(); }},
      {"backward from a gradient", [](Tensor& x) { x.backward(ones({1})); }},
      {"backward from one", [](Tensor& x) { ones({2}).set_requires_grad().backward(x); }},
      {"record",
       [](Tensor& x) {
         autograd::record("mine", x, {ones({1})}, [](const Tensor&) { return autograd::Gradients(); });
       }},
  };
  return all;
}

using Slots = std::vector<std::function<void(const Tensor&)>>;

// Each takes the undefined tensor in every place where an operator needs one.
const std::vector<std::pair<const char*, Slots>>& all_operators() {
  static const Tensor x = ones({2, 2}), image = ones({1, 1, 4, 4}), kernel = ones({1, 1, 3, 3}), rate = ones({1});
  static const Tensor labels = zeros({2}, DType::int64), one = ones({2}), counter = zeros({1}, DType::int64);
  using None = const Tensor&;
#define ONE(name)                       \
  {                                     \
#name, {                            \
      [](None none) { op::name(none); } \
    }                                   \
  }
#define TWO(name)                                                                \
  {                                                                              \
#name, {                                                                     \
      [](None none) { op::name(none, x); }, [](None none) { op::name(x, none); } \
    }                                                                            \
  }
#define NUMBER(name)                         \
  {                                          \
#name " of a number", {                  \
      [](None none) { op::name(none, 2.0); } \
    }                                        \
  }
  static const std::vector<std::pair<const char*, Slots>> all{
      TWO(add),
      TWO(sub),
      TWO(mul),
      TWO(div),
      TWO(maximum),
      TWO(minimum),
      TWO(equal),
      TWO(not_equal),
      TWO(less),
      TWO(less_equal),
      TWO(greater),
      TWO(greater_equal),
      TWO(matmul),
      TWO(dot),
      TWO(linear),
      TWO(mse),
      TWO(mae),
      TWO(binary_cross_entropy_with_logits),
      TWO(hinge),
      NUMBER(add),
      NUMBER(sub),
      NUMBER(mul),
      NUMBER(div),
      NUMBER(pow),
      ONE(neg),
      ONE(exp),
      ONE(log),
      ONE(sqrt),
      ONE(abs),
      ONE(relu),
      ONE(leaky_relu),
      ONE(sigmoid),
      ONE(tanh),
      ONE(softplus),
      ONE(gelu),
      ONE(softmax),
      ONE(log_softmax),
      ONE(sum),
      ONE(mean),
      ONE(var),
      ONE(max),
      ONE(min),
      ONE(argmax),
      ONE(argmin),
      ONE(local_response_norm),
      ONE(global_avg_pool2d),
      ONE(copy),
      {"sub from a number", {[](None none) { op::sub(1.0, none); }}},
      {"div of a number by", {[](None none) { op::div(1.0, none); }}},
      {"add_all",
       {[](None none) { op::add_all({none}); },
        [](None none) {
          op::add_all({x, none});
        }}},
      {"where",
       {[](None none) { op::where(none, x, x); }, [](None none) { op::where(op::equal(x, x), none, x); },
        [](None none) { op::where(op::equal(x, x), x, none); }}},
      {"clamp", {[](None none) { op::clamp(none, 0, 1); }}},
      {"activate",
       {[](None none) { op::activate(none, Activation::none); },
        [](None none) { op::activate(none, Activation::relu); }}},
      {"sum_to", {[](None none) { op::sum_to(none, {}); }}},
      {"cross_entropy",
       {[](None none) { op::cross_entropy(none, labels); }, [](None none) { op::cross_entropy(x, none); }}},
      {"nll", {[](None none) { op::nll(none, labels); }, [](None none) { op::nll(x, none); }}},
      {"conv2d", {[](None none) { op::conv2d(none, kernel); }, [](None none) { op::conv2d(image, none); }}},
      {"conv2d_add",
       {[](None none) { op::conv2d_add(none, kernel, {}, image); },
        [](None none) { op::conv2d_add(image, none, {}, image); },
        [](None none) { op::conv2d_add(image, kernel, {}, none); }}},
      {"inverted_residual",
       {[](None none) { op::inverted_residual(none, {.depthwise = kernel, .project = kernel}); },
        [](None none) { op::inverted_residual(image, {.depthwise = none, .project = kernel}); },
        [](None none) { op::inverted_residual(image, {.depthwise = kernel, .project = none}); }}},
      {"conv2d_max_pool2d",
       {[](None none) { op::conv2d_max_pool2d(none, kernel); }, [](None none) { op::conv2d_max_pool2d(image, none); }}},
      {"conv2d_cat",
       {[](None none) {
          op::conv2d_cat({{none, kernel}});
        },
        [](None none) {
          op::conv2d_cat({{image, none}});
        }}},
      {"max_pool2d", {[](None none) { op::max_pool2d(none, 2); }}},
      {"avg_pool2d", {[](None none) { op::avg_pool2d(none, 2); }}},
      {"adaptive_avg_pool2d", {[](None none) { op::adaptive_avg_pool2d(none, 2); }}},
      {"batch_norm",
       {[](None none) { op::batch_norm(none, one, one, one, one); },
        [](None none) { op::batch_norm(x, none, one, one, one); },
        [](None none) { op::batch_norm(x, one, none, one, one); },
        [](None none) { op::batch_norm(x, one, one, none, one); },
        [](None none) { op::batch_norm(x, one, one, one, none); }}},
      {"reshape", {[](None none) { op::reshape(none, {1}); }}},
      {"slice", {[](None none) { op::slice(none, 0, 0, 1); }}},
      {"permute", {[](None none) { op::permute(none, {}); }}},
      {"transpose", {[](None none) { op::transpose(none, 0, 0); }}},
      {"expand", {[](None none) { op::expand(none, {1}); }}},
      {"cast", {[](None none) { op::cast(none, DType::float32); }}},
      {"cat",
       {[](None none) {
          op::cat({none, x}, 0);
        },
        [](None none) {
          op::cat({x, none}, 0);
        }}},
      {"stack",
       {[](None none) {
          op::stack({none, x}, 0);
        },
        [](None none) {
          op::stack({x, none}, 0);
        }}},
      {"split", {[](None none) { op::split(none, {1}, 0); }}},
      {"pad", {[](None none) {
         op::pad(none, {{0, 1, 1}});
       }}},
      {"index_select",
       {[](None none) { op::index_select(none, 0, labels); }, [](None none) { op::index_select(x, 0, none); }}},
      {"gather", {[](None none) { op::gather(none, 0, labels); }, [](None none) { op::gather(x, 0, none); }}},
      {"scatter",
       {[](None none) { op::scatter(none, 0, labels, one); }, [](None none) { op::scatter(one, 0, none, one); },
        [](None none) { op::scatter(one, 0, labels, none); }}},
      {"masked_select",
       {[](None none) { op::masked_select(none, op::equal(x, x)); }, [](None none) { op::masked_select(x, none); }}},
      {"nonzero", {[](None none) { op::nonzero(none); }}},
      {"argsort", {[](None none) { op::argsort(none); }}},
      {"topk", {[](None none) { op::topk(none, 1); }}},
      {"cumsum", {[](None none) { op::cumsum(none, 0); }}},
      {"prod", {[](None none) { op::prod(none); }}},
      {"flip", {[](None none) { op::flip(none, {}); }}},
      {"interpolate", {[](None none) { op::interpolate(none, 2); }}},
      {"conv1d", {[](None none) { op::conv1d(none, kernel); }, [](None none) { op::conv1d(image, none); }}},
      {"conv_transpose2d",
       {[](None none) { op::conv_transpose2d(none, kernel); }, [](None none) { op::conv_transpose2d(image, none); }}},
      {"one_hot", {[](None none) { op::one_hot(none, 2); }}},
      {"dropout", {[](None none) { op::dropout(none, 0.5, true); }, [](None none) { op::dropout(none, 0.5, false); }}},
      {"sgd",
       {[](None none) { op::sgd({none}, {one}, {}, rate, {}); },
        [](None none) { op::sgd({one}, {none}, {}, rate, {}); },
        [](None none) { op::sgd({one}, {one}, {none}, rate, {.momentum = 0.5}); },
        [](None none) { op::sgd({one}, {one}, {}, none, {}); }}},
      {"adam",
       {[](None none) { op::adam({none}, {one}, {one}, {one}, rate, counter, {}); },
        [](None none) { op::adam({one}, {none}, {one}, {one}, rate, counter, {}); },
        [](None none) { op::adam({one}, {one}, {none}, {one}, rate, counter, {}); },
        [](None none) { op::adam({one}, {one}, {one}, {none}, rate, counter, {}); },
        [](None none) { op::adam({one}, {one}, {one}, {one}, none, counter, {}); },
        [](None none) { op::adam({one}, {one}, {one}, {one}, rate, none, {}); }}},
      {"clip_grad_norm", {[](None none) { optim::clip_grad_norm({none}, 1); }}},
  };
#undef ONE
#undef TWO
#undef NUMBER
  return all;
}

}  // namespace

TEST_CASE("undefined: every method throws a typed error", "[core]") {
  for (const Use& use : methods()) {
    INFO(use.name);
    Tensor none;
    CHECK_THROWS_AS(use.call(none), Error);
    Tensor moved = ones({1});
    const Tensor kept = std::move(moved);
    CHECK_THROWS_AS(use.call(moved), Error);
    CHECK(kept.defined());
  }
  CHECK_THROWS_WITH(Tensor().rank(), ContainsSubstring("rank() of an undefined tensor"));
  CHECK(!Tensor().requires_grad());
}

TEST_CASE("undefined: every operator throws a typed error, with and without recording", "[core]") {
  for (const auto& [name, slots] : all_operators())
    for (const auto& slot : slots) {
      INFO(name);
      CHECK_THROWS_AS(slot(Tensor()), Error);
      const NoGrad no_grad;
      CHECK_THROWS_AS(slot(Tensor()), Error);
    }
}

TEST_CASE("undefined: an empty shape has no dimensions", "[core]") {
  Shape shape;
  CHECK_THROWS_AS(shape.back(), ShapeError);
  CHECK_THROWS_AS(shape[0], ShapeError);
  CHECK_THROWS_AS(shape[-1] = 1, ShapeError);
  CHECK_THROWS_WITH((Shape{2, 3})[2], "shape: dimension 2 of [2,3], which has 2");
  CHECK_THROWS_AS(ones({}).size(0), ShapeError);
}
