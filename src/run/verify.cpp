// The check behind DeviceOptions::verify. The reference runs first, on copies of the operator's inputs: in their own
// dtype, in float64, and in float64 with every number perturbed by one unit in float32's last place. The distance
// between the last two shows how much rounding matters for these numbers.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "run/operands.hpp"
#include "run/scope_checks.hpp"
#include "tensor/places.hpp"
#include "tern/core/convert.hpp"
#include "tern/modes/device.hpp"

namespace tern {

namespace {

// A pattern that no kernel computes: bytes that still hold it were not written.
constexpr std::byte unwritten{0xff};

bool is_unwritten(const std::byte* element, std::size_t size) {
  return std::all_of(element, element + size, [](std::byte byte) { return byte == unwritten; });
}

/// The operands of one run of the reference, in their own memory.
class Copies final : public Stage {
 public:
  explicit Copies(bool perturbs = false) : perturbs_(perturbs) {}

  struct Copy {
    const Tensor* tensor;
    Role role;
    DType dtype;  // of the elements here
    std::vector<std::byte> bytes;
    std::int64_t first = 0;  // the view's first element
  };

  void* pointer(const Operand& operand) override {
    const Tensor& tensor = *operand.tensor;
    const std::size_t element = operand.element;
    // In a float64 run all floating tensors are float64; labels, indices and counters keep their dtype.
    const bool widens = element != size_of(tensor.dtype());
    const DType wider = element == sizeof(double) ? DType::float64 : DType::float32;
    ViewBytes view(tensor, operand.role != Role::out);
    Copy copy{operand.tensor, operand.role, widens ? wider : tensor.dtype(), {}, view.first()};
    if (operand.role == Role::out)
      copy.bytes.assign(view.bytes().size() / size_of(tensor.dtype()) * element, unwritten);
    else if (widens)
      copy.bytes = widened(view.bytes(), tensor.dtype(), wider);
    else
      copy.bytes = std::move(view.bytes());
    Copy& kept = copies_.emplace_back(std::move(copy));
    kept.bytes.resize(kept.bytes.size() + sizeof(double));  // an empty tensor has a pointer, too
    return kept.bytes.data() + kept.first * static_cast<std::int64_t>(element);
  }

  /// The copy of an operand in this run.
  const Copy* find(const Operand& operand) const {
    const auto found = std::ranges::find_if(
        copies_, [&](const Copy& copy) { return copy.tensor == operand.tensor && copy.role == operand.role; });
    return found == copies_.end() ? nullptr : &*found;
  }

 private:
  std::vector<std::byte> widened(const std::vector<std::byte>& bytes, DType from, DType to) const {
    const std::size_t count = bytes.size() / size_of(from);
    std::vector<std::byte> wide(count * size_of(to));
    for (std::size_t i = 0; i < count; ++i) {
      const bool up = (i * 0x9E3779B97F4A7C15ull >> 63) != 0;
      const double off = perturbs_ ? (up ? 1 + 0x1p-24 : 1 - 0x1p-24) : 1;
      const double value = value_at(bytes.data(), from, static_cast<std::int64_t>(i)) * off;
      with_type_of(to, [&]<class T>(T element) {
        element = convert<T>(value);
        std::memcpy(&wide[i * sizeof element], &element, sizeof element);
      });
    }
    return wide;
  }

  std::deque<Copy> copies_;  // kernels keep pointers into them
  bool perturbs_;
};

Copies repeat(const OperatorCall& call, DType compute, bool perturbs = false) {
  Copies copies(perturbs);
  const Device reference(reference_mode(),
                         {.precision = Precision::strict, .numerics = Numerics::trust, .verify = false});
  call.repeat(copies, compute);
  return copies;
}

/// The size of one unit in float32's last place if factors are read with fewer bits.
double coarseness(Precision precision) {
  return precision == Precision::strict ? 1 : precision == Precision::bf16 ? 0x1p16 : 0x1p13;
}

/// The largest distance from a number to the nearest value of a dtype, if that exceeds the error of computing it.
double rounding(DType dtype, double value) {
  if (dtype == DType::bfloat16) return 0x1p-8 * std::abs(value) + 0x1p-134;
  if (dtype == DType::float16) return 0x1p-11 * std::abs(value) + 0x1p-25;
  return 0;
}

struct Expected {
  Copies single, exact, perturbed;
};

class Verifier final : public Observer {
 public:
  void before(const OperatorCall& call) override {
    Expected expected;
    if (call.repeats()) {
      const bool narrow = is_floating(call.compute()) && call.compute() != DType::float64;
      expected.single = repeat(call, call.compute());
      expected.exact = narrow ? repeat(call, DType::float64) : expected.single;
      expected.perturbed = narrow ? repeat(call, DType::float64, true) : expected.single;
    }
    pending().push_back(std::move(expected));
  }

