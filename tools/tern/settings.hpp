#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/augment.hpp"

namespace tern::tool {

/// Everything that determines a training, as the options set it. Absent values depend on the data: see `complete`.
struct Settings {
  // Data.
  std::string dataset = {};
  std::string target = {};
  std::string task = "auto";  // "classification" or "regression"; detected from the target
  std::vector<std::string> ignore = {};
  std::string header = "auto";
  std::string missing = "refuse";             // the replacement of a table's missing values
  std::vector<std::string> categorical = {};  // a table's categorical columns, besides detected ones
  std::string embedding = "off";              // which of them get a learned vector: "off", "auto" or its size
  std::string data = {};                      // folder of the MNIST files
  bool download = false;
  std::int64_t limit = 0;
  std::int64_t image_size = 0;    // of the images of a folder; 0: as the network prefers
  std::string corrupt = "error";  // what happens to images that cannot be read
  std::optional<double> validation = {};
  double test_fraction = 0;  // fraction of a test part; 0: none
  std::int64_t folds = 0;    // of a cross-validation; 0: none
  std::int64_t fold = 0;     // the one that is held out, from 1; 0: each in turn
  std::uint64_t split = 0;   // draws the held-out examples

  // Network.
  std::vector<std::int64_t> layers = {};
  std::string net = {};
  std::string activation = "relu";
  std::optional<double> dropout = {};
  std::string init = {};                 // a file of weights to start with
  std::vector<std::string> freeze = {};  // patterns of parameters that are frozen

  // Training.
  std::optional<std::string> cost = {};
  std::string class_weights = {};  // "balanced", or a number per class; empty: all equal
  std::optional<std::string> optimizer = {};
  std::optional<double> learning_rate = {};
  std::optional<double> momentum = {};
  bool nesterov = false;
  std::optional<double> weight_decay = {};
  std::optional<std::string> schedule = {};
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> batch_size = {};
  std::optional<std::int64_t> early_stop = {};  // epochs without improvement before it stops; 0: never
  double stopping = 0.2;                        // fraction of the training examples that decides this
  std::string refit = "auto";                   // "yes" or "no": finally train on all of them
  std::uint64_t seed = 1;

  // Pictures.
  data::AugmentOptions augment = {};  // random changes in training
  std::string augment_sheet = {};     // a page that shows them

  // Machine.
  std::string mode = "fastest";
  int threads = 0;
  std::string precision = "strict";
  bool verify = false;
  std::string numerics = "trust";

  // Ranks.
  std::int64_t ranks = 1;
  std::string parallel = "threads";
  std::optional<std::int64_t> shards = {};
  std::int64_t rank_limit = 600;  // seconds
  std::int64_t restarts = 0;
  std::string launcher = {};  // words that start the processes of --restarts

  // Results.
  std::string run = {};
  std::string model = {};
  bool resume = false;
  std::int64_t checkpoint_every = 0;
  int keep = 3;
  bool verbose = false;
  bool quiet = false;
  bool dashboard = false;
  int port = 0;
  bool tensorboard = false;
};

}  // namespace tern::tool
