#pragma once

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Hears of every module call of its thread while it lives, after the call. Sequential does not fuse meanwhile.
class Observer {
 public:
  Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer();
  virtual void called(const Module& module, const Tensor& x, const Tensor& y) = 0;

 private:
  Observer* outer_;
};

/// The innermost one of the calling thread, or null.
Observer* observer();

}  // namespace tern::nn