  void after(const OperatorCall& call) override {
    const Expected expected = std::move(pending().back());
    pending().pop_back();
    if (!call.repeats()) return;
    for (const Operand& operand : call.operands())
      if (operand.role != Role::in) compare(call, operand, expected);
  }

  void failed(const OperatorCall&) noexcept override { pending().pop_back(); }

 private:
  static std::vector<Expected>& pending() {
    static thread_local std::vector<Expected> calls;
    return calls;
  }

  static void compare(const OperatorCall& call, const Operand& operand, const Expected& expected) {
    const Tensor& tensor = *operand.tensor;
    const auto *const found_single = expected.single.find(operand), *const found_exact = expected.exact.find(operand),
                      *const found_perturbed = expected.perturbed.find(operand);
    expects<VerifyError>(found_single != nullptr && found_exact != nullptr && found_perturbed != nullptr,
                         "verify: ", describe(call), ": the kernel takes other tensors than the reference's");
    const Copies::Copy &single = *found_single, &exact = *found_exact, &perturbed = *found_perturbed;
    ViewBytes actual(tensor);
    const auto own = [](const std::vector<std::byte>& bytes, std::int64_t first, DType dtype) {
      return bytes.data() + first * static_cast<std::int64_t>(size_of(dtype));
    };
    const std::byte* const values = own(actual.bytes(), actual.first(), tensor.dtype());
    const std::byte* const singles = own(single.bytes, single.first, single.dtype);
    const std::byte* const exacts = own(exact.bytes, exact.first, exact.dtype);
    const std::byte* const perturbeds = own(perturbed.bytes, perturbed.first, perturbed.dtype);
    const auto skipped = [&](std::int64_t place) {
      const std::size_t size = size_of(single.dtype);
      return single.role == Role::out && is_unwritten(singles + place * static_cast<std::int64_t>(size), size);
    };
    const bool rounded = is_floating(tensor.dtype());
    double noise = 0, squares = 0, count = 0;
    if (rounded)
      for_each_place(tensor, tensor.numel(), [&](std::int64_t place) {
        const double want = value_at(exacts, exact.dtype, place);
        const double other = value_at(perturbeds, perturbed.dtype, place);
        if (skipped(place) || !std::isfinite(want) || !std::isfinite(other)) return;
        noise = std::max(noise, std::abs(want - other));
        squares += want * want;
        ++count;
      });
    const double scale = count > 0 ? std::sqrt(squares / count) : 0;
    const double coarse = coarseness(current_scope().context.precision);
    const double share = std::min(2e-5 * coarse, 0.1);
    std::int64_t element = -1;
    for_each_place(tensor, tensor.numel(), [&](std::int64_t place) {
      ++element;
      if (skipped(place)) return;
      const double got = value_at(values, tensor.dtype(), place), want = value_at(exacts, exact.dtype, place);
      const double error = rounded ? 256 * coarse * noise + share * (scale + std::abs(want)) : 0;
      const double bound = error + rounding(tensor.dtype(), std::abs(want) + error);
      const bool near = std::isfinite(want) && std::abs(got - want) <= bound;
      // A value outside the dtype's range is infinite there, in the reference's run in that dtype, too.
      const double plain = value_at(singles, single.dtype, place);
      const bool same = got == plain || (std::isnan(got) && std::isnan(plain)) || got == want;
      if (near || same) return;
      throw VerifyError(message("verify: ", describe(call), ": element ", index_of(tensor, element), " of the result, ",
                                tensor.dtype(), ' ', tensor.shape(), ", is ", got, ", the reference's is ", want,
                                ", a difference of ", std::abs(got - want), " where ", bound, " is allowed"));
    });
  }
};

}  // namespace

Observer& verifier() {
  static Verifier* const verifier = new Verifier;  // never destroyed: scopes outlive static destructors
  return *verifier;
}

}  // namespace tern
