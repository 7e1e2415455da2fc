// The table of options that set up a training.

#include <algorithm>
#include <cmath>
#include <utility>

#include "errors.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "options.hpp"

namespace tern::tool {

namespace {

template <class T, class Parse>
Option optional_option(std::string name, std::string value, std::string help, std::optional<T>& target, Parse parse) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, parse, name = option.name](const std::string& text) { target = parse(name, text); };
  option.get = [&target] { return target ? Json(*target) : Json(); };
  return option;
}

// A number in [least, most), or (least, most) if `open`.
auto number_in(double least, double most, bool open, std::string expected) {
  return [=](const std::string& name, const std::string& text) {
    const double value = parse_number(name, text);
    expects<UsageError>((open ? value > least : value >= least) && value < most, "--", name, ": found ", text,
                        ", expected ", expected);
    return value;
  };
}

auto integer_in(std::int64_t least, std::int64_t most) {
  return [=](const std::string& name, const std::string& text) { return parse_integer(name, text, least, most); };
}

Option number_option(std::string name, std::string value, std::string help, double& target, double least, double most,
                     const std::string& expected) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, parse = number_in(least, most, false, expected), name = option.name](const std::string& text) {
    target = parse(name, text);
  };
  option.get = [&target] { return Json(target); };
  return option;
}

Option optional_choice(std::string name, std::string help, std::vector<std::string> choices,
                       std::optional<std::string>& target) {
  Option option = optional_option(std::move(name), "NAME", std::move(help), target,
                                  [choices](const std::string& option_name, const std::string& text) {
                                    std::string chosen;
                                    choice_option(option_name, "", choices, chosen).set(text);
                                    return chosen;
                                  });
  option.choices = std::move(choices);
  return option;
}

Option layers_option(std::vector<std::int64_t>& target) {
  Option option{.name = "layers", .value = "SIZES", .help = "sizes from the input to the classes: 784,196,196,10"};
  option.set = [&target](const std::string& text) {
    std::vector<std::int64_t> sizes;
    for (const std::string& part : split_list(text)) sizes.push_back(parse_integer("layers", part, 1, 1 << 24));
    expects<UsageError>(sizes.size() >= 2, "--layers: found '", text,
                        "', expected at least two sizes: those of the input and of the classes");
    target = std::move(sizes);
  };
  option.get = [&target] { return target.empty() ? Json() : Json(target); };
  return option;
}

Option class_weights_option(std::string& target) {
  Option option =
      text_option("class-weights", "WEIGHTS",
                  "weight of each class in cross-entropy: balanced (rare ones count more), or 1,5,1", target);
  option.set = [&target](const std::string& text) {
    (void)parse_class_weights(text);
    target = text;
  };
  return option;
}

Option embedding_option(std::string& target) {
  Option option =
      text_option("embedding", "N",
                  "categories as a learned vector of N numbers where there are more than N: off, auto or N", target);
  option.set = [&target](const std::string& text) {
    try {
      if (text != "off" && text != "auto") (void)parse_integer("embedding", text, 1, most_embedding);
    } catch (const UsageError& error) {
      throw UsageError(message(error.what(), ", off or auto"));
    }
    target = text;
  };
  option.choices = {"off", "auto"};
  return option;
}

Option seed_option(std::string name, std::string help, std::uint64_t& target) {
  Option option{.name = std::move(name), .value = "N", .help = std::move(help)};
  option.set = [&target, name = option.name](const std::string& text) {
    target = static_cast<std::uint64_t>(parse_integer(name, text, 0, INT64_MAX));
  };
  option.get = [&target] { return Json(target); };
  return option;
}

Option schedule_option(std::optional<std::string>& target) {
  return optional_option("schedule", "NAME", "constant, cosine, step:EPOCHS, exponential:FACTOR", target,
                         [](const std::string&, const std::string& text) {
                           (void)parse_schedule(text, 1000000);
                           return text;
                         });
}

// Adds a group's options and marks those that --help shows.
void add(Options& table, const std::string& group, Options options, const std::vector<std::string>& brief) {
  for (Option& option : options) {
    option.group = group;
    option.brief = std::find(brief.begin(), brief.end(), option.name) != brief.end();
    table.push_back(std::move(option));
  }
}

Option of_kind(Option option, Value kind) {
  option.kind = kind;
  return option;
}

