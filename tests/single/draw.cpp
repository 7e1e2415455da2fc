// Prints a line with a hash of all bits of every sample's results and gradients: one draw of the whole catalogue, in a
// mode. Linked with the library and with tern_single.hpp, both must print the same.
// usage: draw MODE [EVERY]

#include <cstdio>
#include <cstdlib>

#include "support/catalogue.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/reduction.hpp"

using namespace tern;

namespace {

class Hash {
 public:
  void add(const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ull;
  }
  void add(const Tensor& tensor) {
    if (!tensor.defined()) return;
    for (const std::int64_t size : tensor.shape()) add(&size, sizeof size);
    const Tensor dense = tensor.detach().contiguous();
    const auto* const first = static_cast<const std::byte*>(dense.storage().read_host());
    const std::size_t element = size_of(dense.dtype());
    add(first + static_cast<std::size_t>(dense.offset()) * element, static_cast<std::size_t>(dense.numel()) * element);
  }
  unsigned long long value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

/// The results of a sample, and the gradients of its arguments from the sum of its first result.
void print(const testing::Operator& op, const testing::Sample& sample, DType dtype) {
  std::vector<Tensor> inputs = testing::make_inputs(op, sample, dtype);
  const bool gradient = sample.gradient && (dtype == DType::float32 || dtype == DType::float64);
  for (std::size_t i = 0; gradient && i < inputs.size(); ++i)
    if (sample.arguments[i].differentiable && inputs[i].dtype() == dtype) inputs[i].set_requires_grad(true);
  Hash hash;
  try {
    const std::vector<Tensor> results = sample.call(inputs);
    for (const Tensor& result : results) hash.add(result);
    if (gradient && !results.empty() && results[0].requires_grad()) {
      operators::sum(results[0]).backward();
      for (const Tensor& input : inputs) hash.add(input.grad());
    }
  } catch (const Error& error) {
    hash.add(error.what(), std::string(error.what()).size());
  }
  std::printf("%s, %s, %s: %016llx\n", op.name.c_str(), sample.name.c_str(), std::string(name_of(dtype)).c_str(),
              hash.value());
}

}  // namespace

int main(int argc, char** argv) {
  const Device device{argc > 1 ? argv[1] : "sequential"};
  const int every = argc > 2 ? std::atoi(argv[2]) : 1;
  int position = 0;
  for (const testing::Operator& op : testing::catalogue())
    for (const testing::Sample& sample : op.samples)
      for (const DType dtype : sample.dtypes)
        if (position++ % every == 0) print(op, sample, dtype);
}
