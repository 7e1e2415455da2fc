#include "tern/operators/op.hpp"

#include <algorithm>
#include <cstdio>

#include "core/built.hpp"
#include "modes/aside.hpp"
#include "operators/attribute_text.hpp"
#include "operators/inside_call.hpp"
#include "operators/op_list.hpp"
#include "operators/traced.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

const std::vector<std::unique_ptr<Op>>& list() {
  static const std::vector<std::unique_ptr<Op>> ops = [] {
    std::vector<std::unique_ptr<Op>> made;
    append_elementwise(made);
    append_networks(made);
    append_shapes(made);
    std::ranges::sort(made, {}, [](const auto& each) { return each->name(); });
    return made;
  }();
  return ops;
}

}  // namespace

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> all = [] {
    std::vector<const Op*> ops;
    for (const auto& each : list()) ops.push_back(each.get());
    return ops;
  }();
  return all;
}

const Op* find_op(std::string_view name) {
  const auto& ops = all_ops();
  const auto found =
      std::ranges::lower_bound(ops, name, {}, [](const Op* each) -> std::string_view { return each->name(); });
  return found != ops.end() && (*found)->name() == name ? *found : nullptr;
}

const Op& op(std::string_view name) {
  const Op* found = find_op(name);
  expects(
      found != nullptr, "there is no operator '", name, "'",
      built::whole ? "" : " in this library, which was built for the operators in TERN_OPERATORS alone; add it there");
  return *found;
}

namespace {

/// The inputs as `op` takes them in mixed precision: a listener hears the casts, and backward casts the gradients back.
void narrow_inputs(const Op& op, std::vector<Tensor>& inputs, DType narrow) {
  const auto is = [](const Tensor& x, DType dtype) { return x.defined() && x.dtype() == dtype; };
  const auto narrows = [&](const Tensor& x) { return is(x, narrow); };
  const bool widens = op.mixed() == Mixed::widens;
  if (op.mixed() == Mixed::keeps || (op.mixed() == Mixed::joins && std::ranges::none_of(inputs, narrows))) return;
  for (Tensor& input : inputs)
    if (is(input, widens ? narrow : DType::float32)) {
      const Ahead ahead(input);
      input = cast(input, widens ? DType::float32 : narrow);
    }
}

/// Inside an operator, and in its backward, tensors keep their dtypes.
class AsItIs {
 public:
  AsItIs() = default;
  AsItIs(const AsItIs&) = delete;
  AsItIs& operator=(const AsItIs&) = delete;
  ~AsItIs() { scope_.activations = outer_; }

 private:
  Scope& scope_ = current_scope();
  const DType outer_ = std::exchange(scope_.activations, DType::float32);
};

}  // namespace

std::vector<Tensor> TracedCall::run(const char* name) {
  const Op& called = op(name);
  if (const DType narrow = activations(); narrow != DType::float32) narrow_inputs(called, inputs_, narrow);
  OpListener* const listener = detail::hearing.listener;
  const Attributes attributes(std::move(attributes_));
  std::vector<Tensor> results;
  OpCall call{called, inputs_, attributes, results};
  if (listener != nullptr && !listener->runs()) {
    Inferred inferred = called.infer(inputs_, attributes);
    results = std::move(inferred.results);
    call.flops = inferred.flops;
  } else {
    const InsideCall inside(call);
    const AsItIs exact;
    results = called.run(inputs_, attributes);
  }
  if (listener != nullptr) listener->called(call);
  return results;
}

void attribute::write_number(std::string& text, double value) {
  char digits[32];
  if constexpr (built::whole) {
    text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  } else {  // as exact, and without a table of 0.1 MB
    std::snprintf(digits, sizeof digits, "%.17g", value);
    std::ranges::replace(digits, ',', '.');
    text += digits;
  }
}

}  // namespace tern::operators
