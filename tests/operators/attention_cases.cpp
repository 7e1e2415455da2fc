// Attention, by kernels of its own and composed of other operators.

#include <algorithm>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

Operator attention() {
  Operator op{.name = "scaled_dot_product_attention", .ulps = 8};
  enum class Mask { none, causal, booleans, numbers };
  struct Sizes {
    Shape lead;
    std::int64_t queries, keys, width, values;
    Mask mask;
    bool large = false;
    Shape key_lead = {};      ///< the last dimensions of lead, where the keys have fewer
    std::int64_t shared = 1;  ///< heads of queries for each of keys: key_lead ends in ones
    Shape of_keys() const { return key_lead.rank() > 0 ? key_lead : lead; }
  };
  const auto join = [](Shape shape, std::int64_t rows, std::int64_t columns) {
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  const auto add = [&](const Sizes& use, std::optional<double> scale = {}) {
    std::vector<Argument> arguments{uniform(join(use.lead, use.queries, use.width)),
                                    uniform(join(use.of_keys(), use.keys, use.width)),
                                    uniform(join(use.of_keys(), use.keys, use.values))};
    // The last query's row holds nothing that counts.
    std::vector<double> rows;
    for (std::int64_t i = 0; i < use.queries * use.keys; ++i) {
      const bool counts = i / use.keys + 1 < use.queries && i % 3 != 1;
      rows.push_back(use.mask == Mask::booleans ? (counts ? 1.0 : 0.0)
                     : counts                   ? 0.25 * static_cast<double>(i % 5)
                                                : -infinity);
    }
    if (use.mask >= Mask::booleans) {
      arguments.push_back(constant(listed({use.queries, use.keys}, rows)));
      if (use.mask == Mask::booleans) arguments.back().dtype = DType::boolean;
    }
    constexpr const char* names[]{"", " causal", " by a mask", " with a bias"};
    op.samples.push_back(
        {.name = message(arguments[0].shape, ' ', arguments[1].shape, names[static_cast<int>(use.mask)],
                         scale ? " scaled" : ""),
         .arguments = arguments,
         .call =
             [use, scale](const std::vector<Tensor>& in) {
               return std::vector{op::scaled_dot_product_attention(
                   in[0], in[1], in[2],
                   {.mask = in.size() > 3 ? in[3] : Tensor(), .is_causal = use.mask == Mask::causal, .scale = scale})};
             },
         .reference =
             [use, scale, join](const std::vector<Array>& in) {
               Array out(join(use.lead, use.queries, use.values));
               const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(use.width)));
               for (std::int64_t head = 0; head < element_count(use.lead); ++head)
                 for (std::int64_t q = 0; q < use.queries; ++q) {
                   const std::int64_t own = head / use.shared % element_count(use.of_keys()) * use.keys;
                   std::vector<double> score;
                   double total = 0;
                   for (std::int64_t k = 0; k < use.keys; ++k) {
                     double product = 0;
                     for (std::int64_t e = 0; e < use.width; ++e)
                       product += in[0][(head * use.queries + q) * use.width + e] * in[1][(own + k) * use.width + e];
                     const double mask = in.size() > 3 ? in[3][q * use.keys + k] : 0;
                     const bool counts = use.mask == Mask::causal ? k <= q : use.mask != Mask::booleans || mask != 0;
                     score.push_back(!counts ? 0 : std::exp(product * factor + (use.mask == Mask::numbers ? mask : 0)));
                     total += score.back();
                   }
                   for (std::int64_t k = 0; k < use.keys && total > 0; ++k)
                     for (std::int64_t v = 0; v < use.values; ++v)
                       out[(head * use.queries + q) * use.values + v] +=
                           score[static_cast<std::size_t>(k)] / total * in[2][(own + k) * use.values + v];
                 }
               return std::vector{out};
             },
         .terms = static_cast<double>(use.keys + use.width),
         .gradient_terms = 4.0 * static_cast<double>(use.keys + use.queries + use.width),
         .large = use.large,
         .roundings = 2,  // weights become factors of 16 bits, whose products may cancel
         .large_arguments = 2});
  };
  for (const Mask mask : {Mask::none, Mask::causal, Mask::booleans, Mask::numbers}) {
    add({{}, 5, 5, 4, 3, mask});
    add({{2, 3}, 4, 6, 5, 5, mask});
    add({{2}, 7, 3, 8, 1, mask});
  }
  add({{2}, 5, 4, 3, 2, Mask::none}, 0.75);
  add({{4}, 65, 65, 16, 16, Mask::causal, true});
  for (const Mask mask : {Mask::none, Mask::causal}) {
    add({{4, 5}, 3, 4, 1, 1, mask});  // as many heads as have kernels of their own everywhere
    add({{2, 9}, 6, 3, 4, 8, mask});
    add({{2, 3}, 4, 5, 2, 3, mask, false, {3}});
    add({{2}, 0, 3, 4, 4, mask});
    add({{2, 3, 4}, 3, 5, 4, 2, mask, false, {2, 3, 1}, 4});  // keys that heads share
    add({{2, 3}, 5, 6, 3, 4, mask, false, {1}, 6});
    add({{3}, 1, 67, 37, 29, mask});  // few queries
    add({{9}, 4, 130, 33, 64, mask, true});
    // Beyond a tile or a block in each direction, rows of any width.
    add({{3}, 130, 67, 37, 29, mask, true});
    add({{2}, 66, 300, 64, 64, mask, true});
    add({{16}, 129, 129, 32, 24, mask, true});
    add({{2}, 100, 70, 128, 100, mask, true});
    add({{1}, 70, 130, 3, 128, mask, true});
    add({{2}, 9, 5, 130, 6, mask, true});
  }
  op.samples.push_back(op.samples[0]);
  op.samples.back().name += " of large values";
  op.samples.back().arguments[2] = uniform({5, 3}, -0x1p100, 0x1p100);
  op.samples.back().dtypes = {DType::float32};
  op.samples.back().large_arguments = 0;
  const auto call = [](const Shape& query, const Shape& key, const Shape& value, const op::AttentionOptions& options) {
    op::scaled_dot_product_attention(ones(query), ones(key), ones(value), options);
  };
  op.refuses("another width", Kind::shape, {"[2,3]", "[4,5]"}, [call] { call({2, 3}, {4, 5}, {4, 5}, {}); });
  op.refuses("another number of values", Kind::shape, {"[4,3]", "[5,3]"}, [call] { call({2, 3}, {4, 3}, {5, 3}, {}); });
  op.refuses("one dimension", Kind::shape, {"[3]"}, [call] { call({3}, {4, 3}, {4, 3}, {}); });
  op.refuses("no keys", Kind::shape, {"[0,3]"}, [call] { call({2, 3}, {0, 3}, {0, 3}, {}); });
  op.refuses("a mask of another shape", Kind::shape, {"[3,4]", "[2,4]"}, [call] {
    call({2, 3}, {4, 3}, {4, 3}, {.mask = ones({3, 4})});
  });
  op.refuses("a mask of integers", Kind::dtype, {"int64"}, [call] {
    call({2, 3}, {4, 3}, {4, 3}, {.mask = ones({2, 4}, DType::int64)});
  });
  op.refuses("two masks", Kind::any, {"is_causal"}, [call] {
    call({2, 3}, {4, 3}, {4, 3}, {.mask = ones({2, 4}), .is_causal = true});
  });
  return op;
}

}  // namespace

std::vector<Operator> attention_cases() { return {attention()}; }

}  // namespace tern::testing
