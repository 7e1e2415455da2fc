// Shapes, dtypes and operations of a call: the operator itself runs, on tensors without elements and with kernels left
// out, so nothing about it is stated twice.

#include <map>

#include "memory/no_memory.hpp"
#include "operators/inside_call.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/kernels/tape.hpp"
#include "tern/modes/device.hpp"

namespace tern::operators {

namespace {

/// Leaves out the kernels of the thread, to the end of the block.
class NoKernels final : public kernels::Tape {
 public:
  NoKernels() : outer_(std::exchange(kernels::tape, this)) {}
  ~NoKernels() override { kernels::tape = outer_; }
  bool skips() const override { return true; }
  void touches(const void*, bool) override {}
  void elementwise(const void*, const void*, const void*) override {}
  void begins() override {}
  void ends(std::unique_ptr<kernels::Launch>) noexcept override {}

 private:
  Tape* outer_;
};

/// Sums the operations of the kernels that would run, and leaves all generators where they are.
class Count final : public Observer {
 public:
  Count() { begin(); }
  ~Count() override { end(); }
  void after(const OperatorCall& call) override { flops += call.flops(); }
  bool draw(Generator&, random::Key& key) override {
    key = {};
    return true;
  }
  double flops = 0;
};

/// The reference's operators on tensors without elements.
Scope scope_without_elements() {
  static const Mode* const mode = [] {
    auto* const made = new Mode(reference_mode());  // never destroyed, as all modes
    made->name = "none";
    made->memory = &no_memory();
    return made;
  }();
  Scope scope = current_scope();
  scope.mode = mode;
  scope.context.memory = mode->memory;
  scope.transfers = Transfers::allow;
  scope.numerics = Numerics::trust;
  scope.verify = false;
  scope.observer = nullptr;
  scope.automatic = 0;
  return scope;
}

/// Tensors in the place of a call's inputs: the same views of storages without elements.
class StandIns {
 public:
  StandIns(const std::vector<Tensor>& originals, Scope& scope) : originals_(originals) {
    for (const Tensor& x : originals) {
      if (!x.defined()) {
        tensors.emplace_back();
        continue;
      }
      std::shared_ptr<Storage>& storage = storages_[x.shared_storage().get()];
      if (storage == nullptr) {
        storage = std::make_shared<Storage>(x.storage().bytes());
        storage->write(scope);
        back_[storage.get()] = x.shared_storage();
      }
      tensors.emplace_back(storage, x.dtype(), x.shape(), x.strides(), x.offset());
    }
  }
  /// A result as one of the originals, or as a view of one, if that is what it is.
  Tensor original(const Tensor& result) const {
    if (!result.defined()) return result;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (result.is(tensors[i])) return originals_[i];
    const auto found = back_.find(result.shared_storage().get());
    if (found == back_.end()) return result;
    return Tensor(found->second, result.dtype(), result.shape(), result.strides(), result.offset());
  }

  std::vector<Tensor> tensors;

 private:
  const std::vector<Tensor>& originals_;
  std::map<const Storage*, std::shared_ptr<Storage>> storages_, back_;
};

}  // namespace

Inferred Op::infer(const std::vector<Tensor>& inputs, const Attributes& attributes) const {
  const Unobserved alone;
  Scope scope = scope_without_elements();
  const Device device(scope);
  const NoGrad no_grad;
  const StandIns stand_ins(inputs, scope);
  Inferred inferred;
  const OpCall call{*this, stand_ins.tensors, attributes, inferred.results};
  const InsideCall inside(call);
  const NoKernels left_out;
  const Count count;
  for (const Tensor& result : run(stand_ins.tensors, attributes))
    inferred.results.push_back(stand_ins.original(result));
  inferred.flops = count.flops;
  return inferred;
}

}  // namespace tern::operators
