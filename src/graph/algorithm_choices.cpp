#include "graph/algorithm_choices.hpp"

#include <string_view>
#include <utility>

namespace tern::graph {

namespace {

constinit thread_local AlgorithmChoices* present = nullptr;

bool watched(const Algorithms* outside) {
  return outside != nullptr && outside->watched.load(std::memory_order_relaxed) != 0;
}

}  // namespace

AlgorithmChoices::Use::Use(AlgorithmChoices& choices, Context& context)
    : context_(context), algorithms_(context.algorithms), outer_(std::exchange(present, &choices)) {
  static const Algorithms algorithms{.watched{1}, .forced = forced, .took = took};
  choices.outside_ = context.algorithms;
  context.algorithms = &algorithms;
}
AlgorithmChoices::Use::~Use() {
  context_.algorithms = algorithms_;
  present = outer_;
}

void AlgorithmChoices::launch() {
  wanted_ = state_ == State::repeats && next_ < noted_.size() ? noted_[next_] : nullptr;
  if (state_ == State::notes) noted_.push_back(nullptr);
  ++next_;
}

bool AlgorithmChoices::end() {
  state_ = State::idle;
  wanted_ = nullptr;
  return next_ == noted_.size();
}

const char* AlgorithmChoices::forced(const char* decision) {
  if (present->wanted_ != nullptr) return present->wanted_;
  return watched(present->outside_) ? present->outside_->forced(decision) : nullptr;
}

void AlgorithmChoices::took(const char* decision, const char* algorithm) noexcept {
  if (present->state_ == State::notes && !present->noted_.empty() && present->noted_.back() == nullptr)
    present->noted_.back() = algorithm;
  if (present->wanted_ != nullptr && std::string_view(present->wanted_) != algorithm) present->missed_ = true;
  if (watched(present->outside_)) present->outside_->took(decision, algorithm);
}

}  // namespace tern::graph
