#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "modes/aside.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"
#include "tern/tensor/create.hpp"

namespace tern {

/// One run of a Step's function: what it depends on, and what it leaves behind. Observes the calling thread during its
/// lifetime.
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
    std::uint64_t name = 0;  // the same in all runs that do the same
    bool written = false;
    bool changed = false;  // written, but not by work ahead
  };
  struct Gradient {
    Tensor leaf;
    int input;      ///< the input that the leaf is; -1: none
    Tensor before;  ///< as it was before the run
    bool looked;    ///< the run read it before replacing it
  };
  struct Random {
    Generator* generator;
    std::weak_ptr<const void> life;
    bool of_thread;  ///< the default generator of the thread
    std::uint64_t seed, start;
    std::uint64_t next;  ///< where the next draw would start if no shard of a batch had set it back
    Tensor counter;      ///< one int64 in the mode's memory: the position where a replay starts; undefined: none
  };
  struct Switch {
    std::shared_ptr<const bool> on;
    bool value;
  };
  /// Ranks that exchange messages on the host unless they replay their step: either all of them replay it, or none.
  struct Ranks {
    const void* group;
    std::function<bool(bool)> all;  ///< whether something is true in all of them; every rank calls it
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
  /// Relative to the counter if there is one.
  bool draw(Generator& generator, random::Key& key) override;
  const Capture* captures() const noexcept override { return captures_ ? capture_ : nullptr; }
  bool has_written(const Storage& storage) const noexcept override;

  /// Names the role of a storage before the run uses it.
  void name(const Tensor& tensor, Part part, std::uint64_t number);
  /// A generator that the run will draw from, and its counter.
  void expect(Generator& generator, Tensor counter);
  /// Makes the run's replay a decision of these ranks.
  void joins(Ranks group);
  /// Registers an undo on the host in case the queued work never happens.
  void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }

  /// Drops the leaves that the run created itself and that have no other handle.
  void drop_inner_leaves();
  /// Throws Error if a replay could not repeat on the host what the run did there.
  void check_generators() const;
  /// Restores gradients and generators to their state before the run.
  void restore();
  /// The functions registered with on_failure.
  std::vector<std::function<void()>> take_undo() { return std::exchange(undo_, {}); }

  /// The number of tensors that the run created and that still have handles, except `known`.
  std::int64_t kept(const std::vector<const Storage*>& known) const;

  std::unordered_map<const Storage*, Used> used;
  std::vector<Gradient> gradients;
  std::vector<Random> random;
  std::vector<Switch> switches;
  std::vector<Ranks> ranks;
  std::vector<std::uint64_t> order;  ///< every event in order: equal for runs that do the same

 private:
  Used& find(Storage& storage);
  Random& find(Generator& generator);

  Memory* memory_;
  const Capture* capture_;
  const std::vector<Tensor>* inputs_;
  bool captures_;
  std::optional<Marks> marks_;  // if the work is being recorded
  bool for_operator_ = false;   // a draw goes to an operator that accepts a counter
  std::uint64_t made_ = 0;
  std::vector<std::weak_ptr<Storage>> elsewhere_;  // created by the run in another memory
  std::vector<std::function<void()>> undo_;
};

}  // namespace tern