Option with_choices(Option option, std::vector<std::string> choices) {
  option.choices = std::move(choices);
  return option;
}

Option with_alias(Option option, const std::string& alias) {
  option.aliases.push_back(alias);
  return option;
}

}  // namespace

Options machine_options(Settings& settings) {
  Options table;
  add(table, "Machine",
      {with_choices(text_option("mode", "NAME", "fastest, auto, sequential, vectorized, cuda or cuda:1", settings.mode),
                    {"fastest", "auto", "sequential", "vectorized", "cuda"}),
       integer_option("threads", "N", "the most threads to use; 0: all cores", settings.threads, 0, 4096),
       choice_option("precision", "of products: strict, tf32, or bf16 and f16, which also store activations in 16 bits",
                     precision_names(), settings.precision),
       switch_option("verify", "compare every operator with the reference, and stop at the first that differs; slow",
                     settings.verify),
       choice_option("numerics", "trust, or check: stop at the operator that makes the first infinity or NaN",
                     {"trust", "check"}, settings.numerics)},
      {"mode", "threads"});
  return table;
}

DeviceOptions device_options(const Settings& settings) {
  return {.threads = settings.threads,
          .precision = precision_of(settings.precision),
          .numerics = settings.numerics == "check" ? Numerics::check : Numerics::trust,
          .verify = settings.verify};
}

