// Rotary embeddings and attention with shared keys, by loops over their definitions.

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/rotary.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

Operator rotary() {
  Operator op{.name = "rotary_embedding"};
  struct Use {
    Shape x, angles;
  };
  for (const bool interleaved : {false, true})
    for (const Use& use : {Use{{3, 4}, {3, 2}}, Use{{2, 3, 5, 8}, {5, 4}}, Use{{2, 3, 5, 8}, {2, 1, 5, 2}},
                           Use{{2, 1, 6}, {1, 3}}, Use{{2, 0, 4}, {1, 2}}})
      op.samples.push_back({.name = message(use.x, " by ", use.angles, interleaved ? " interleaved" : ""),
                            .arguments = {uniform(use.x), uniform(use.angles), uniform(use.angles)},
                            .call =
                                [interleaved](const std::vector<Tensor>& in) {
                                  return std::vector{op::rotary_embedding(in[0], in[1], in[2], interleaved)};
                                },
                            .reference =
                                [use, interleaved](const std::vector<Array>& in) {
                                  Array out = in[0];
                                  const std::int64_t half = use.angles.back();
                                  for_each_position(use.x, [&](Shape at) {
                                    const int last = use.x.rank() - 1;
                                    const std::int64_t i = at[last];
                                    if (i >= half) return;
                                    Shape angle = at, first = at, second = at;
                                    angle[last] = i;
                                    first[last] = interleaved ? 2 * i : i;
                                    second[last] = interleaved ? 2 * i + 1 : i + half;
                                    const double cos = broadcast_at(in[1], angle), sin = broadcast_at(in[2], angle);
                                    out.at(first) = in[0].at(first) * cos - in[0].at(second) * sin;
                                    out.at(second) = in[0].at(first) * sin + in[0].at(second) * cos;
                                  });
                                  return std::vector{out};
                                },
                            .terms = 2,
                            .gradient_terms = 24});
  op.refuses("more angles than pairs", Kind::shape, {"[3,3]", "[3,4]"}, [] {
    op::rotary_embedding(ones({3, 4}), ones({3, 3}), ones({3, 3}));
  });
  op.refuses("angles that do not broadcast", Kind::shape, {"[2,2]", "[3,2]"}, [] {
    op::rotary_embedding(ones({3, 4}), ones({2, 2}), ones({2, 2}));
  });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::rotary_embedding(ones({3, 4}), ones({3, 2}, DType::float64), ones({3, 2}, DType::float64));
  });
  return op;
}

struct Use {
  const char* name;
  Shape query, key, value;
  Shape mask = {};
  bool chooses = false;
  op::GroupedAttentionOptions options = {};
};

