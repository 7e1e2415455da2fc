#pragma once

#include <optional>

#include "tern/nn/module.hpp"
#include "tern/run/step.hpp"

namespace tern::optim {

/// Base of the optimisers, which change parameters in place by their gradients. A step of SGD or Adam is one kernel
/// over all parameters; other optimisers are composed of operators. Parameters without a gradient are skipped. Values
/// that may change between steps (the learning rate) live in tensors, so that a replayed Step reads the current value.
/// The first step creates everything that later ones need.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual void step() = 0;
  /// Whether step_if() can be called.
  virtual bool conditional() const { return false; }
  /// Steps where `applies`, one boolean on the device, is true. Else nothing changes, but a momentum that this step
  /// makes is 0.
  virtual void step_if(const Tensor& applies);
  /// Clears the gradients of all parameters.
  void zero_grad();

  double learning_rate() const { return rate_; }
  /// Writes on the host: call it between Steps, not inside one.
  void set_learning_rate(double rate);
  /// The changes that make these the rates of the steps of a loop (Step::run_each). Set the last or next rate
  /// afterwards.
  virtual std::vector<Step::Change> rate_changes(const std::vector<double>& rates) const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// The learning rate and the tensors that steps have made, sharing the elements. Names are torch's with the number of
  /// the parameter: "0.momentum_buffer".
  virtual nn::State state() const;
  /// Restores the state of an optimiser of the same kind and parameters; see nn::load_tensors. A rate that it cannot
  /// accept is found before anything changes.
  virtual void load_state(const nn::State& state);
  /// The parameter that an entry of such a state belongs to, element by element; undefined for any other entry. The
  /// entry may be one that no step has made yet.
  virtual Tensor owner_of(const std::string& entry) const;
  /// Kind and options, which must be equal in all ranks of a training: "SGD, momentum 0.9, ...".
  virtual std::string describe() const { return name_; }

 protected:
  /// Throws unless the parameters are contiguous leaves of one floating dtype, at least one.
  Optimizer(const char* name, std::vector<Tensor> parameters, double learning_rate);
  /// For an optimiser that gets others' parameters later, with a rate of 1.
  explicit Optimizer(const char* name);
  void take_over(const Optimizer& other);

  /// Tensors of the optimiser, one per parameter; undefined until a step makes it.
  struct Slot {
    const char* name;
    std::vector<Tensor>* tensors;
  };
  virtual std::vector<Slot> slots() { return {}; }
  /// The dtype of the slot of parameter i: float32 for a 16-bit parameter.
  DType slot_dtype(std::size_t i) const { return scalar_of(parameters_[i].dtype()); }

  /// Positions of the parameters that have a gradient.
  std::vector<std::size_t> active() const;
  const Tensor& parameter(std::size_t i) const { return parameters_[i]; }
  std::size_t size() const { return parameters_.size(); }
  const Tensor& learning_rate_tensor() const { return rate_tensor_; }
  /// Notes that a step made the tensors of a slot: they become undefined again if the step was recorded and never runs.
  void made(Tensor& tensor);
  /// Writes the current rate; optimisers that hold others pass it on.
  virtual void apply_learning_rate(double rate);
  /// Registers an undo in case the step is being recorded and never runs.
  void restore_on_failure(std::function<void()> undo);

 private:
  friend class Scheduler;
  void check_rate(double rate) const;
  void write_rate(double rate);

  const char* name_;
  std::vector<Tensor> parameters_;
  double rate_ = 0;
  std::optional<double> scheduled_rate_;  // what schedulers scale: the rate when the first scheduler was made
  Tensor rate_tensor_;
  std::shared_ptr<bool> same_slots_ = std::make_shared<bool>(true);  // replaced when load_state makes or drops a tensor
};

}  // namespace tern::optim
