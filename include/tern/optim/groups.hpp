#pragma once

#include <memory>

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

/// Several optimisers that step as one, each with its own parameters and options:
///
///     optim::Groups groups;
///     groups.add(std::make_unique<optim::SGD>(body.parameters(), optim::SgdOptions{.learning_rate = 1e-3}));
///     groups.add(std::make_unique<optim::SGD>(head.parameters(), optim::SgdOptions{.learning_rate = 1e-1}));
///     optim::Scheduler schedule{groups, optim::CosineLr{.total = 20}};
///
/// Its learning rate is a factor, initially 1, of the rates that the groups had when they were added, so schedules act
/// on all of them.
class Groups : public Optimizer {
 public:
  Groups();
  /// Throws Error if a parameter is already in a group.
  Groups& add(std::unique_ptr<Optimizer> group);
  std::size_t count() const { return groups_.size(); }
  Optimizer& operator[](std::size_t i) { return *groups_.at(i); }

  void step() override;
  bool conditional() const override;
  void step_if(const Tensor& applies) override;
  std::vector<Step::Change> rate_changes(const std::vector<double>& rates) const override;
  /// The groups' states with the prefixes "group0.", "group1.", ..., and the factor.
  nn::State state() const override;
  void load_state(const nn::State& state) override;
  Tensor owner_of(const std::string& entry) const override;
  std::string describe() const override;

 protected:
  void apply_learning_rate(double rate) override;

 private:
  std::vector<std::unique_ptr<Optimizer>> groups_;
  std::vector<double> rates_;  // of the groups, for a factor of 1
};

}  // namespace tern::optim
