#pragma once
// What the cases of losses share.

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {

using Loss = std::function<Tensor(const Tensor& input, const Tensor& target, Reduce reduce)>;

/// A loss of pairs of elements refuses two shapes, two dtypes and integers.
inline void refuses_pairs(Operator& op, const Loss& call) {
  using Kind = Invalid::Kind;
  op.refuses("shapes that differ", Kind::shape, {"[2,3]", "[3]"}, [call] {
    call(ones({2, 3}), ones({3}), Reduce::mean);
  });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"},
             [call] { call(ones({2}), ones({2}, DType::float64), Reduce::mean); });
  op.refuses("integers", Kind::dtype, {"int32"},
             [call] { call(ones({2}, DType::int32), ones({2}, DType::int32), Reduce::mean); });
}

}  // namespace tern::testing
