// Copies and indexing, of every dtype that they take; and the members of Tensor that change it.

#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

// copy, and the members that copy: contiguous, clone.
Operator copying(const char* name, std::function<Tensor(const Tensor&)> call, bool member) {
  Operator op = movement(name, member);
  const auto same = [](const std::vector<Array>& in) { return std::vector{in[0]}; };
  const Call run = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{9}, Shape{4097}, Shape{7, 11}, Shape{3, 0, 2},
                             Shape{2, 3, 5, 7}, Shape{2, 1, 2, 1, 2, 1, 2, 3}})
    op.samples.push_back(moving(message(shape), {any_values(shape)}, run, same));
  op.samples.push_back(moving(
      "transposed inside", {any_values({5, 3, 4})},
      [call](const std::vector<Tensor>& in) {
        return std::vector{call(in[0].permute({2, 0, 1}))};
      },
      [](const std::vector<Array>& in) {
        return std::vector{picked(in[0], {4, 5, 3}, [](const Shape& position) {
          return Shape{position[1], position[2], position[0]};
        })};
      }));
  op.samples.push_back(moving(
      "large transposed", {any_values({601, 499})},
      [call](const std::vector<Tensor>& in) { return std::vector{call(in[0].transpose(0, 1))}; },
      [](const std::vector<Array>& in) {
        return std::vector{picked(in[0], {499, 601}, [](const Shape& position) {
          return Shape{position[1], position[0]};
        })};
      },
      true));
  return op;
}

Operator cast(const char* name, Tensor (*call)(const Tensor&, DType), bool member) {
  Operator op = movement(name, member);
  for (const DType to : all_dtypes)
    for (const bool awkward : {false, true})
      op.samples.push_back(
          {.name = message("to ", to, awkward ? " awkward" : ""),
           .arguments = {awkward ? listed({3, 11}, {0,    -0.0,  0.5,   -0.5,  1.5,   2.5,        -1,  255,
                                                    256,  300,   -300,  65519, 65520, 2147483647, 3e9, -3e9,
                                                    1e20, -1e20, 1e-40, 1e39,  0.1,   3.14159})
                                 : any_values({4, 19})},
           .call = [call, to](const std::vector<Tensor>& in) { return std::vector{call(in[0], to)}; },
           .reference =
               [to](const std::vector<Array>& in) {
                 Array result = in[0];
                 for (double& value : result.values) value = stored(value, to);
                 result.dtype = to;
                 return std::vector{result};
               },
           .dtypes = awkward ? std::vector{DType::float32, DType::float64, DType::int32, DType::int64} : all_dtypes,
           .gradient = !awkward && (to == DType::float32 || to == DType::float64),
           .smooth = to == DType::float64,
           .exact = true});
  for (const DType to :
       {DType::float32, DType::float64, DType::int32, DType::uint8, DType::boolean, DType::bfloat16, DType::float16})
    op.samples.push_back({.name = message("special values to ", to),
                          .arguments = {listed({14}, special_values())},
                          .call = [call, to](const std::vector<Tensor>& in) { return std::vector{call(in[0], to)}; },
                          .reference =
                              [to](const std::vector<Array>& in) {
                                Array result = in[0];
                                for (double& value : result.values) value = stored(value, to);
                                result.dtype = to;
                                return std::vector{result};
                              },
                          .gradient = false,
                          .exact = true});
  return op;
}

Operator pad() {
  Operator op = movement("pad");
  struct Use {
    Shape x;
    std::vector<op::Padding> padding;
    double value;
  };
  for (const Use& use :
       {Use{{3}, {{0, 1, 2}}, 0}, Use{{3}, {}, 5}, Use{{2, 3}, {{1, 2, 0}}, 7}, Use{{2, 3}, {{0, 1, 1}, {1, 2, 3}}, 1},
        Use{{2, 3}, {{-1, 0, 4}}, 3}, Use{{0, 2}, {{0, 2, 1}}, 4}, Use{{1, 2, 5, 5}, {{2, 1, 1}, {3, 2, 2}}, 0}})
    op.samples.push_back(moving(
        message(use.x, " by ", use.padding.size(), " with ", use.value), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return std::vector{op::pad(in[0], use.padding, use.value)}; },
        [use](const std::vector<Array>& in) {
          Shape shape = use.x, before = Shape::filled(use.x.rank(), 0);
          for (const op::Padding& padding : use.padding) {
            const int dim = static_cast<int>(padding.dim < 0 ? padding.dim + use.x.rank() : padding.dim);
            shape[dim] += padding.before + padding.after;
            before[dim] = padding.before;
          }
          Array result(shape, stored(use.value, in[0].dtype.value_or(DType::float64)));
          for_each_position(use.x, [&](Shape position) {
            const double value = in[0].at(position);
            for (int i = 0; i < position.rank(); ++i) position[i] += before[i];
            result.at(position) = value;
          });
          return std::vector{result};
        }));
  op.refuses("more taken away than there is", Kind::shape, {"-4"}, [] { op::pad(ones({3}), {{0, -4, 0}}); });
  op.refuses("a dimension outside", Kind::shape, {"1"}, [] { op::pad(ones({3}), {{1, 1, 1}}); });
  return op;
}

