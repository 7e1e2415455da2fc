// Which families of kernels the operators call (kernels/families.hpp), for libraries that have only some of them.

#include "kernels/families.hpp"

#include <optional>
#include <set>

#include "graph/same_bits.hpp"
#include "support/catalogue.hpp"
#include "support/catch.hpp"
#include "support/traced.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
namespace family = tern::kernels::family;

namespace {

void cast_few(Context& context, void* out, DType to, const void* in, DType from, std::int64_t n) {
  const auto there = [](DType dtype) {
    return (is_floating(dtype) && dtype != DType::float64) || dtype == DType::uint8;
  };
  if (!there(to) || !there(from)) throw Error(message("a cast of ", from, " to ", to));
  mode("vectorized").movement.cast(context, out, to, in, from, n);
}

/// vectorized without the kernels of other families.
const Mode& mode_with(std::uint32_t families) {
  static std::map<std::uint32_t, const Mode*> made;
  const Mode*& known = made[families];
  if (known != nullptr) return *known;
  Mode mode = tern::mode("vectorized");
  kernels::Operators<float>& single = mode.operators;
  const auto leave_out = [&](std::uint32_t family, auto& table) {
    if ((families & family) == 0) kernels::leave_out(table);
  };
  leave_out(family::arithmetic, single.arithmetic);
  auto& few = single.arithmetic;  // sums, products and limits
  for (auto* const slot : {&few.neg, &few.exp, &few.log, &few.sqrt, &few.abs, &few.sin, &few.cos, &few.erf, &few.floor,
                           &few.ceil, &few.round})
    kernels::leave_out(*slot);
  for (auto* const slot : {&few.equal, &few.not_equal, &few.less, &few.less_equal, &few.greater, &few.greater_equal})
    kernels::leave_out(*slot);
  for (auto* const slot : {&few.power, &few.fmod}) kernels::leave_out(*slot);
  kernels::leave_out(few.where);
  kernels::leave_out(few.pow);
  leave_out(family::dot, single.dot);
  leave_out(family::conv, single.conv);
  leave_out(family::activations, single.activation);
  leave_out(family::pooling, single.pooling);
  leave_out(family::normalization, single.normalization);
  leave_out(family::attention, single.attention);
  leave_out(family::quantized, *mode.quantized);
  kernels::leave_out(single.reduction);
  kernels::leave_out(single.loss);
  kernels::leave_out(single.shape);
  kernels::leave_out(single.update);
  single.channels_last = true;
  kernels::leave_out(mode.float64);
  kernels::leave_out(*mode.int32);
  kernels::leave_out(*mode.int64);
  kernels::leave_out(*mode.uint8);
  kernels::leave_out(*mode.boolean);
  kernels::leave_out(*mode.recurrent);
  kernels::leave_out(*mode.resampling);
  mode.movement.cast = cast_few;
  known = &register_mode(message("families", families), std::move(mode));
  return *known;
}

/// The families that a graph calls; none where it needs all.
std::optional<std::uint32_t> families_of(const graph::Graph& graph) {
  std::uint32_t families = 0;
  for (const graph::Node& node : graph.structure().nodes) {
    const std::uint32_t needed = kernels::families_of(node.op->name());
    if (needed == family::all) return std::nullopt;
    std::vector<int> ids = node.inputs;
    ids.insert(ids.end(), node.results.begin(), node.results.end());
    for (const int id : ids) {
      if (id < 0 || needed == family::quantized) continue;
      const DType dtype = graph.structure().values[id].dtype;
      const bool stored = dtype == DType::uint8 || dtype == DType::int8;
      if (dtype == DType::float64 || (!is_floating(dtype) && !(stored && needed == 0))) return std::nullopt;
    }
    families |= needed;
  }
  return families;
}

}  // namespace

TEST_CASE("families: operators call the kernels of their line, and no others", "[graph]") {
  const NoGrad no_grad;
  std::set<std::string> seen;
  for (const testing::Operator& op : catalogue())
    for (const Sample& sample : op.samples) {
      if (sample.large) continue;
      std::set<DType> dtypes{sample.dtypes.front()};
      for (const DType dtype : {DType::bfloat16, DType::float32})
        if (std::ranges::find(sample.dtypes, dtype) != sample.dtypes.end()) dtypes.insert(dtype);
      for (const DType dtype : dtypes) {
        const Device device{"vectorized"};
        const std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
        const std::optional<graph::Graph> made = traced(sample, inputs);
        if (!made) continue;
        const auto families = families_of(*made);
        if (!families || made->text().find("generator=") != std::string::npos) continue;
        for (const graph::Node& node : made->structure().nodes)
          if (kernels::families_of(node.op->name()) == *families) seen.insert(node.op->name());
        INFO(op.name << ", " << sample.name << ", " << name_of(dtype) << "\n" << made->text());
        const std::vector<Tensor> expected = made->run(inputs);
        const Device few(mode_with(*families));
        CHECK_NOTHROW([&] { CHECK(difference_of(made->run(inputs), expected) == ""); }());
        const graph::Program program(*made, {.fold = false});
        CHECK_NOTHROW([&] { CHECK(difference_of(program(inputs), expected) == ""); }());
      }
    }
  for (const kernels::Needs& needs : kernels::needs) {
    INFO(needs.name);
    CHECK(operators::find_op(needs.name) != nullptr);
    CHECK(seen.contains(std::string(needs.name)));
  }
}