Array attended(const Use& use, const std::vector<Array>& in) {
  const std::int64_t keys = use.key[2], width = use.query[3], each = use.query[1] / use.key[1];
  const double scale = use.options.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  Array out({use.query[0], use.query[1], use.query[2], use.value[3]});
  for_each_position({use.query[0], use.query[1], use.query[2]}, [&](const Shape& at) {
    std::vector<double> scores;
    double largest = -infinity, total = 0;
    for (std::int64_t s = 0; s < keys; ++s) {
      double score = 0;
      for (std::int64_t e = 0; e < width; ++e)
        score += in[0].at({at[0], at[1], at[2], e}) * in[1].at({at[0], at[1] / each, s, e});
      score *= scale;
      if (use.options.softcap > 0) score = use.options.softcap * std::tanh(score / use.options.softcap);
      if (in.size() > 3) {
        const bool beyond = use.mask.back() > 1 && s >= use.mask.back();
        const double mask = beyond ? (use.chooses ? 0 : -infinity) : broadcast_at(in[3], {at[0], at[1], at[2], s});
        score = use.chooses ? (mask != 0 ? score : -infinity) : score + mask;
      }
      if (use.options.is_causal && s > use.options.past + at[2]) score = -infinity;
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    if (largest == -infinity) return;
    for (double& score : scores) total += score = std::exp(score - largest);
    for (std::int64_t v = 0; v < use.value[3]; ++v)
      for (std::int64_t s = 0; s < keys; ++s)
        out.at({at[0], at[1], at[2], v}) +=
            scores[static_cast<std::size_t>(s)] / total * in[2].at({at[0], at[1] / each, s, v});
  });
  return out;
}

Operator grouped_attention() {
  Operator op{.name = "grouped_attention", .ulps = 16};
  const std::vector<Use> uses{
      {"one head", {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"pairs of heads", {2, 4, 3, 5}, {2, 2, 6, 5}, {2, 2, 6, 4}},
      {"all heads share", {1, 3, 4, 8}, {1, 1, 5, 8}, {1, 1, 5, 3}, {}, false, {.scale = 0.5}},
      {"causal", {2, 4, 5, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {}, false, {.is_causal = true}},
      {"causal with a cache", {2, 4, 3, 4}, {2, 2, 7, 4}, {2, 2, 7, 4}, {}, false, {.is_causal = true, .past = 4}},
      {"a cache longer than the keys",
       {1, 2, 2, 4},
       {1, 2, 3, 4},
       {1, 2, 3, 4},
       {},
       false,
       {.is_causal = true, .past = 9}},
      {"softcap", {2, 2, 3, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}, {}, false, {.softcap = 0.75}},
      {"numbers", {2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {3, 5}},
      {"numbers for each head", {2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {4, 3, 5}},
      {"a choice", {2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {2, 1, 3, 5}, true},
      {"a short choice", {1, 2, 3, 4}, {1, 2, 6, 4}, {1, 2, 6, 4}, {3, 4}, true},
      {"short numbers", {1, 2, 3, 4}, {1, 2, 6, 4}, {1, 2, 6, 4}, {3, 4}},
      {"all together",
       {2, 4, 3, 4},
       {2, 2, 6, 4},
       {2, 2, 6, 3},
       {2, 1, 1, 6},
       true,
       {.is_causal = true, .past = 2, .scale = 0.25, .softcap = 2}}};
  for (const Use& use : uses) {
    std::vector<Argument> arguments{uniform(use.query), uniform(use.key), uniform(use.value)};
    if (use.mask.rank() > 0) arguments.push_back(use.chooses ? booleans(use.mask) : uniform(use.mask));
    op.samples.push_back({.name = use.name,
                          .arguments = arguments,
                          .call =
                              [use](const std::vector<Tensor>& in) {
                                op::GroupedAttentionOptions options = use.options;
                                if (in.size() > 3) options.mask = in[3];
                                return std::vector{op::grouped_attention(in[0], in[1], in[2], options)};
                              },
                          .reference = [use](const std::vector<Array>& in) { return std::vector{attended(use, in)}; },
                          .terms = static_cast<double>(use.query[3] + use.key[2]),
                          .gradient_terms = 64,
                          .roundings = 2,  // weights become factors of 16 bits, whose products may cancel
                          .large_arguments = 1});
  }
  const auto call = [](const Shape& query, const Shape& key, const op::GroupedAttentionOptions& options = {}) {
    return [=] { op::grouped_attention(ones(query), ones(key), ones(key), options); };
  };
  op.refuses("heads that do not share", Kind::shape, {"[1,3,2,4]", "[1,2,2,4]"}, call({1, 3, 2, 4}, {1, 2, 2, 4}));
  op.refuses("three dimensions", Kind::shape, {"[3,2,4]"}, call({3, 2, 4}, {3, 2, 4}));
  op.refuses("a past below 0", Kind::shape, {"past -1"}, call({1, 2, 2, 4}, {1, 2, 2, 4}, {.past = -1}));
  op.refuses("a mask that does not broadcast", Kind::shape, {"[3,2]", "[1,2,2,2]"},
             call({1, 2, 2, 4}, {1, 2, 2, 4}, {.mask = ones({3, 2})}));
  return op;
}

}  // namespace

std::vector<Operator> rotary_cases() { return {rotary(), grouped_attention()}; }

}  // namespace tern::testing
