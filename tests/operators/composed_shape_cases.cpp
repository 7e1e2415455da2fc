// Operators about shapes that are composed of other operators.

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Operator triangle(const char* name, Tensor (*call)(const Tensor&, std::int64_t), bool lower) {
  Operator op{.name = name};
  for (const Shape& shape :
       {Shape{1, 1}, Shape{5, 5}, Shape{7, 3}, Shape{3, 8}, Shape{2, 3, 4}, Shape{0, 3}, Shape{3, 0}})
    for (const std::int64_t diagonal : {0, 1, -1, 2, -3, 8, -8, 1000})
      op.samples.push_back(
          {.name = message(shape, " diagonal ", diagonal),
           .arguments = {uniform(shape)},
           .call = [call, diagonal](const std::vector<Tensor>& in) { return std::vector{call(in[0], diagonal)}; },
           .reference =
               [lower, diagonal](const std::vector<Array>& in) {
                 Array out = in[0];
                 for_each_position(out.shape, [&](const Shape& at) {
                   const std::int64_t offset = at[at.rank() - 1] - at[at.rank() - 2];
                   if (lower ? offset > diagonal : offset < diagonal) out.at(at) = 0;
                 });
                 return std::vector{out};
               },
           .exact = true});
  for (const DType dtype : {DType::int32, DType::int64, DType::uint8, DType::boolean}) {
    Sample whole = op.samples[8];  // [5, 5]
    whole.name += message(' ', dtype);
    whole.arguments = {integers({5, 5}, 0, 9)};
    whole.dtypes = {dtype};
    op.samples.push_back(std::move(whole));
  }
  op.refuses("one dimension", Kind::shape, {"[3]"}, [call] { call(ones({3}), 0); });
  return op;
}

Operator embedding() {
  Operator op{.name = "embedding"};
  for (const Shape& indices : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 0, 3}, Shape{2, 3, 4}})
    op.samples.push_back(
        {.name = message("by ", indices),
         .arguments = {uniform({9, 6}), labels(indices, 9)},
         .call = [](const std::vector<Tensor>& in) { return std::vector{op::embedding(in[0], in[1])}; },
         .reference =
             [indices](const std::vector<Array>& in) {
               Shape shape = indices;
               shape.push_back(6);
               Array out(shape);
               for (std::int64_t i = 0; i < out.size(); ++i)
                 out[i] = in[0][static_cast<std::int64_t>(in[1][i / 6]) * 6 + i % 6];
               return std::vector{out};
             },
         .exact = true,
         .gradient_terms = 24});
  op.refuses("a weight of one dimension", Kind::shape, {"[3]"},
             [] { op::embedding(ones({3}), zeros({2}, DType::int64)); });
  op.refuses("indices that are no integers", Kind::dtype, {"float32"}, [] { op::embedding(ones({3, 2}), zeros({2})); });
  return op;
}

}  // namespace

std::vector<Operator> composed_shape_cases() {
  std::vector<Operator> all;
  all.push_back(triangle("tril", op::tril, true));
  all.push_back(triangle("triu", op::triu, false));
  all.push_back(embedding());
  return all;
}

}  // namespace tern::testing
