#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run/recording.hpp"
#include "tern/run/step.hpp"

namespace tern {

using StepFunction = Step::Function;

/// The results of a Step have no graph, because a replay makes none.
inline std::vector<Tensor> cut(std::vector<Tensor> results) {
  for (Tensor& result : results)
    if (result.defined() && result.requires_grad()) result = result.detach();
  return results;
}

/// Copies between views of the same strides. In a dimension of stride 0, one element stands for all.
void copy_view(Tensor to, Tensor from);

/// The properties of a call that determine which work is queued. What a run depends on besides (switches, gradients,
/// generators) is known only after the first run: Plan::fits compares it.
struct StepKey {
  struct Input {
    DType dtype = DType::float32;
    Shape shape, strides;
    bool requires_grad = false;
    std::size_t same_tensor = 0;   ///< the first input that is this tensor
    std::size_t same_storage = 0;  ///< the first input that shares its elements
    bool operator==(const Input&) const = default;
  };
  const Mode* mode = nullptr;
  int threads = 0;
  Precision precision = Precision::strict;
  bool deterministic = true;
  bool records_gradients = true;
  std::string algorithms;  // that are forced
  std::vector<Input> inputs;

  StepKey(const Scope& scope, const std::vector<Tensor>& tensors);
  bool operator==(const StepKey&) const = default;
};

/// The inputs and results of the steps of a loop.
struct StepLoop {
  const std::vector<Tensor>& inputs;  ///< one row per step
  const std::vector<Step::Change>& changes;
  std::int64_t count;   ///< number of steps
  Tensor results = {};  ///< one row per step; undefined before the first one, and if there are none

  std::vector<Tensor> rows(std::int64_t step) const;
  void keep(std::int64_t step, const Tensor& result);
};

/// The work of one key: run until two consecutive runs do the same, then recorded, then replayed.
class Plan {
 public:
  explicit Plan(StepKey key) : key_(std::move(key)) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { forget(); }

  const StepKey& key() const { return key_; }
  /// Whether a call would do what this plan's runs did.
  bool fits(const StepKey& key, const std::vector<Tensor>& inputs) const;
  /// Whether no call can ever fit: a leaf, a generator or a switch of the runs is gone.
  bool gone() const;
  std::vector<Tensor> call(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope);
  /// Replays the recording for the rows of `loop` from `first` on, as one launch. Returns false, with nothing changed,
  /// if there is no recording yet or the steps must be called one by one.
  bool call_loop(StepLoop& loop, std::int64_t first, Scope& scope);

  /// Why the last call ran the function; empty if nothing prevents a recording.
  const std::string& reason() const { return overlap_.empty() ? reason_ : overlap_; }
  /// How many steps of the last call were replays.
  std::int64_t replayed() const { return replayed_; }

 private:
  enum class Source : std::uint8_t { none, input, gradient, outside, made };
  // A tensor that a replay returns: a view of the storage that `source` names.
  struct View {
    Source source = Source::none;
    std::size_t index = 0;             // of the input, gradient or created storage
    std::shared_ptr<Storage> outside;  // itself
    DType dtype = DType::float32;
    Shape shape, strides;
    std::int64_t offset = 0;
    Tensor handle;  // what the recording created; returned again once no other handle exists
  };
  struct Input {
    Tensor recorded;                          // what the recording reads
    bool written = false;                     // by the recording
    std::weak_ptr<Storage> copied_from = {};  // weak: a new tensor may have the address of an expired one
    std::uint64_t copied_version = 0;
    std::int64_t copied_offset = 0;
  };
  // A leaf's gradient is copied into and out of the recording, like inputs and the result.
  struct Gradient {
    Tensor leaf;     // undefined: an input
    int input = -1;  // the input that the leaf is
    bool looked = false;
    Tensor recorded;  // the recording's copy of the previous gradient; undefined: there was none
    bool written = false;
    bool replaced = false;
    View after;
  };
  struct Outside {
    std::shared_ptr<Storage> storage;
    const void* pointer;  // where the recording expects it
    bool written;
    std::uint32_t roles;  // Storage::roles: whether its tensors require gradients
  };
  struct Made {
    std::shared_ptr<Storage> storage;
    std::vector<std::size_t> results = {};    // the results that are views of it
    std::vector<std::size_t> gradients = {};  // the gradients that are views of it
    bool copied = false;                      // a copy is returned:
    std::shared_ptr<Storage> copy = {};       // this one, in this call
  };
  struct Random {
    Generator* generator;
    std::uint64_t seed;
    Tensor counter;
    std::uint64_t consumed;
  };

  std::vector<Tensor> run(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope);
  bool record(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope);
  void capture(const StepFunction& function, Recording& run, const std::vector<Tensor>& recorded, Scope& scope);
  bool repeats(const Recording& run) const;
  void remember(Recording& run);
  void keep(Recording& run, const std::vector<Tensor>& results, const Scope& scope);
  View view_of(const Tensor& tensor, const Recording& run);

  bool held(const std::vector<Tensor>& inputs);
  bool overlaps(const std::vector<Tensor>& inputs) const;
  bool prepare(const std::vector<Tensor>& inputs, Scope& scope);
  std::vector<Tensor> replay(const std::vector<Tensor>& inputs, Scope& scope);
  void launch(const std::function<void()>& queue, std::int64_t times);
  void bring_back(const std::vector<Tensor>& inputs, Scope& scope);
  bool can_loop(const StepLoop& loop) const;
  Tensor hand_out(View& view, const std::vector<Tensor>& inputs);
  static const Tensor& leaf_of(const Gradient& gradient, const std::vector<Tensor>& inputs) {
    return gradient.input >= 0 ? inputs[static_cast<std::size_t>(gradient.input)] : gradient.leaf;
  }
  void forget();
  void restless(const char* reason);
  bool in_all_ranks(bool own) const;

  StepKey key_;
  std::string reason_;   // why every call runs the function
  std::string overlap_;  // why the last call did
  int restless_ = 0;     // consecutive runs that differed, and recordings that were replayed once

  // Of the last run.
  bool ran_ = false;
  std::vector<std::weak_ptr<Storage>> known_;
  std::vector<std::uint64_t> order_;
  struct KnownGradient {
    Tensor leaf;     // undefined: an input
    int input = -1;  // the input that the leaf is
    bool looked, defined;
    Shape strides;
  };
  std::vector<KnownGradient> known_gradients_;
  struct KnownRandom {
    Generator* generator;
    std::weak_ptr<const void> life;
    bool of_thread;
  };
  std::vector<KnownRandom> known_random_;
  std::vector<Recording::Switch> switches_;
  std::vector<Recording::Ranks> ranks_;

  // Of the recording.
  void* recording_ = nullptr;
  std::int64_t served_ = 0;  // calls
  std::int64_t replayed_ = 0;
  bool settled_ = false;  // it did the same as the previous run, in all ranks
  bool agreed_ = false;   // the ranks have agreed to replay
  bool copies_results_ = false, copies_gradients_ = false;
  std::vector<Input> inputs_;
  std::vector<Gradient> gradients_;
  std::vector<Outside> outside_;
  std::vector<std::pair<const Storage*, bool>> outside_sorted_;  // and whether the recording writes it
  std::vector<Made> made_;
  std::vector<Random> random_;
  std::vector<View> results_;
  std::vector<std::function<void()>> undo_;  // undoes the function's work on the host, until the recording is replayed
};

}  // namespace tern
