#pragma once

#include <concepts>

#include "tern/nn/module.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::nn {

/// Returns x itself.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) const override { return x; }
  std::string describe() const override { return "Identity()"; }
};

/// body(x) + x, or body(x) + shortcut(x): the children are named "body" and "shortcut".
class Residual : public Module {
 public:
  template <std::derived_from<Module> Body>
  explicit Residual(const Body& body) requires(!std::same_as<Body, Residual>) {
    add_child("body", std::make_shared<Body>(body));
  }
  template <std::derived_from<Module> Body, std::derived_from<Module> Shortcut>
  Residual(const Body& body, const Shortcut& shortcut) {
    add_child("body", std::make_shared<Body>(body));
    add_child("shortcut", std::make_shared<Shortcut>(shortcut));
  }
  Tensor forward(const Tensor& x) const override { return child(0)(x) + (child_count() > 1 ? child(1)(x) : x); }
  std::string describe() const override { return "Residual"; }
};

}  // namespace tern::nn
