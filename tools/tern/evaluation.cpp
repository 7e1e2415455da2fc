#include "evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include "names.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/parallel/shares.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"
#include "training.hpp"

namespace tern::tool {

namespace {

/// Wraps a source and records which of its examples it left out.
class Watched final : public data::ExampleSource {
 public:
  explicit Watched(std::shared_ptr<const data::ExampleSource> source) : source_(std::move(source)) {}
  std::int64_t size() const override { return source_->size(); }
  std::int64_t classes() const override { return source_->classes(); }
  Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  std::string name() const override { return source_->name(); }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override {
    const auto found = source_->read(index, draw, to);
    if (found) return found;
    const std::lock_guard lock(noting_);
    left_out_.insert(index);
    return found;
  }
  std::vector<std::int64_t> left_out() const { return {left_out_.begin(), left_out_.end()}; }

 private:
  std::shared_ptr<const data::ExampleSource> source_;
  mutable std::mutex noting_;
  mutable std::set<std::int64_t> left_out_;
};

void expect_number(float value, std::int64_t row) {
  expects<NumericError>(!std::isnan(value), "the model's output for example ", row + 1, " is not a number");
}

// float32 [n, 1] in the target's unit.
void append_values(std::vector<double>& to, const Tensor& standardised, const data::Scaling& scaling) {
  for (const float value : standardised.to_vector<float>())
    to.push_back(static_cast<double>(value) * scaling.deviation[0] + scaling.mean[0]);
}

// The values of all ranks, in rank order.
template <class T>
std::vector<T> joined(const parallel::Group& group, std::vector<T> own) {
  if (group.size() == 1) return own;
  const auto count = static_cast<std::int64_t>(own.size());
  const auto counts = group.all_gather(tensor<std::int64_t>({count}, {1})).template to_vector<std::int64_t>();
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return own;
  own.resize(static_cast<std::size_t>(most));
  const std::vector<T> all = group.all_gather(tensor(own, {most})).template to_vector<T>();
  own.clear();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank) * most;
    own.insert(own.end(), first, first + counts[rank]);
  }
  return own;
}

// Each rank has seen the files of its own part, and perhaps some that were read ahead.
std::vector<std::string> joined_files(const parallel::Group& group, const std::vector<std::string>& own) {
  if (group.size() == 1) return own;
  std::string ended;  // by a byte that no name holds; a name need not be UTF-8
  for (const std::string& file : own) ended += file + '\0';
  std::set<std::string> files;
  for (const std::string& text : group.all_gather(ended))
    for (std::size_t begin = 0, end = 0; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
      files.insert(text.substr(begin, end - begin));
  return {files.begin(), files.end()};
}

void join(Prediction& result, const parallel::Group& group) {
  result.scores = joined(group, std::move(result.scores));
  result.actual = joined(group, std::move(result.actual));
  result.values = joined(group, std::move(result.values));
  result.truths = joined(group, std::move(result.truths));
}

}  // namespace

Prediction predict(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                   const parallel::Group& group) {
  const NoGrad no_grad;
  net.eval();
  Prediction result{.classes = blueprint.class_count(), .probabilities = blueprint.cost == "cross-entropy"};
  const auto width = static_cast<std::size_t>(result.classes);
  const Cost cost_of(blueprint.cost, blueprint.class_weights);
  std::vector<double> costs;  // of each batch, times its rows
  Examples watched = examples;
  const auto watch = examples.source ? std::make_shared<const Watched>(examples.source) : nullptr;
  if (watch) watched.source = watch;
  const std::int64_t size = evaluation_batch(blueprint), batches = (examples.size() + size - 1) / size;
  const auto use = [&](const Tensor& x, const Tensor& labels) {
    const Tensor logits = net(x);
    if (labels.defined()) costs.push_back(cost_of(logits, labels).item() * static_cast<double>(labels.numel()));
    if (blueprint.regression) {
      append_values(result.values, logits, blueprint.target_scaling);
      if (labels.defined()) append_values(result.truths, labels, blueprint.target_scaling);
      return true;
    }
    if (labels.defined()) {
      for (const std::int64_t label : labels.to_vector<std::int64_t>()) result.actual.push_back(label);
    }
    const auto part = scores_of(blueprint.cost, logits).to_vector<float>();
    result.scores.insert(result.scores.end(), part.begin(), part.end());
    return true;
  };
  for_each_batch(watched, blueprint, size, use, parallel::share_of(group, batches));
  join(result, group);
  costs = joined(group, std::move(costs));
  const double cost = std::accumulate(costs.begin(), costs.end(), 0.0);
  const std::size_t count = blueprint.regression ? result.values.size() : result.scores.size() / width;
  if (watch) {
    const std::vector<std::int64_t> missing = joined(group, watch->left_out());
    const std::set<std::int64_t> left_out(missing.begin(), missing.end());
    for (std::int64_t i = 0; i < watch->size(); ++i)
      if (!left_out.contains(i)) result.rows.push_back(i);
  }
  if (examples.folder) result.unreadable = joined_files(group, examples.folder->corrupt_files());
  for (std::size_t row = 0; !watch && row < count; ++row)
    result.rows.push_back(examples.row(static_cast<std::int64_t>(row)));
  for (std::size_t row = 0; row < result.values.size(); ++row)
    expect_number(static_cast<float>(result.values[row]), result.rows[row]);
  for (std::size_t row = 0; row < count && !blueprint.regression; ++row) {
    const auto first = result.scores.begin() + static_cast<std::ptrdiff_t>(row * width);
    for (auto score = first; score != first + static_cast<std::ptrdiff_t>(width); ++score)
      expect_number(*score, result.rows[row]);
    result.predicted.push_back(std::max_element(first, first + static_cast<std::ptrdiff_t>(width)) - first);
  }
  result.loss = count == 0 ? 0 : cost / static_cast<double>(count);
  return result;
}

