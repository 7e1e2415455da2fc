#pragma once

#include <concepts>

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Modules one after another: `Sequential net{Linear{784, 100}, Relu{}, Linear{100, 10}}`. The children are named "0",
/// "1", ... Neighbours whose operators can be fused are one kernel, such as a Conv2d, a Relu and a MaxPool2d{2}; names
/// and results stay the same.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <std::derived_from<Module> First, std::derived_from<Module>... Rest>
  explicit Sequential(const First& first,
                      const Rest&... rest) requires(sizeof...(Rest) > 0 || !std::same_as<First, Sequential>) {
    add(first);
    (add(rest), ...);
  }

  /// Appends a module under its number, or under a name.
  template <std::derived_from<Module> M>
  Sequential& add(const M& next) {
    return add(std::to_string(child_count()), next);
  }
  template <std::derived_from<Module> M>
  Sequential& add(const std::string& name, const M& next) {
    add_child(name, std::make_shared<M>(next));
    OperatorForms forms;
    if constexpr (requires { requires std::same_as<typename M::Operator, M>; })
      forms = {next.as_operator(false), next.as_operator(true)};
    append(std::move(forms));
    return *this;
  }

  std::size_t size() const { return child_count(); }
  const Module& operator[](std::size_t i) const;
  /// The modules [begin, end), shared and under the same names. To load them from the state of the whole net, use
  /// `allow_unexpected`.
  Sequential part(std::size_t begin, std::size_t end) const;
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return "Sequential"; }

  /// Whether a layer before module i may compute it in its own kernel: an activation, or a pool of 2 x 2.
  bool joins_behind(std::size_t i) const;

 private:
  /// What a child is in evaluation and in training; none where its forward is no single operator.
  using OperatorForms = std::vector<AsOperator>;
  struct Group;

  void append(OperatorForms forms);
  std::shared_ptr<const std::vector<Group>> grouped() const;

  std::vector<OperatorForms> forms_;  // of the children that this handle knows
  std::shared_ptr<const std::vector<Group>> groups_;
};

}  // namespace tern::nn
