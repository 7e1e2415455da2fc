#include "run/scope_checks.hpp"

#include <cmath>
#include <optional>
#include <string_view>

#include "modes/scope_observer.hpp"
#include "run/operands.hpp"
#include "tensor/places.hpp"

namespace tern {

namespace {

struct Found {
  std::int64_t element;
  double value;
};

/// The first element that is infinite or NaN.
std::optional<Found> first_not_finite(const Tensor& tensor) {
  std::optional<Found> found;
  ViewBytes view(tensor);
  const std::byte* const first =
      view.bytes().data() + view.first() * static_cast<std::int64_t>(size_of(tensor.dtype()));
  std::int64_t element = 0;
  for_each_place(tensor, tensor.numel(), [&](std::int64_t place) {
    const double value = value_at(first, tensor.dtype(), place);
    if (!found && !std::isfinite(value)) found = {element, value};
    ++element;
  });
  return found;
}

class FiniteCheck final : public Observer {
 public:
  // What an operator changes in place was checked when it was written.
  void after(const OperatorCall& call) override {
    if (std::string_view(call.name()) == "fill") return;  // the value was intended: a mask's or a bound's
    for (const Operand& operand : call.operands()) {
      if (operand.role == Role::in || !is_floating(operand.tensor->dtype())) continue;
      const std::optional<Found> found = first_not_finite(*operand.tensor);
      if (found) report(call, *operand.tensor, *found);
    }
  }

 private:
  static void report(const OperatorCall& call, const Tensor& tensor, const Found& found) {
    for (const Operand& operand : call.operands())
      if (operand.role == Role::in && is_floating(operand.tensor->dtype()) && first_not_finite(*operand.tensor)) return;
    throw NumericError(message("numerics: ", describe(call), ": element ", index_of(tensor, found.element),
                               " of the result, ", tensor.dtype(), ' ', tensor.shape(), ", is ", found.value,
                               ", and all that the operator read is finite"));
  }
};

class Checks final : public Observer {
 public:
  void before(const OperatorCall& call) override { verifier().before(call); }
  void after(const OperatorCall& call) override {
    verifier().after(call);
    finite_check().after(call);
  }
  void failed(const OperatorCall& call) noexcept override { verifier().failed(call); }
};

}  // namespace

Observer& finite_check() {
  static FiniteCheck* const check = new FiniteCheck;  // never destroyed: scopes outlive static destructors
  return *check;
}

Observer* scope_observer(Numerics numerics, bool verify) {
  static Checks* const both = new Checks;
  if (verify && numerics == Numerics::check) return both;
  return verify ? &verifier() : numerics == Numerics::check ? &finite_check() : nullptr;
}

}  // namespace tern
