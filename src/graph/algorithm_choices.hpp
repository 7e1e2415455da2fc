#pragma once
// Which algorithms the kernels of a run took, to make another run of the same kernels take them again.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tern/kernels/algorithms.hpp"

namespace tern::graph {

/// Of the launches of a part of a program, by their number. A thread works on one at a time.
class AlgorithmChoices {
 public:
  /// While it lives, kernels of the context report to `choices`, or take what they say.
  class Use {
   public:
    Use(AlgorithmChoices& choices, Context& context);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    Context& context_;
    const Algorithms* const algorithms_;
    AlgorithmChoices* const outer_;
  };

  /// The launches that follow are noted, or repeat the noted ones from the first on, or neither.
  enum class State : std::uint8_t { idle, notes, repeats };
  void begin(State state) {
    state_ = state;
    next_ = 0;
    wanted_ = nullptr;
  }
  /// Ends the part; false if it had other launches than the noted ones.
  bool end();
  /// A launch begins.
  void launch();
  /// The algorithm of the present launch; null: the kernel chooses.
  const char* wanted() const { return wanted_; }
  void want(const char* algorithm) { wanted_ = algorithm; }
  /// Whether a kernel took another algorithm than the wanted one since the last call: it could not handle the numbers.
  bool missed() { return std::exchange(missed_, false); }

 private:
  static const char* forced(const char* decision);
  static void took(const char* decision, const char* algorithm) noexcept;

  std::vector<const char*> noted_;
  std::size_t next_ = 0;
  State state_ = State::idle;
  const char* wanted_ = nullptr;
  bool missed_ = false;
  const Algorithms* outside_ = nullptr;
};

}  // namespace tern::graph
