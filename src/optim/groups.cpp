#include "tern/optim/groups.hpp"

#include <algorithm>

namespace tern::optim {

Groups::Groups() : Optimizer("Groups") {}

Groups& Groups::add(std::unique_ptr<Optimizer> group) {
  expects(group != nullptr, "Groups: a group is null");
  take_over(*group);
  rates_.push_back(group->learning_rate());
  group->set_learning_rate(rates_.back() * learning_rate());
  groups_.push_back(std::move(group));
  return *this;
}

void Groups::step() {
  for (const auto& group : groups_) group->step();
}

bool Groups::conditional() const {
  return std::ranges::all_of(groups_, [](const auto& group) { return group->conditional(); });
}

void Groups::step_if(const Tensor& applies) {
  for (const auto& group : groups_) group->step_if(applies);
}

void Groups::apply_learning_rate(double rate) {
  Optimizer::apply_learning_rate(rate);
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i]->set_learning_rate(rates_[i] * rate);
}

std::vector<Step::Change> Groups::rate_changes(const std::vector<double>& rates) const {
  std::vector<Step::Change> changes;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    std::vector<double> own;
    for (const double rate : rates) own.push_back(rates_[i] * rate);
    for (Step::Change& change : groups_[i]->rate_changes(own)) changes.push_back(std::move(change));
  }
  return changes;
}

nn::State Groups::state() const {
  nn::State state{{"learning_rate", scalar(learning_rate())}};
  for (std::size_t i = 0; i < groups_.size(); ++i)
    for (const auto& [name, tensor] : groups_[i]->state()) state.emplace(message("group", i, '.', name), tensor);
  return state;
}

void Groups::load_state(const nn::State& state) {
  std::vector<nn::State> parts(groups_.size());
  Tensor rate;
  for (const auto& [name, tensor] : state) {
    bool known = name == "learning_rate";
    if (known) rate = tensor;
    for (std::size_t i = 0; i < groups_.size() && !known; ++i)
      if (const std::string prefix = message("group", i, '.'); name.starts_with(prefix)) {
        parts[i].emplace(name.substr(prefix.size()), tensor);
        known = true;
      }
    expects(known, "load_state: the state does not fit these ", groups_.size(), " groups: unexpected: ", name);
  }
  expects(rate.defined() && rate.numel() == 1, "load_state: the state has no learning_rate of these groups");
  // The groups' rates are restored as saved: some may have been set independently of the factor.
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i]->load_state(parts[i]);
  Optimizer::apply_learning_rate(rate.item());
}

Tensor Groups::owner_of(const std::string& entry) const {
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (const std::string prefix = message("group", i, '.'); entry.starts_with(prefix))
      return groups_[i]->owner_of(entry.substr(prefix.size()));
  return {};
}

std::string Groups::describe() const {
  std::string all = "Groups";
  for (std::size_t i = 0; i < groups_.size(); ++i)
    all += message(i == 0 ? ": " : "; ", groups_[i]->describe(), ", rate ", rates_[i]);
  return all;
}

}  // namespace tern::optim
