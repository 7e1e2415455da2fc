#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"
#include "tern/tensor/create.hpp"

namespace tern {

/// One run of the function of a Step: what it depends on, and what it leaves behind. Listens to the calling thread
/// while it lives.
class Recording final : public Observer {
 public:
  enum class Part : std::uint8_t {
    input,     ///< holds an input of the function
    gradient,  ///< held the gradient of a leaf before the run
    counter,   ///< where a replay finds the position of a generator
    outside,   ///< lived before the run
    made       ///< by the run
  };
  struct Used {
    std::weak_ptr<Storage> storage;
    Part part = Part::outside;
    std::uint64_t name = 0;  // the same in every run that does the same
    bool written = false;
  };
  struct Gradient {
    Tensor leaf;
    int input;      ///< the input that the leaf is; -1: none
    Tensor before;  ///< as the run found it
    bool looked;    ///< the run looked at it before it replaced it
  };
  struct Random {
    Generator* generator;
    std::weak_ptr<const void> life;
    bool of_thread;  ///< the default generator of the thread
    std::uint64_t seed, start;
    std::uint64_t next;  ///< where the next draw must find it, had no part of a batch set it back
    Tensor counter;      ///< one int64 in the mode's memory: the position at which a replay starts; undefined: none
  };
  struct Switch {
    std::shared_ptr<const bool> on;
    bool value;
  };

  /// `captures`: the work is being recorded, not run.
  Recording(const Mode& mode, const std::vector<Tensor>& inputs, bool captures);
  ~Recording() override;

  /// The run that this thread is in; null outside.
  static Recording* running();
  /// The same if its work is being recorded.
  static Recording* current() { return running() != nullptr && running()->captures_ ? running() : nullptr; }

  void uses(Storage& storage, Memory& memory, bool reads, bool writes) override;
  void gradient(const Tensor& tensor, bool replaced) override;
  void draws(Generator& generator) override;
  void depends(const std::shared_ptr<const bool>& on) override;
  void begin_move(const Move& move) override;
  /// Relative to the counter where there is one.
  bool draw(Generator& generator, random::Key& key) override;
  const Capture* captures() const noexcept override { return captures_ ? capture_ : nullptr; }

  /// Says which part a storage has before the run uses it.
  void name(const Tensor& tensor, Part part, std::uint64_t number);
  /// A generator that the run is going to draw from, and its counter.
  void expect(Generator& generator, Tensor counter);
  /// What has to be done on the host if what the run queued never happens.
  void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }

  /// Forgets the leaves that the run made itself and nobody else holds.
  void drop_inner_leaves();
  /// Throws Error when a replay could not do on the host what the run did there.
  void check_generators() const;
  /// Gradients and generators as they were before the run.
  void restore();
  /// What on_failure was given.
  std::vector<std::function<void()>> take_undo() { return std::exchange(undo_, {}); }

  /// What the run made and somebody still holds, but for `known`.
  std::int64_t kept(const std::vector<const Storage*>& known) const;

  std::unordered_map<const Storage*, Used> used;
  std::vector<Gradient> gradients;
  std::vector<Random> random;
  std::vector<Switch> switches;
  std::vector<std::uint64_t> order;  ///< everything that was said, in order: the same for runs that do the same

 private:
  Used& find(Storage& storage);
  Random& find(Generator& generator);

  Memory* memory_;
  const Capture* capture_;
  const std::vector<Tensor>* inputs_;
  bool captures_;
  bool for_operator_ = false;  // a draw goes to an operator, which takes a counter
  std::uint64_t made_ = 0;
  std::vector<std::weak_ptr<Storage>> elsewhere_;  // made by the run in another memory
  std::vector<std::function<void()>> undo_;
};

}  // namespace tern