Evaluation evaluate(const Prediction& prediction) {
  if (!prediction.values.empty())
    return {.examples = static_cast<std::int64_t>(prediction.truths.size()),
            .loss = prediction.loss,
            .regression = nn::regression(prediction.values, prediction.truths)};
  const std::vector<std::int64_t>& actual = prediction.actual;
  const auto classes = static_cast<std::size_t>(prediction.classes);
  std::vector<std::int64_t> counts(classes * classes);
  for (std::size_t i = 0; i < actual.size(); ++i)
    ++counts[static_cast<std::size_t>(actual[i]) * classes + static_cast<std::size_t>(prediction.predicted[i])];
  Evaluation result{.examples = static_cast<std::int64_t>(actual.size()), .loss = prediction.loss};
  result.confusion = tensor(counts, {prediction.classes, prediction.classes});
  result.figures = nn::classification(result.confusion);
  if (prediction.probabilities) result.calibration = nn::calibration(prediction.scores, actual, prediction.classes);
  if (classes == 2) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < actual.size(); ++i)
      scores.push_back(static_cast<double>(prediction.scores[2 * i + 1]) -
                       static_cast<double>(prediction.scores[2 * i]));
    const double auc = nn::roc_auc(scores, actual);
    if (!std::isnan(auc)) result.auc = auc;
  }
  return result;
}

// ---- forms
// -----------------------------------------------------------------------------------------------------------

namespace {

std::string figures_row(const std::string& name, const nn::ClassFigures& figures, std::size_t width) {
  return padded(name, width) + left_padded(fixed(figures.precision, 4), 11) + left_padded(fixed(figures.recall, 4), 9) +
         left_padded(fixed(figures.f1, 4), 9) + left_padded(std::to_string(figures.support), 10) + "\n";
}

std::string confusion_table(const Evaluation& evaluation, const std::vector<std::string>& classes, std::size_t width) {
  const std::vector<std::int64_t> counts = evaluation.confusion.to_vector<std::int64_t>();
  std::size_t cell = 5;
  for (const std::int64_t count : counts) cell = std::max(cell, std::to_string(count).size() + 1);
  for (const std::string& name : classes) cell = std::max(cell, std::min<std::size_t>(width_of(name), 12) + 1);
  std::string text = "\nConfusion (rows: true class, columns: predicted class)\n" + padded("", width);
  for (const std::string& name : classes) text += left_padded(shortened(name, 12), cell);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    text += "\n" + padded(shortened(classes[i], width), width);
    for (std::size_t j = 0; j < classes.size(); ++j) {
      const std::int64_t count = counts[i * classes.size() + j];
      text += left_padded(count == 0 ? "." : std::to_string(count), cell);
    }
  }
  return text + "\n";
}

// Empty bins are skipped.
std::string calibration_table(const nn::Calibration& calibration) {
  std::string text = message("Brier     ", fixed(calibration.brier, 4), "\nECE       ", fixed(calibration.error, 4),
                             "\n\nConfidence (predicted probability) and how often it is right\n",
                             "probability       mean    right  examples\n");
  const std::size_t count = calibration.bins.size();
  for (std::size_t i = 0; i < count; ++i) {
    const nn::CalibrationBin& bin = calibration.bins[i];
    if (bin.examples == 0) continue;
    text += padded(message(i * 100 / count, " to ", (i + 1) * 100 / count, " %"), 14) +
            left_padded(fixed(bin.confidence, 4), 8) + left_padded(fixed(bin.accuracy, 4), 9) +
            left_padded(std::to_string(bin.examples), 10) + "\n";
  }
  return text;
}

