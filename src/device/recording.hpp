#pragma once

#include <unordered_map>

#include "tern/core/create.hpp"

namespace tern {

/// What a Step learns while its function runs: the storages that its device work touches, and the random streams it
/// draws.
class Recording final : public AccessListener {
 public:
  struct Touched {
    std::weak_ptr<Storage> storage;
    bool written = false;
  };
  struct Random {
    std::uint64_t start = 0;  ///< the generator's position when recording began
    Tensor base;              ///< one int64 in the mode's memory: the position at which the replay starts
  };

  /// Listens to the calling thread while it lives. `captures`: the work is being recorded, not run.
  explicit Recording(bool captures);
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The recording that captures on this thread; null when work just runs.
  static Recording* current();

  void accessed(Storage& storage, bool written) override;
  /// The key of a stream just drawn from `generator`, made relative to a counter in the mode's memory.
  random::Key rebase(Generator& generator, const random::Key& key);
  /// Provides the counter of `generator`, uploaded before recording began.
  void provide(Generator& generator, Tensor base);

  std::unordered_map<Storage*, Touched> touched;
  std::unordered_map<Generator*, Random> random;

 private:
  Recording* outer_;
  bool captures_;
};

/// The key that a drawing operator passes to its kernel.
random::Key draw(Generator& generator);

}  // namespace tern
