#pragma once

#include <optional>

#include "tern/nn/module.hpp"
#include "tern/run/step.hpp"

namespace tern::optim {

/// Base of the optimisers: changes parameters in place by their gradients. One `step` of SGD and Adam is one kernel
/// over all of them, of the others it is composed of operators; parameters without a gradient are left alone. What a
/// step reads that may change (the learning rate) lives in tensors, so that a replayed Step sees its present value.
/// Everything that a step creates is created by the first one.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual void step() = 0;
  /// Forgets the gradients of all parameters.
  void zero_grad();

  double learning_rate() const { return rate_; }
  /// Written on the host: call it between Steps, not inside one.
  void set_learning_rate(double rate);
  /// What makes these the rates of the steps of a loop (Step::run_each); set the last one or the next afterwards.
  virtual std::vector<Step::Change> rate_changes(const std::vector<double>& rates) const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// The learning rate and what the steps so far left behind, sharing the elements; torch's names behind the number of
  /// the parameter: "0.momentum_buffer".
  virtual nn::State state() const;
  /// Takes up a state of an optimiser of the same kind and the same parameters; see nn::load_tensors. A rate that it
  /// cannot take is found before anything is changed.
  virtual void load_state(const nn::State& state);
  /// The parameter that an entry of such a state belongs to, element by element; undefined for any other entry. It may
  /// be one that no step has made yet.
  virtual Tensor owner_of(const std::string& entry) const;
  /// Kind and options, which have to be alike in all ranks of a training: "SGD, momentum 0.9, ...".
  virtual std::string describe() const { return name_; }

 protected:
  /// Throws unless the parameters are leaves of one floating dtype, contiguous and at least one.
  Optimizer(const char* name, std::vector<Tensor> parameters, double learning_rate);
  /// For one that others' parameters come to later, with a rate of 1.
  explicit Optimizer(const char* name);
  void take_over(const Optimizer& other);

  /// Tensors of the optimiser, one per parameter; undefined until a step has made it.
  struct Slot {
    const char* name;
    std::vector<Tensor>* tensors;
  };
  virtual std::vector<Slot> slots() { return {}; }
  /// What a slot of parameter i is kept in: float32 where the parameter has 16 bits.
  DType slot_dtype(std::size_t i) const { return scalar_of(parameters_[i].dtype()); }

  /// Positions of the parameters that have a gradient.
  std::vector<std::size_t> active() const;
  const Tensor& parameter(std::size_t i) const { return parameters_[i]; }
  std::size_t size() const { return parameters_.size(); }
  const Tensor& learning_rate_tensor() const { return rate_tensor_; }
  /// Says that a step made the tensors of a slot: they are undefined again if the step was recorded and never runs.
  void made(Tensor& tensor);
  /// Writes the present rate; optimisers that hold others hand it on.
  virtual void apply_learning_rate(double rate);
  /// What has to be done if the step is being recorded and never runs.
  void restore_on_failure(std::function<void()> undo);

 private:
  friend class Scheduler;
  void check_rate(double rate) const;
  void write_rate(double rate);

  const char* name_;
  std::vector<Tensor> parameters_;
  double rate_ = 0;
  std::optional<double> scheduled_rate_;  // what schedulers scale: the rate when the first of them was made
  Tensor rate_tensor_;
  std::shared_ptr<bool> same_slots_ = std::make_shared<bool>(true);  // until load_state makes or drops a tensor
};

}  // namespace tern::optim
