#include "tern/nn/sequential.hpp"

#include <array>

#include "nn/call_log.hpp"
#include "operators/fusion.hpp"

namespace tern::nn {

/// Neighbours that one kernel computes.
struct Sequential::Group {
  std::size_t begin = 0, end = 0;               ///< of the children
  std::array<operators::OpForm, 2> forms = {};  ///< in evaluation and in training; none of a group of one
  bool by_training = false;                     ///< whether these differ
  AsOperator first = {};
};

namespace {

/// The operator of several modules in a row, and how many they are.
struct Joined {
  AsOperator layer;
  std::size_t count = 1;
};

/// `state`: 0 in evaluation, 1 in training.
std::optional<Joined> joined(const std::vector<std::vector<AsOperator>>& forms, std::size_t begin, std::size_t state) {
  if (forms[begin].empty()) return {};
  Joined result{forms[begin][state]};
  for (std::size_t i = begin + 1; i < forms.size() && !forms[i].empty(); ++i, ++result.count) {
    const AsOperator& next = forms[i][state];
    if (!next.tensors.empty()) break;
    std::optional<operators::Fused> both = operators::fused(result.layer.form, next.form, 0);
    if (!both || !both->exact) break;
    result.layer.form = std::move(both->form);
  }
  return result;
}

}  // namespace

bool Sequential::joins_behind(std::size_t i) const {
  if (i >= forms_.size() || forms_[i].empty()) return false;
  const AsOperator& layer = forms_[i][0];
  return layer.tensors.empty() && operators::fuses_behind(layer.form);
}

void Sequential::append(OperatorForms forms) {
  forms_.resize(size() - 1);  // another handle may have added more
  forms_.push_back(std::move(forms));
  groups_ = grouped();
}

const Module& Sequential::operator[](std::size_t i) const {
  expects(i < size(), "Sequential: module ", i, " of ", size());
  return child(i);
}

Sequential Sequential::part(std::size_t begin, std::size_t end) const {
  expects<ShapeError>(begin <= end && end <= size(), "Sequential: modules [", begin, ", ", end, ") of ", size());
  Sequential some;
  some.add_children(*this, begin, end);
  some.train(training());
  for (std::size_t i = begin; i < end && i < forms_.size(); ++i) some.forms_.push_back(forms_[i]);
  some.groups_ = some.grouped();
  return some;
}

std::shared_ptr<const std::vector<Sequential::Group>> Sequential::grouped() const {
  std::vector<OperatorForms> forms = forms_;
  forms.resize(size());
  std::vector<Group> groups;
  for (std::size_t i = 0; i < size();) {
    Group group{.begin = i, .end = i + 1};
    std::optional<Joined> evaluates = joined(forms, i, 0), trains = joined(forms, i, 1);
    if (evaluates && trains && evaluates->count == trains->count && evaluates->count > 1) {
      group.end = i + evaluates->count;
      const auto text = [](const operators::OpForm& form) { return form.op->write(form.attributes); };
      group.by_training = text(evaluates->layer.form) != text(trains->layer.form);
      group.forms = {std::move(evaluates->layer.form), std::move(trains->layer.form)};
      group.first = std::move(evaluates->layer);
    }
    i = group.end;
    groups.push_back(std::move(group));
  }
  return std::make_shared<const std::vector<Group>>(std::move(groups));
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  if (one_by_one()) {
    for (std::size_t i = 0; i < size(); ++i) y = child(i)(y);
    return y;
  }
  // Another handle of this module may have got more children.
  const bool current = groups_ != nullptr && !groups_->empty() && groups_->back().end == size();
  const std::shared_ptr<const std::vector<Group>> groups = current ? groups_ : grouped();
  for (const Group& group : *groups) {
    const Module& module = child(group.begin);
    if (group.end == group.begin + 1) {
      y = module(y);
      continue;
    }
    y = module.run([&] {
      if (group.first.check) group.first.check(y);
      const operators::OpForm& form = group.forms[group.by_training && module.training() ? 1 : 0];
      std::vector<Tensor> inputs{y};
      inputs.insert(inputs.end(), group.first.tensors.begin(), group.first.tensors.end());
      return std::move(form.op->run(inputs, form.attributes)[0]);
    });
  }
  return y;
}

}  // namespace tern::nn