Operator index_select() {
  Operator op = movement("index_select");
  struct Use {
    Shape x;
    std::int64_t rows;
    bool large = false;
  };
  for (const Use& use : {Use{{5}, 9}, Use{{1}, 1}, Use{{5, 3}, 17}, Use{{7, 2, 3}, 4}, Use{{4, 0}, 3}, Use{{3, 5}, 0},
                         Use{{60, 28, 28}, 33}, Use{{997, 301}, 1009, true}})
    op.samples.push_back(moving(
        message(use.rows, " of ", use.x), {any_values(use.x), labels({use.rows}, use.x[0])},
        [](const std::vector<Tensor>& in) { return std::vector{op::index_select(in[0], 0, in[1])}; },
        [](const std::vector<Array>& in) {
          Shape shape = in[0].shape;
          shape[0] = in[1].size();
          return std::vector{picked(in[0], shape, [&](Shape position) {
            position[0] = static_cast<std::int64_t>(in[1][position[0]]);
            return position;
          })};
        },
        use.large));
  for (const auto& [shape, dim] :
       {std::pair<Shape, int>{{3, 7}, 1}, {{2, 5, 3}, 1}, {{2, 5, 3}, 2}, {{4, 1, 6, 2}, 2}, {{0, 4}, 1}})
    op.samples.push_back(moving(
        message("of ", shape, " along ", dim), {any_values(shape), labels({9}, shape[dim])},
        [dim = dim](const std::vector<Tensor>& in) {
          return std::vector{op::index_select(in[0], dim - in[0].rank(), in[1])};
        },
        [dim = dim](const std::vector<Array>& in) {
          Shape out = in[0].shape;
          out[dim] = in[1].size();
          return std::vector{picked(in[0], out, [&](Shape position) {
            position[dim] = static_cast<std::int64_t>(in[1][position[dim]]);
            return position;
          })};
        }));
  op.refuses("an index too large along the last dimension", Kind::numeric, {"5", "position 1"}, [] {
    op::index_select(ones({2, 5}), 1, tensor<std::int64_t>({0, 5})).values();
  });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] {
    op::index_select(ones({2, 5}), 2, tensor<std::int64_t>({0}));
  });
  op.refuses("an index too large", Kind::numeric, {"5", "position 1"}, [] {
    op::index_select(ones({5, 2}), 0, tensor<std::int64_t>({0, 5})).values();
  });
  op.refuses("a negative index", Kind::numeric, {"-1"}, [] {
    op::index_select(ones({5, 2}), 0, tensor<std::int64_t>({-1})).values();
  });
  op.refuses("an index of numbers", Kind::dtype, {"float32", "int64"}, [] {
    op::index_select(ones({5, 2}), 0, zeros({2}));
  });
  op.refuses("an index of two dimensions", Kind::shape, {"[2,2]"}, [] {
    op::index_select(ones({5}), 0, zeros({2, 2}, DType::int64));
  });
  op.refuses("no dimension", Kind::shape, {}, [] { op::index_select(ones({}), 0, zeros({2}, DType::int64)); });
  return op;
}

Operator one_hot() {
  Operator op = movement("one_hot");
  for (const DType dtype : compute_dtypes)
    for (const auto& [rows, classes] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 10}, {0, 3}, {33, 17}, {20011, 10}})
      op.samples.push_back(
          {.name = message(rows, " of ", classes, " ", dtype),
           .arguments = {labels({rows}, classes)},
           .call = [classes = classes,
                    dtype](const std::vector<Tensor>& in) { return std::vector{op::one_hot(in[0], classes, dtype)}; },
           .reference =
               [classes = classes, dtype](const std::vector<Array>& in) {
                 Array result({in[0].size(), classes}, 0, dtype);
                 for (std::int64_t i = 0; i < in[0].size(); ++i)
                   result[i * classes + static_cast<std::int64_t>(in[0][i])] = 1;
                 return std::vector{result};
               },
           .dtypes = {dtype},
           .gradient = false,
           .exact = true,
           .large = rows > 10000});
  op.refuses("a label too large", Kind::numeric, {"3"}, [] { op::one_hot(tensor<std::int64_t>({0, 3}), 3).values(); });
  op.refuses("labels that are not int64", Kind::dtype, {"int32", "int64"},
             [] { op::one_hot(zeros({2}, DType::int32), 3); });
  op.refuses("labels of two dimensions", Kind::shape, {"[2,2]"}, [] { op::one_hot(zeros({2, 2}, DType::int64), 3); });
  op.refuses("a result of integers", Kind::dtype, {"int32"},
             [] { op::one_hot(zeros({2}, DType::int64), 3, DType::int32); });
  return op;
}