Json calibration_json(const nn::Calibration& calibration) {
  Json bins = Json::array();
  for (const nn::CalibrationBin& bin : calibration.bins)
    bins.push_back({{"confidence", bin.confidence}, {"accuracy", bin.accuracy}, {"examples", bin.examples}});
  return {{"expected_error", calibration.error}, {"brier", calibration.brier}, {"bins", bins}};
}

Json figures_json(const nn::ClassFigures& figures) {
  return {
      {"precision", figures.precision}, {"recall", figures.recall}, {"f1", figures.f1}, {"support", figures.support}};
}

}  // namespace

std::string as_table(const Evaluation& evaluation, const Blueprint& blueprint) {
  if (const auto& found = evaluation.regression)
    return message("R2    ", fixed(found->r2, 4), " of ", counted(evaluation.examples, "example"), "\nRMSE  ",
                   number_text(found->rmse), "\nMAE   ", number_text(found->mae), "\nloss  ", fixed(evaluation.loss, 4),
                   ", ", blueprint.cost, " of the standardised ", blueprint.target_name(), " (mean ",
                   number_text(blueprint.target_scaling.mean[0]), ", deviation ",
                   number_text(blueprint.target_scaling.deviation[0]), " in the training)\n");
  const std::vector<std::string>& classes = blueprint.classes;
  constexpr std::size_t most_shown = 20;
  std::size_t width = 16;
  for (const std::string& name : classes) width = std::max(width, std::min<std::size_t>(width_of(name), 30) + 1);
  std::string text = padded("class", width) + "  precision   recall       f1  examples\n";
  for (std::size_t i = 0; i < classes.size(); ++i)
    text += figures_row(shortened(classes[i], width - 1), evaluation.figures.classes[i], width);
  text += "\n" + figures_row("macro average", evaluation.figures.macro, width) +
          figures_row("weighted average", evaluation.figures.weighted, width);
  if (classes.size() <= most_shown) text += confusion_table(evaluation, classes, width);
  text += "\naccuracy  " + fixed(evaluation.figures.accuracy, 4) + " of " + std::to_string(evaluation.examples) +
          " examples\nloss      " + fixed(evaluation.loss, 4) + "\n";
  if (evaluation.auc)
    text += "ROC AUC   " + fixed(*evaluation.auc, 4) + " for " + classes[1] + " against " + classes[0] + "\n";
  if (evaluation.calibration) text += calibration_table(*evaluation.calibration);
  return text;
}

Json as_json(const Evaluation& evaluation, const Blueprint& blueprint) {
  if (const auto& found = evaluation.regression)
    return {{"examples", evaluation.examples},
            {"target", blueprint.target_name()},
            {"r2", std::isnan(found->r2) ? Json() : Json(found->r2)},
            {"rmse", found->rmse},
            {"mae", found->mae},
            {"loss", evaluation.loss}};
  const std::vector<std::string>& classes = blueprint.classes;
  Json per_class = Json::object(), confusion = Json::array();
  const std::vector<std::int64_t> counts = evaluation.confusion.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    per_class[classes[i]] = figures_json(evaluation.figures.classes[i]);
    const auto row = counts.begin() + static_cast<std::ptrdiff_t>(i * classes.size());
    confusion.push_back(std::vector<std::int64_t>(row, row + static_cast<std::ptrdiff_t>(classes.size())));
  }
  return {{"examples", evaluation.examples},
          {"accuracy", evaluation.figures.accuracy},
          {"loss", evaluation.loss},
          {"roc_auc", evaluation.auc ? Json(*evaluation.auc) : Json()},
          {"calibration", evaluation.calibration ? calibration_json(*evaluation.calibration) : Json()},
          {"macro", figures_json(evaluation.figures.macro)},
          {"weighted", figures_json(evaluation.figures.weighted)},
          {"classes", per_class},
          {"confusion", confusion}};
}

std::string as_csv(const Evaluation& evaluation, const Blueprint& blueprint) {
  if (const auto& found = evaluation.regression)
    return message("figure,value\nr2,", fixed(found->r2, 6), "\nrmse,", number_text(found->rmse), "\nmae,",
                   number_text(found->mae), "\nloss,", fixed(evaluation.loss, 6), "\nexamples,", evaluation.examples,
                   "\n");
  const std::vector<std::string>& classes = blueprint.classes;
  std::string text = "class,precision,recall,f1,examples\n";
  const auto add = [&](const std::string& name, const nn::ClassFigures& figures) {
    text += csv_field(name) + "," + fixed(figures.precision, 6) + "," + fixed(figures.recall, 6) + "," +
            fixed(figures.f1, 6) + "," + std::to_string(figures.support) + "\n";
  };
  for (std::size_t i = 0; i < classes.size(); ++i) add(classes[i], evaluation.figures.classes[i]);
  add("macro average", evaluation.figures.macro);
  add("weighted average", evaluation.figures.weighted);
  return text;
}

}  // namespace tern::tool
