#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "errors.hpp"
#include "init_columns.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "onnx_model.hpp"
#include "ranks.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/parallel/shares.hpp"

namespace tern::tool {

namespace {

constexpr std::int64_t most_groups = 256;
// Seconds that a signal or a progress bar may wait for steps in a loop.
constexpr double glance = 0.05;

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, const std::vector<Tensor>& parameters) {
  const double rate = *settings.learning_rate, decay = *settings.weight_decay;
  if (*settings.optimizer == "sgd")
    return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = rate,
                                                                      .momentum = *settings.momentum,
                                                                      .weight_decay = decay,
                                                                      .nesterov = settings.nesterov});
  if (*settings.optimizer == "adam")
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = rate, .weight_decay = decay});
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.learning_rate = rate, .weight_decay = decay});
}

Examples scaled(Examples examples, const Blueprint& blueprint) {
  if (examples.memory.images.defined()) examples.memory.images = scaled(examples.memory.images, blueprint);
  return examples;
}

// For the classes of the training examples: their mean over these is 1, so that a learning rate keeps its meaning.
std::vector<double> class_weights(const Settings& settings, const TrainingData& data) {
  if (settings.class_weights.empty()) return {};
  const std::vector<std::string>& classes = data.blueprint.classes;
  expects<UsageError>(!data.blueprint.regression, "--class-weights: the target is a number, not classes");
  expects<UsageError>(settings.cost == "cross-entropy", "--class-weights are for --cost cross-entropy, not for ",
                      *settings.cost);
  std::vector<double> weights = parse_class_weights(settings.class_weights);
  const bool balanced = weights.empty();
  if (!balanced && weights.size() != classes.size()) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(classes.size(), 10); ++i)
      names += (i == 0 ? "" : ", ") + classes[i];
    throw UsageError(message("--class-weights has ", weights.size(), " numbers, but there are ", classes.size(),
                             " classes: ", names, classes.size() > 10 ? ", ..." : ""));
  }
  std::vector<double> examples(classes.size());
  for (const std::int64_t label : data.train.labels()) ++examples[static_cast<std::size_t>(label)];
  weights.resize(classes.size(), 1);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (balanced && examples[i] > 0) weights[i] = 1 / examples[i];
    sum += weights[i] * examples[i];
    count += examples[i];
  }
  // A balanced class without examples has no weight.
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = balanced && examples[i] == 0 ? 1 : weights[i] * count / sum;
  return weights;
}

Blueprint with_net(const Settings& settings, const TrainingData& data) {
  Blueprint blueprint = data.blueprint;
  choose_net(blueprint, settings);
  blueprint.class_weights = class_weights(settings, data);
  expects<UsageError>(blueprint.class_weights.empty() || !has_own_loss(blueprint), "--class-weights: --net ",
                      blueprint.net, " has its own loss, which takes no class weights");
  return blueprint;
}

// The fewer the classes, the less information is in a label, and the sooner rows are memorised. A number has much.
double table_dropout(const TrainingData& data) {
  if (data.blueprint.regression) return 0.1;
  return 1 / static_cast<double>(std::max<std::int64_t>(2, data.blueprint.class_count()));
}

// So are few rows of many columns: the decay grows with the columns per row.
double table_decay(const TrainingData& data) {
  const double columns_per_row =
      static_cast<double>(data.blueprint.features()) / static_cast<double>(data.train.size());
  const double least = data.blueprint.regression ? 0.3 : 0.6 * table_dropout(data);
  return std::clamp(10 * columns_per_row, least, 3.0);
}

}  // namespace

