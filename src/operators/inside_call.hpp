#pragma once

#include "tern/operators/op.hpp"

namespace tern::operators {

/// A public operator is being executed, to the end of the block: what it calls in turn is part of it.
class [[nodiscard]] InsideCall {
 public:
  explicit InsideCall(const OpCall& call) : outer_(std::exchange(detail::hearing, {nullptr, &call, false})) {}
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;
  ~InsideCall() {
    detail::hearing = outer_;
    detail::update_hearing();
  }

 private:
  detail::Hearing outer_;
};

}  // namespace tern::operators
