#include "operators/resampled.hpp"

#include <algorithm>
#include <vector>

#include "modes/observed.hpp"
#include "operators/support.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

bool resamples(const char* op, const Tensor& x) {
  return x.dtype() == DType::float32 && !recording(x) && mode_of(op).resampling.has_value();
}

Taps kept_taps(const std::string& key, const std::function<Taps()>& make) {
  constexpr std::size_t most = 64;
  struct Kept {
    std::string key;
    const Memory* memory;
    Taps taps;
  };
  thread_local std::vector<Kept> kept;  // most recently used last
  const Scope& scope = current_scope();
  if (scope.mode->capture == nullptr) return make();
  const Memory* const memory = scope.mode->memory;
  const auto found =
      std::ranges::find_if(kept, [&](const Kept& each) { return each.memory == memory && each.key == key; });
  if (found != kept.end()) {
    std::rotate(found, found + 1, kept.end());
    return kept.back().taps;
  }
  Taps made = make();
  if (capturing() != nullptr) return made;  // its elements belong to the recording
  if (kept.size() == most) kept.erase(kept.begin());
  kept.push_back({key, memory, made});
  return made;
}

Tensor resampled(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& weight) {
  // Of fewer channels the transposition is cheap, and neighbours in a row fill vectors as well.
  constexpr std::int64_t many = 32;
  if (x.rank() == 4 && dim >= 2 && x.size(1) >= many && !x.is_contiguous()) {
    const Tensor last = permute(x, {0, 2, 3, 1});
    if (last.is_contiguous()) return permute(resampled(op, last, dim - 1, index, weight), {0, 3, 1, 2});
  }
  const Tensor whole = x.detach().contiguous(), places = index.contiguous(),
               weights = weight.defined() ? weight.contiguous() : Tensor{};
  kernels::Resample sizes{.size = x.size(dim), .count = index.size(0), .taps = index.size(1)};
  for (int i = 0; i < dim; ++i) sizes.outer *= x.size(i);
  for (int i = dim + 1; i < x.rank(); ++i) sizes.inner *= x.size(i);
  Shape shape = x.shape();
  shape[dim] = sizes.count;
  Tensor out(shape, x.dtype());
  if (out.numel() == 0) return out;
  visit(op, x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      const Call<float> call;
      current_scope().mode->resampling->resample(call.context(), call.out(out), call.in(whole),
                                                 call.in_as<std::int64_t>(places), call.in(weights), sizes);
    }
  });
  return out;
}

}  // namespace tern::operators