namespace {

// Names the option that cannot be applied to these pictures.
void check_augment(const data::AugmentOptions& augment, const Blueprint& blueprint) {
  const auto requested = {std::pair{"flip", augment.mirror},           std::pair{"crop", augment.shift > 0},
                          std::pair{"rotate", augment.rotation > 0},   std::pair{"brightness", augment.brightness > 0},
                          std::pair{"contrast", augment.contrast > 0}, std::pair{"saturation", augment.saturation > 0},
                          std::pair{"cutout", augment.cutout > 0},     std::pair{"mixup", augment.mix > 0}};
  for (const auto& [name, wanted] : requested)
    expects<UsageError>(!wanted || !blueprint.table, "--", name, " is for pictures; ", blueprint.source, " is a table");
  if (blueprint.table) return;
  const std::int64_t side = std::min(blueprint.input[1], blueprint.input[2]);
  expects<UsageError>(augment.shift < side, "--crop ", augment.shift, ": the pictures have ", blueprint.input[1], 'x',
                      blueprint.input[2], " pixels");
  expects<UsageError>(augment.cutout < side, "--cutout ", augment.cutout, " covers all of the pictures, which have ",
                      blueprint.input[1], 'x', blueprint.input[2], " pixels");
  expects<UsageError>(augment.saturation == 0 || blueprint.input[0] == 3,
                      "--saturation is for colours; the pictures are grey");
}

}  // namespace

void complete(Settings& s, const TrainingData& data) {
  check_augment(s.augment, data.blueprint);
  const bool table = data.blueprint.table, regression = data.blueprint.regression;
  if (!s.cost) s.cost = regression ? "mse" : "cross-entropy";
  const std::vector<std::string> costs = regression ? regression_cost_names() : cost_names();
  expects<UsageError>(std::find(costs.begin(), costs.end(), *s.cost) != costs.end(), "--cost ", *s.cost,
                      " is for classes, but the target is a number: mse, mae or huber; --task classification takes ",
                      "each value as a class");
  if (!s.optimizer) s.optimizer = table ? "adamw" : "sgd";
  const bool sgd = *s.optimizer == "sgd";
  expects<UsageError>(sgd || !s.momentum, "--momentum is for --optimizer sgd, not for ", *s.optimizer);
  expects<UsageError>(sgd || !s.nesterov, "--nesterov is for --optimizer sgd, not for ", *s.optimizer);
  if (sgd && !s.momentum) s.momentum = 0.9;
  expects<UsageError>(!s.nesterov || *s.momentum > 0, "--nesterov needs a --momentum above 0");
  const bool photographs = data.train.source != nullptr;
  if (!s.learning_rate) s.learning_rate = sgd ? (photographs ? 0.01 : 0.02) : 1e-3;
  if (!s.weight_decay) s.weight_decay = sgd ? 5e-4 : table && *s.optimizer == "adamw" ? table_decay(data) : 0;
  if (!s.dropout) s.dropout = table && s.layers.empty() && s.net.empty() ? table_dropout(data) : 0;
  // An explicit number of epochs is always trained.
  if (!s.early_stop) s.early_stop = table && !s.epochs && divisible(s, data) ? 20 : 0;
  if (!s.epochs) s.epochs = table ? 200 : photographs ? 30 : 5;
  if (!s.batch_size) s.batch_size = table ? 16 : photographs ? 32 : 64;
  if (!s.schedule) s.schedule = "cosine";
  (void)class_weights(s, data);
  complete_ranks(s, static_cast<int>(s.ranks));
  (void)parse_schedule(*s.schedule, *s.epochs);
  expects<UsageError>(*s.early_stop == 0 || !data.three_way() || divisible(s, data),
                      "--early-stop watches the validation examples, of which there are none; give a larger "
                      "--validation");
  expects<UsageError>(*s.early_stop == 0 || divisible(s, data), "--early-stop watches a share of ", s.stopping,
                      " of the ", data.train.size(),
                      " training examples, which is none of any class; give a larger --stopping");
  if (s.refit == "auto") s.refit = table && *s.early_stop > 0 ? "yes" : "no";
  expects<UsageError>(s.refit == "no" || *s.early_stop > 0,
                      "--refit repeats the best number of epochs, which --early-stop finds; give it a number above 0");
}

data::AugmentOptions augment_of(const Settings& settings, const Blueprint& blueprint) {
  data::AugmentOptions augment = settings.augment;
  augment.seed = settings.seed;
  if (!blueprint.table) {
    augment.mean = blueprint.scaling.mean;
    augment.deviation = blueprint.scaling.deviation;
  }
  return augment;
}