Operator dropout() {
  Operator op{.name = "dropout"};
  for (const double probability : {0.0, 0.25, 0.5, 1.0})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{33, 5}, Shape{4097}, Shape{300007}})
      op.samples.push_back({.name = message(shape, " with ", probability),
                            .arguments = {uniform(shape)},
                            .call =
                                [probability](const std::vector<Tensor>& in) {
                                  Generator generator(7);
                                  generator.skip(3);
                                  return std::vector{op::dropout(in[0], probability, true, generator)};
                                },
                            .reference =
                                [probability](const std::vector<Array>& in) {
                                  Array result = in[0];
                                  for (std::int64_t i = 0; i < result.size(); ++i) {
                                    const float number =
                                        random::uniform(random::word(7, 3, static_cast<std::uint64_t>(i)));
                                    result[i] =
                                        static_cast<double>(number) >= probability ? in[0][i] / (1 - probability) : 0;
                                  }
                                  return std::vector{result};
                                },
                            .large = element_count(shape) > 100000});
  op.samples.push_back(
      {.name = "not training",
       .arguments = {uniform({17})},
       .call = [](const std::vector<Tensor>& in) { return std::vector{op::dropout(in[0], 0.5, false)}; },
       .reference = [](const std::vector<Array>& in) { return std::vector{in[0]}; },
       .exact = true});
  op.refuses("probability beyond 1", Kind::numeric, {"1.5"}, [] { op::dropout(ones({3}), 1.5, true); });
  op.refuses("negative probability", Kind::numeric, {"-0.5"}, [] { op::dropout(ones({3}), -0.5, true); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::dropout(ones({3}, DType::int32), 0.5, true); });
  return op;
}

Operator fill() {
  Operator op = movement("fill_", true);
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{7, 11}, Shape{4097}})
    op.samples.push_back(moving(
        message(shape), {constant(any_values(shape))},
        [](const std::vector<Tensor>& in) { return std::vector{in[0].clone().fill_(3)}; },
        [](const std::vector<Array>& in) {
          return std::vector{Array(in[0].shape, stored(3, in[0].dtype.value_or(DType::float64)))};
        }));
  op.samples.push_back(moving(
      "a view writes through", {constant(any_values({5, 7}))},
      [](const std::vector<Tensor>& in) {
        Tensor whole = in[0].clone();
        whole.slice(1, 1, 6, 2).fill_(9);
        return std::vector{whole};
      },
      [](const std::vector<Array>& in) {
        Array result = in[0];
        for_each_position(result.shape, [&](const Shape& position) {
          if (position[1] % 2 == 1 && position[1] < 6)
            result.at(position) = stored(9, in[0].dtype.value_or(DType::float64));
        });
        return std::vector{result};
      }));
  return op;
}

Operator copy_in_place() {
  Operator op = movement("copy_", true);
  struct Use {
    Shape to, from;
  };
  for (const Use& use : {Use{{}, {}}, Use{{0}, {0}}, Use{{17}, {17}}, Use{{7, 11}, {11}}, Use{{7, 11}, {7, 1}},
                         Use{{2, 3, 5}, {}}, Use{{4097}, {1}}})
    op.samples.push_back(moving(
        message(use.from, " into ", use.to), {constant(any_values(use.to)), constant(any_values(use.from))},
        [](const std::vector<Tensor>& in) { return std::vector{in[0].clone().copy_(in[1])}; },
        [](const std::vector<Array>& in) { return std::vector{broadcast_array(in[1], in[0].shape)}; }));
  op.samples.push_back(moving(
      "a view writes through", {constant(any_values({5, 7})), constant(any_values({5}))},
      [](const std::vector<Tensor>& in) {
        Tensor whole = in[0].clone();
        whole.transpose(0, 1).slice(0, 2, 4).copy_(in[1]);
        return std::vector{whole};
      },
      [](const std::vector<Array>& in) {
        Array result = in[0];
        for (std::int64_t i = 0; i < 5; ++i)
          for (std::int64_t j = 2; j < 4; ++j) result.at({i, j}) = in[1][i];
        return std::vector{result};
      }));
  op.refuses("a shape that does not broadcast", Kind::shape, {"[3]", "[4]"}, [] { ones({4}).copy_(ones({3})); });
  op.refuses("a larger source", Kind::shape, {"[2,4]", "[4]"}, [] { ones({4}).copy_(ones({2, 4})); });
  return op;
}

}  // namespace

std::vector<Operator> shape_cases() {
  std::vector<Operator> all;
  all.push_back(copying("copy", op::copy, false));
  all.push_back(copying(
      "clone", [](const Tensor& x) { return x.clone(); }, true));
  all.push_back(copying(
      "contiguous", [](const Tensor& x) { return x.contiguous(); }, true));
  all.push_back(cast("cast", op::cast, false));
  all.push_back(cast(
      "to", [](const Tensor& x, DType dtype) { return x.to(dtype); }, true));
  all.push_back(pad());
  all.push_back(index_select());
  all.push_back(one_hot());
  all.push_back(dropout());
  all.push_back(fill());
  all.push_back(copy_in_place());
  return all;
}

}  // namespace tern::testing
