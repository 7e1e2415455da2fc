// What ranks exchange inside the branches of a step.

#include "tern/run/branches.hpp"

#include "support/catch.hpp"
#include "support/logged_capture.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/parallel/group.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {
namespace {

/// Two ranks in the memory of a device, of which one is here: says when it sums, and leaves what it was given.
class Logged final : public parallel::Collective {
 public:
  explicit Logged(Memory& memory) : memory_(memory) {}
  std::string_view name() const override { return "logged"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Memory* memory() override { return &memory_; }
  void barrier(void*) override {}
  void all_reduce(void*, std::size_t, DType, parallel::Reduction, void*) override { capture_log += "sum "; }
  void broadcast(void*, std::size_t, DType, int, void*) override {}
  void reduce_scatter(const void*, void*, std::size_t, DType, parallel::Reduction, void*) override {}
  void all_gather(const void*, void*, std::size_t, DType, void*) override {}
  void all_to_all(const void*, void*, std::size_t, DType, void*) override {}
  void send(const void*, std::size_t, DType, int, void*) override {}
  void receive(void*, std::size_t, DType, int, void*) override {}
  std::unique_ptr<Collective> split(int, int) override { return nullptr; }
  void abandon(const std::string&) noexcept override {}

 private:
  Memory& memory_;
};

}  // namespace

TEST_CASE("branches: what ranks exchange comes after all that was queued before it", "[parallel]") {
  const Device device(register_logged("captured in branches"));
  const parallel::Group group(std::make_shared<Logged>(*device.mode().memory));
  Step step([&](const Tensor& x) {
    return branches({[&] { return operators::add(x, 1.0); },
                     [&] {
                       Tensor sum = operators::mul(x, 2.0);
                       group.all_reduce(sum);
                       return sum;
                     },
                     [&] { return operators::mul(x, 3.0); }})
        .back();
  });
  const Tensor x = ones({2});
  step(x);
  capture_log.clear();
  step(x);
  CHECK(capture_log == "begin branch branch join sum branch join end launch ");
}

}  // namespace tern::testing