Training::Training(const Settings& settings, const TrainingData& data, const parallel::Group& group)
    : Training(settings, data, divide(settings, data), group) {}

Training::Training(const Settings& settings, const TrainingData& data, const TrainingParts& parts,
                   const parallel::Group& group)
    : settings_(settings),
      data_(data),
      group_(timed(group)),
      blueprint_(with_net(settings, data)),
      cost_(blueprint_.cost, blueprint_.class_weights),
      validation_(scaled(data.three_way() ? parts.stopping : data.held_out, blueprint_)),
      stopping_(data.three_way() ? Examples() : scaled(parts.stopping, blueprint_)) {
  begin(parts.learning);
  expects<FileError>(data.train.size() > 0, data.blueprint.source, ": found no examples to train on");
}

// Makes a net and its trainer for these examples.
void Training::begin(const Examples& examples) {
  net_ = make_net();
  optimizer_ = make_optimizer(settings_, nn::trained_parameters(*net_));
  data::AugmentOptions augment = augment_of(settings_, blueprint_);
  trainer_ = std::make_unique<training::Trainer>(
      *net_, *optimizer_, make_loader(examples),
      [this](const Tensor& x, const Tensor& labels) { return shard_loss(x, labels); },
      training::TrainerOptions{.epochs = refitting() ? refit_epochs_ : *settings_.epochs,
                               .schedule = parse_schedule(*settings_.schedule, *settings_.epochs),
                               .patience = refitting() ? 0 : *settings_.early_stop,
                               .shards = static_cast<int>(*settings_.shards),
                               .first_step = trainer_ ? position().step : 0,
                               .augment = std::move(augment)},
      group_);
  // Dropout draws from here.
  manual_seed(settings_.seed);
  default_generator().skip(std::uint64_t{1} << 32);  // beyond what the weights drew
}

// The network of an ONNX file, with a new last layer for another number of classes.
std::shared_ptr<nn::Module> Training::imported_net() const {
  const Model model = load_model(settings_.init);
  const auto* graph = dynamic_cast<const graph::Graph*>(model.net.get());
  expects<UsageError>(graph != nullptr, "--init: ", settings_.init,
                      " takes one example at a time; export it with a symbolic batch");
  expects<UsageError>(model.blueprint.input == blueprint_.input, "--init: ", settings_.init, " takes examples of ",
                      model.blueprint.input, ", but those of ", blueprint_.source, " are ", blueprint_.input);
  expects<UsageError>(!blueprint_.regression, "--init: ", settings_.init, " tells classes apart, but ",
                      blueprint_.source, " has numbers to predict");
  if (model.blueprint.class_count() == blueprint_.class_count()) return std::make_shared<graph::Graph>(*graph);
  return std::make_shared<graph::Graph>(with_head(*graph, blueprint_.class_count(), settings_.seed, settings_.init));
}

// With the initial weights and the frozen parameters that were requested.
std::shared_ptr<nn::Module> Training::make_net() {
  std::shared_ptr<nn::Module> net = takes_graph(settings_) ? imported_net() : build_net(blueprint_, settings_.seed);
  if (!settings_.init.empty()) {
    Weights weights = load_weights(settings_.init);
    other_classes_ = !takes_graph(settings_) && weights.blueprint && weights.blueprint->classes != blueprint_.classes &&
                     weights.blueprint->class_count() == blueprint_.class_count();  // otherwise their shapes say so
    if (other_classes_)
      for (const std::string& name : head_of(blueprint_)) weights.tensors.erase(name);
    if (weights.blueprint) new_columns_ = match_columns(weights.tensors, *weights.blueprint, blueprint_, net->state());
    begun_with_ = nn::load(*net, weights.tensors, {.strict = false}, weights.file);
  }
  if (settings_.freeze.empty()) return net;
  try {
    frozen_ = nn::freeze(*net, settings_.freeze);
  } catch (const Error& error) {
    throw UsageError(message("--freeze: ", error.what()));
  }
  expects<UsageError>(!nn::trained_parameters(*net).empty(), "--freeze leaves no parameter to train");
  return net;
}

