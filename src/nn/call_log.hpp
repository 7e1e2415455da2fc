#pragma once

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Hears of every module call of its thread while it lives, after the call. Sequential does not fuse meanwhile.
class CallLog {
 public:
  CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  virtual ~CallLog();
  virtual void called(const Module& module, const Tensor& x, const Tensor& y) = 0;

 private:
  CallLog* outer_;
};

/// The innermost one of the calling thread, or null.
CallLog* call_log();

}  // namespace tern::nn