Options training_options(Settings& settings) {
  Options table;
  add(table, "Data",
      {with_choices(of_kind(text_option("dataset", "DATA", "FILE.csv, DIR, mnist, fashion-mnist or synthetic-digits",
                                        settings.dataset),
                            Value::file),
                    dataset_names()),
       text_option("target", "COLUMN", "a table's column to predict: name or number (the last)", settings.target),
       choice_option("task", "what a table's target is: auto, classification (classes) or regression (a number)",
                     {"auto", "classification", "regression"}, settings.task),
       list_option("ignore", "COLUMNS", "columns of a CSV file to leave out", settings.ignore),
       choice_option("missing", "a table's missing values: refuse, mean, median, drop (the row) or indicator",
                     missing_names(), settings.missing),
       list_option("categorical", "COLUMNS", "a table's columns of categories, besides those of words",
                   settings.categorical),
       choice_option("header", "whether a CSV file begins with names: auto, yes or no", {"auto", "yes", "no"},
                     settings.header),
       of_kind(text_option("data", "DIR", "folder of the MNIST files", settings.data), Value::folder),
       switch_option("download", "fetch missing MNIST files (11 MB)", settings.download),
       integer_option("limit", "N", "use only the first N examples; 0: all", settings.limit, 0, INT64_MAX),
       integer_option("image-size", "N", "pixels of a folder's images; 0: the net's own size", settings.image_size, 0,
                      4096),
       choice_option("corrupt", "images that cannot be read: error or skip", {"error", "skip"}, settings.corrupt),
       optional_option("validation", "SHARE", "share of the examples held out, such as 0.2", settings.validation,
                       number_in(0, 1, false, "a share from 0 to below 1")),
       number_option("test-fraction", "SHARE", "share kept for the final figures only, besides --validation",
                     settings.test_fraction, 0, 1, "a share from 0 to below 1"),
       integer_option("folds", "K", "cross-validation: train K times, each with another part held out; 0: off",
                      settings.folds, 0, 1000),
       integer_option("fold", "N", "only this one of --folds, from 1; 0: each in turn", settings.fold, 0, 1000),
       seed_option("split", "seed of the draw that holds examples out", settings.split)},
      {"dataset", "target", "validation"});
  add(table, "Network",
      {layers_option(settings.layers),
       choice_option("net", "a network by name instead of --layers", net_names(), settings.net),
       choice_option("activation", "between the layers", activation_names(), settings.activation),
       optional_option("dropout", "P", "share of hidden values dropped in training", settings.dropout,
                       number_in(0, 1, false, "a probability from 0 to below 1")),
       of_kind(
           text_option("init", "FILE", "start from the weights of a model, run, .safetensors or .npz", settings.init),
           Value::file),
       embedding_option(settings.embedding),
       list_option("freeze", "PATTERNS", "parameters that are not trained: conv1.*,layer1.*", settings.freeze)},
      {"layers", "net"});
  add(table, "Training",
      {optional_choice("cost", "what is minimised (cross-entropy), for a regression mse, mae or huber (mse)",
                       cost_names(), settings.cost),
       class_weights_option(settings.class_weights),
       optional_choice("optimizer", "sgd, adam or adamw", optimizer_names(), settings.optimizer),
       optional_option("learning-rate", "RATE", "at the start", settings.learning_rate,
                       number_in(0, 1e6, true, "a number above 0, at most 1000000")),
       optional_option("momentum", "M", "of sgd (default: 0.9)", settings.momentum,
                       number_in(0, 1, false, "a number from 0 to below 1")),
       switch_option("nesterov", "Nesterov's momentum", settings.nesterov),
       optional_option("weight-decay", "D", "weight decay", settings.weight_decay,
                       number_in(0, 1e6, false, "a number from 0 to 1000000")),
       schedule_option(settings.schedule),
       optional_option("epochs", "N", "passes over the training examples", settings.epochs, integer_in(1, 1000000000)),
       with_alias(optional_option("batch-size", "N", "examples per step", settings.batch_size, integer_in(1, 1 << 30)),
                  "batch-number"),
       optional_option("early-stop", "N", "stop N epochs after the best one; 0: never", settings.early_stop,
                       integer_in(0, 1000000000)),
       number_option("stopping", "SHARE",
                     "share of the training examples that early stopping watches without --test-fraction (0.2)",
                     settings.stopping, 0, 1, "a share from 0 to below 1"),
       choice_option("refit", "train again on all training examples for the best number of epochs: auto, yes or no",
                     {"auto", "yes", "no"}, settings.refit),
       seed_option("seed", "of the weights and the order of the examples", settings.seed)},
      {"optimizer", "learning-rate", "epochs", "batch-size", "seed"});
  data::AugmentOptions& augment = settings.augment;
  const std::string share = "a number from 0 to below 1";
  add(table, "Augmentation of pictures, drawn in every epoch",
      {switch_option("flip", "mirror every other one (photographs always are)", augment.mirror),
       integer_option("crop", "N", "shift by at most N pixels, filled with mirrored edges; 0: off", augment.shift, 0,
                      4096),
       number_option("rotate", "DEGREES", "rotate by at most this angle in either direction", augment.rotation, 0,
                     180.001, "degrees from 0 to 180"),
       number_option("brightness", "X", "multiply by 1 - X to 1 + X", augment.brightness, 0, 1, share),
       number_option("contrast", "X", "the distance from the mean, likewise", augment.contrast, 0, 1, share),
       number_option("saturation", "X", "the distance from grey, likewise", augment.saturation, 0, 1, share),
       integer_option("cutout", "N", "cover a square of N pixels; 0: none", augment.cutout, 0, 4096),
       number_option("mixup", "ALPHA", "mix each with another one, labels too; 0.2 is usual", augment.mix, 0, 2.001,
                     "a number from 0 to 2"),
       of_kind(text_option("augment-sheet", "FILE.html", "show some pictures and their augmentation, and stop",
                           settings.augment_sheet),
               Value::file)},
      {});
  for (Option& option : machine_options(settings)) table.push_back(std::move(option));
  add(table, "Results",
      {of_kind(text_option("run", "DIR", "folder of the run: metrics, checkpoints (run)", settings.run), Value::folder),
       of_kind(text_option("model", "FILE", "file of the trained model (in the run)", settings.model), Value::file),
       switch_option("resume", "continue where the run stopped, if it exists", settings.resume),
       integer_option("checkpoint-every", "N", "steps between checkpoints; 0: at epochs, seconds apart",
                      settings.checkpoint_every, 0, INT64_MAX),
       integer_option("keep", "N", "checkpoints to keep", settings.keep, 1, 1000000),
       switch_option("dashboard", "serve a page that shows the training live", settings.dashboard),
       integer_option("port", "N", "port of the dashboard; 0: any free one", settings.port, 0, 65535),
       switch_option("tensorboard", "write TensorBoard event files too", settings.tensorboard),
       switch_option("verbose", "say more", settings.verbose),
       switch_option("quiet", "print only errors and the last line", settings.quiet)},
      {"run", "model", "resume", "dashboard"});
  return table;
}

}  // namespace tern::tool