data::DataLoader Training::make_loader(const Examples& examples) const {
  data::LoaderOptions options{.batch_size = *settings_.batch_size, .seed = settings_.seed};
  if (examples.source) {
    options.workers = settings_.threads;
    options.share = {group_.rank(), group_.size(), static_cast<int>(*settings_.shards)};
    // A recorded step needs batches of one size. The replacement of an unreadable image is a training example, too:
    // none that was held out or set aside.
    const bool skips = examples.folder && examples.folder->options().corrupt == data::OnCorrupt::skip;
    return data::DataLoader(skips ? std::make_shared<data::Replacing>(examples.source) : examples.source, options);
  }
  options.resident = true;
  if (!blueprint_.table) {
    options.mean = blueprint_.scaling.mean[0];
    options.deviation = blueprint_.scaling.deviation[0];
  }
  return data::DataLoader(examples.memory, options);
}

parallel::ShardLoss Training::shard_loss(const Tensor& x, const Tensor& labels) const {
  if (has_own_loss(blueprint_)) return own_loss(*net_, x, labels);
  const Tensor logits = (*net_)(x);
  const Tensor loss = cost_(logits, labels);
  const NoGrad no_grad;
  return {loss, count_right(logits, labels)};
}

Ended Training::run(std::int64_t epochs, const Hooks& hooks) {
  if (!refitting()) {
    const Ended ended = search(epochs, hooks);
    if (ended == Ended::interrupted || !trainer_->over() || settings_.refit != "yes") return ended;
    begin_refit(kept().epoch);
    hooks.refit(position());
  }
  return refit(hooks);
}

Ended Training::search(std::int64_t epochs, const Hooks& hooks) {
  EpochResult reported;
  parallel::Collective::Spent before = spent_in(group_);
  training::Callbacks callbacks{
      .step = hooks.step, .stop = hooks.stop, .loop_seconds = glance, .loop_until = settings_.checkpoint_every};
  callbacks.validate = [&](training::EpochResult& result) {
    if (group_.size() > 1) {
      const parallel::Collective::Spent now = spent_in(group_);
      reported.ranks = share_times(group_, result.seconds, {now.busy - before.busy, now.waited - before.waited});
    }
    static_cast<training::EpochResult&>(reported) = result;
    const bool whole = validate(reported, hooks);
    result = static_cast<const training::EpochResult&>(reported);
    return whole;
  };
  callbacks.epoch = [&](const training::EpochResult& result) {
    static_cast<training::EpochResult&>(reported) = result;
    hooks.epoch(reported);
    before = spent_in(group_);
  };
  return trainer_->run(epochs, callbacks);
}

// Trains new weights on all training examples, for the best number of epochs and at the same rates.
void Training::begin_refit(std::int64_t epochs) {
  searched_ = trainer_->history();
  refit_epochs_ = epochs;
  begin(data_.train);
}

Ended Training::refit(const Hooks& hooks) {
  const Ended ended = trainer_->run({.step = hooks.step,
                                     .epoch = [&](const training::EpochResult&) { hooks.refit(position()); },
                                     .stop = hooks.stop,
                                     .loop_seconds = glance,
                                     .loop_until = settings_.checkpoint_every});
  if (ended == Ended::interrupted) return ended;
  return static_cast<std::int64_t>(searched_.size()) < *settings_.epochs ? Ended::stopped_early : Ended::finished;
}

bool Training::validate(EpochResult& result, const Hooks& hooks) {
  if (validation_.size() > 0) {
    const bool decides = data_.three_way() && *settings_.early_stop > 0;
    const auto found = score(*net_, blueprint_, validation_, hooks.stop, decides, group_);
    if (!found) return false;
    if (decides) result.stopping = {found->loss, found->error};
    result.validation_loss = found->loss;
    result.validation_accuracy = found->accuracy;
    result.validation_rmse = found->rmse;
  }
  if (stopping_.size() == 0) return true;
  const auto found = score(*net_, blueprint_, stopping_, hooks.stop, true, group_);
  if (found) result.stopping = {found->loss, found->error};
  return found.has_value();
}

