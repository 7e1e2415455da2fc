// Runs an operator on tensors of a dtype for which its mode has no table: the mode's own `cast` makes float32 copies of
// the inputs and rounds the outputs.

#include <deque>

#include "operators/support.hpp"
#include "tensor/places.hpp"

namespace tern::operators {

namespace {

/// The 16-bit tensors of one kernel, in float32.
class Conversion final : public Stage {
 public:
  void* pointer(const Operand& operand) override {
    const Tensor& tensor = *operand.tensor;
    if (operand.element == size_of(tensor.dtype())) return nullptr;
    return copies_.emplace_back(scope_, operand).first();
  }

  /// The kernel has been queued.
  void finish() {
    for (Copy& copy : copies_) copy.round();
  }

 private:
  /// A view's elements including the gaps between them: the kernel uses the view's strides.
  class Copy {
   public:
    Copy(Scope& scope, const Operand& operand)
        : scope_(scope),
          tensor_(*operand.tensor),
          reach_(reach_of(tensor_)),
          wide_(scope.context, static_cast<std::size_t>(std::max<std::int64_t>(reach_.count, 1)) * sizeof(float)) {
      const auto begin = [&](auto* elements) { return elements + tensor_.offset() - reach_.before; };
      if (operand.role != Role::in)
        own_ = begin(static_cast<std::uint16_t*>(operand.role == Role::out ? tensor_.storage().write(scope)
                                                                           : tensor_.storage().update(scope)));
      if (operand.role == Role::out) return;
      const auto* const read =
          operand.role == Role::in ? begin(static_cast<const std::uint16_t*>(tensor_.storage().read(scope))) : own_;
      cast(wide_.as<float>(), DType::float32, read, tensor_.dtype());
    }
    float* first() const { return wide_.as<float>() + reach_.before; }

    /// Writes the tensor, if the kernel has written it.
    void round() {
      if (own_ == nullptr) return;
      if (reach_.count == tensor_.numel()) return cast(own_, tensor_.dtype(), wide_.as<float>(), DType::float32);
      // The kernel does not own the gaps between the elements.
      const Scratch narrow(scope_.context, static_cast<std::size_t>(reach_.count) * sizeof(std::uint16_t));
      cast(narrow.as<std::uint16_t>(), tensor_.dtype(), wide_.as<float>(), DType::float32);
      scope_.mode->movement.copy(scope_.context, own_ + reach_.before, narrow.as<std::uint16_t>() + reach_.before,
                                 strided(), sizeof(std::uint16_t));
    }

   private:
    void cast(void* to, DType to_type, const void* from, DType from_type) const {
      scope_.mode->movement.cast(scope_.context, to, to_type, from, from_type, reach_.count);
    }
    kernels::Strided strided() const {
      kernels::Strided shape;
      for (int i = 0; i < tensor_.rank(); ++i) {
        shape.size[shape.rank] = tensor_.shape()[i];
        shape.out[shape.rank] = shape.in[shape.rank] = tensor_.strides()[i];
        shape.count *= shape.size[shape.rank++];
      }
      return shape;
    }

    Scope& scope_;
    const Tensor& tensor_;
    Reach reach_;
    Scratch wide_;
    std::uint16_t* own_ = nullptr;  // null: read only
  };

  Scope& scope_ = current_scope();
  std::deque<Copy> copies_;  // a Copy does not move
};

}  // namespace

Unshortened::Unshortened(DType dtype) : precision_(current_scope().context.precision), outer_(precision_) {
  if (dtype == DType::float16) precision_ = Precision::strict;
}

void in_float32(DType dtype, const std::function<void()>& work) {
  const Unshortened unshortened(dtype);
  // A repeated operator already gets float32 operands.
  if (const OperatorCall* const call = OperatorCall::open(); call != nullptr && call->stage() != nullptr) return work();
  Conversion conversion;
  {
    const Staged staged(conversion);
    work();
  }
  conversion.finish();
}

}  // namespace tern::operators
