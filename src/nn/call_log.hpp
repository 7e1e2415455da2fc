#pragma once

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Called before and after every module call of its thread during its lifetime. Sequential does not fuse meanwhile.
class CallLog {
 public:
  CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  virtual ~CallLog();
  virtual void calls(const Module& module) = 0;
  virtual void called(const Module& module, const Tensor& x, const Tensor& y) = 0;

 private:
  CallLog* outer_;
};

/// The innermost one of the calling thread, or null.
CallLog* call_log();

/// Whether somebody wants every call of the thread by itself: a log, or a graph that is traced.
bool one_by_one();

}  // namespace tern::nn