std::int64_t evaluation_batch(const Blueprint& blueprint) {
  // About 16 MB of inputs; their hidden values take a multiple.
  return std::clamp<std::int64_t>((std::int64_t{1} << 22) / blueprint.features(), 1, 1000);
}

std::optional<Score> score(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                           const std::function<bool()>& stop, bool with_error, const parallel::Group& group) {
  const NoGrad no_grad;
  const bool training = net.training(), first = group.rank() == 0;
  net.eval();
  const std::int64_t count = examples.size(), size = evaluation_batch(blueprint), batches = (count + size - 1) / size;
  // Groups of rows, few enough that their losses cost little, provide the standard error of the mean.
  const std::int64_t rows_of_group = std::max<std::int64_t>(1, count / most_groups);
  const auto groups_in = [&](std::int64_t rows) {
    return with_error ? (rows + rows_of_group - 1) / rows_of_group : std::int64_t{0};
  };
  const Cost cost_of(blueprint.cost, blueprint.class_weights);
  // For each batch: its rows, its loss times the rows, the number of right answers, and the losses of its groups.
  constexpr std::int64_t sums = 3;
  const data::Rows own = parallel::share_of(group, batches);
  const Tensor figures = zeros({own.size(), sums + groups_in(std::min(size, count))}, DType::float64);
  std::int64_t done = 0;
  bool stopped = own.size() == 0 && stop();
  const auto use = [&](const Tensor& x, const Tensor& labels) {
    const Tensor batch = figures[done++];
    const auto put = [&](std::int64_t place, const Tensor& value) {
      batch.slice(0, place, place + 1).copy_(value.reshape({1}).to(DType::float64));
    };
    const Tensor logits = net(x);
    const std::int64_t rows = labels.numel();
    batch.slice(0, 0, 1).fill_(static_cast<double>(rows));
    put(1, cost_of(logits, labels).to(DType::float64) * static_cast<double>(rows));
    put(2, count_right(logits, labels));
    for (std::int64_t i = 0; i < groups_in(rows); ++i) {
      const std::int64_t begin = i * rows_of_group, end = std::min(begin + rows_of_group, rows);
      put(sums + i, cost_of(logits.slice(0, begin, end), labels.slice(0, begin, end)));
    }
    stopped = stop();
    return !stopped || !first;
  };
  for_each_batch(examples, blueprint, size, use, own);
  net.train(training);
  // In batch order, whichever rank has seen them.
  const Tensor all = parallel::gather_shares(group, figures, batches);
  if (agreed(group, stopped)) return std::nullopt;
  const std::vector<double> values = all.values();
  double seen = 0, loss = 0, right = 0, groups = 0, sum = 0, squares = 0;
  for (std::size_t batch = 0; batch < values.size(); batch += static_cast<std::size_t>(all.size(1))) {
    seen += values[batch];
    loss += values[batch + 1];
    right += values[batch + 2];
    const auto of_batch = static_cast<std::size_t>(groups_in(static_cast<std::int64_t>(values[batch])));
    groups += static_cast<double>(of_batch);
    for (std::size_t i = 0; i < of_batch; ++i) {
      const double value = values[batch + sums + i];
      sum += value;
      squares += value * value;
    }
  }
  Score result{loss / seen, right / seen};
  if (blueprint.regression) {
    // R2 is relative to these examples' own mean and deviation.
    const double errors = 1 - result.accuracy, deviation = data::scaling_of(examples.memory.labels).deviation[0];
    result.accuracy = 1 - errors / (deviation * deviation);
    result.rmse = std::sqrt(errors) * blueprint.target_scaling.deviation[0];
  }
  if (groups > 1) result.error = std::sqrt(std::max(0.0, squares / groups - sum * sum / (groups * groups)) / groups);
  return result;
}

}  // namespace tern::tool
