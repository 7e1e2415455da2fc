#pragma once

#include <memory>

namespace tern {

class Generator;
class Memory;
class Storage;
class Tensor;

namespace detail {

/// Hears what the calling thread's work depends on, while the function of a Step runs that may be recorded. Whatever
/// a function reads on the host, and a replay does not read again, has to be said here.
class Listener {
 public:
  virtual ~Listener() = default;
  /// The storage is about to be used in `memory`.
  virtual void uses(Storage& storage, Memory& memory, bool reads, bool writes) = 0;
  /// The gradient of the tensor is about to be looked at, or to be replaced.
  virtual void gradient(const Tensor& tensor, bool replaced) = 0;
  /// The generator is about to hand out a stream.
  virtual void draws(Generator& generator) = 0;
  /// What is queued depends on a switch on the host.
  virtual void depends(std::shared_ptr<const bool> on) = 0;
};

extern constinit thread_local Listener* listener;  // null: nobody listens

}  // namespace detail
}  // namespace tern
