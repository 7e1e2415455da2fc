// tern train, test and predict from end to end.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

TEST_CASE("train: a table becomes a model, a run and one line", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150, "x,y,z,kind\n"));
  const Outcome trained =
      tern({"train", "--dataset", "c.csv", "--epochs", "20", "--seed", "3"}, {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.out, ContainsSubstring("validation accuracy: "));
  CHECK_THAT(trained.err, ContainsSubstring("mlp 3-128-3, relu, dropout 0.33"));

  const auto events = events_of(folder / "run");
  CHECK(events.front()["event"] == "start");
  CHECK(events.front()["data"]["classes"] == Json({"ant", "bee", "fly"}));
  CHECK(events.front()["data"]["training_examples"] == 120);
  CHECK(events.back()["event"] == "end");
  const double accuracy = events.back()["accuracy"];
  CHECK(accuracy >= 0.9);
  CHECK(accuracy <= 1);
  int epochs = 0;
  for (const Json& event : events) epochs += event["event"] == "epoch";
  CHECK(epochs == 20);
  CHECK(Json::parse(read_bytes(folder / "run/config.json"))["epochs"] == 20);

  // The held-out rows again, from the model file alone.
  const Outcome tested = tern({"test", "--model", "run", "--dataset", "c.csv", "--held-out", "--format", "json"},
                              {.folder = folder.path()});
  REQUIRE(tested.code == 0);
  const Json figures = Json::parse(tested.out);
  CHECK(figures["examples"] == 30);
  CHECK(figures["accuracy"] == Approx(accuracy));
  CHECK(figures["classes"]["bee"]["support"] == 10);
  CHECK(figures["confusion"].size() == 3);

  // Without the class column the features are enough.
  write_bytes(folder / "new.csv", "x,y,z\n3,0,0\n0,3,0\n0,0,3\n");
  const Outcome predicted =
      tern({"predict", "--model", "run/model.safetensors", "--dataset", "new.csv", "--format", "csv", "--scores"},
           {.folder = folder.path()});
  REQUIRE(predicted.code == 0);
  CHECK_THAT(predicted.out, ContainsSubstring("example,class,score,score of ant,score of bee,score of fly\n1,ant,"));
  CHECK_THAT(predicted.out, ContainsSubstring("\n2,bee,"));
  CHECK_THAT(predicted.out, ContainsSubstring("\n3,fly,"));
}

TEST_CASE("train: verified, and with its numbers looked at", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const std::vector<std::string> train{"train", "--dataset", "c.csv", "--layers", "3,8,3", "--epochs", "8"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = train;
    all.insert(all.end(), more.begin(), more.end());
    return tern(all, {.folder = folder.path()});
  };
  const Outcome verified = with({"--verify", "--numerics", "check", "--run", "verified"});
  INFO(verified.err);
  REQUIRE(verified.code == 0);
  REQUIRE(with({"--run", "plain"}).code == 0);
  CHECK(events_of(folder / "verified").back()["loss"] == events_of(folder / "plain").back()["loss"]);

  const Outcome wild = with({"--numerics", "check", "--run", "wild", "--optimizer", "sgd", "--learning-rate", "999999",
                             "--cost", "mse", "--activation", "linear"});
  CHECK(wild.code == 1);
  CHECK_THAT(wild.err, ContainsSubstring("numerics: "));
  CHECK_THAT(wild.err, ContainsSubstring("is finite"));
}

TEST_CASE("train: every mode reaches the same, and reads the others' models", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90));
  std::vector<double> losses;
  for (const std::string mode : {"sequential", "vectorized"}) {
    const Outcome trained = tern({"train", "--dataset", "c.csv", "--layers", "3,8,3", "--epochs", "5", "--mode", mode,
                                  "--run", mode, "--activation", "gelu", "--dropout", "0.1"},
                                 {.folder = folder.path()});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    losses.push_back(events_of(folder / mode).back()["loss"]);
    for (const std::string other : {"sequential", "vectorized"}) {
      const Outcome tested =
          tern({"test", "--model", mode, "--dataset", "c.csv", "--held-out", "--format", "json", "--mode", other},
               {.folder = folder.path()});
      REQUIRE(tested.code == 0);
      CHECK(Json::parse(tested.out)["loss"].get<double>() == Approx(losses.back()).epsilon(1e-4));
    }
  }
  CHECK(losses[0] == Approx(losses[1]).epsilon(1e-3));
}

TEST_CASE("train: each cost, optimiser, activation and schedule learns", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90));
  const auto learns = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--epochs", "30", "--quiet", "--run", "r"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome trained = tern(arguments, {.folder = folder.path()});
    INFO(options[1] << ' ' << trained.err);
    REQUIRE(trained.code == 0);
    CHECK(events_of(folder / "r").back()["accuracy"].get<double>() > 0.7);
  };
  for (const char* cost : {"cross-entropy", "binary-cross-entropy", "mse", "mae", "hinge"}) learns({"--cost", cost});
  for (const char* optimizer : {"sgd", "adam", "adamw"}) learns({"--optimizer", optimizer});
  for (const char* activation : {"sigmoid", "tanh", "relu", "leaky-relu", "softplus", "gelu", "linear"})
    learns({"--activation", activation});
  for (const char* schedule : {"constant", "cosine", "cosine:3", "step:10", "step:10:0.5", "exponential:0.95"})
    learns({"--schedule", schedule});
  learns({"--optimizer", "sgd", "--nesterov", "--momentum", "0.8", "--weight-decay", "0.001"});
}

TEST_CASE("train: the course's spellings are understood", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const Outcome trained =
      tern({"--train", "--layers", "3,8,3", "--epochs=2", "--batch_number", "7", "--learning_rate=0.01", "--dataset",
            "c.csv", "--model", "m.safetensors", "--seed", "1", "--verbose"},
           {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(std::filesystem::exists(folder / "m.safetensors"));
  CHECK(events_of(folder / "m.run").front()["settings"]["batch-size"] == 7);
  const Outcome tested = tern({"--test", "--dataset", "c.csv", "--model", "m.safetensors"}, {.folder = folder.path()});
  CHECK(tested.code == 0);
  CHECK_THAT(tested.out, ContainsSubstring("macro average"));
}

TEST_CASE("train: a config file is repeated, and the command line wins", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "3", "--run", "a"}, {.folder = folder.path()}).code == 0);
  REQUIRE(tern({"train", "--config", "a/config.json", "--run", "b"}, {.folder = folder.path()}).code == 0);
  CHECK(read_bytes(folder / "a/model.safetensors") == read_bytes(folder / "b/model.safetensors"));
  REQUIRE(tern({"train", "--config", "a/config.json", "--run", "c", "--seed", "9"}, {.folder = folder.path()}).code ==
          0);
  CHECK(read_bytes(folder / "a/model.safetensors") != read_bytes(folder / "c/model.safetensors"));
  // A run that is begun anew leaves the old one in "previous".
  REQUIRE(tern({"train", "--config", "a/config.json", "--run", "c"}, {.folder = folder.path()}).code == 0);
  CHECK(read_bytes(folder / "a/model.safetensors") == read_bytes(folder / "c/model.safetensors"));
  CHECK(std::filesystem::exists(folder / "c/previous/model.safetensors"));
}

TEST_CASE("train: drawn digits and IDX files are images", "[tools][train]") {
  const TemporaryFolder folder;
  const Outcome trained = tern(
      {"train", "--dataset", "synthetic-digits", "--limit", "300", "--epochs", "3", "--net", "mlp-small", "--run", "d"},
      {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("These digits are synthetic"));
  const auto events = events_of(folder / "d");
  const Json& evaluation = events[events.size() - 2];
  REQUIRE(evaluation["event"] == "evaluation");
  CHECK(evaluation["pictures"].size() == 24);
  CHECK(evaluation["pictures"][0]["pixels"]["width"] == 28);
  const Outcome tested =
      tern({"test", "--model", "d", "--dataset", "synthetic-digits", "--limit", "50", "--format", "csv"},
           {.folder = folder.path()});
  CHECK(tested.code == 0);
  CHECK_THAT(tested.out, ContainsSubstring("class,precision,recall,f1,examples\n0,"));
}

namespace {

/// Two classes that no column tells apart: whatever is learnt of them is learnt by heart.
std::string noise(int rows) {
  Generator generator(9);
  const auto values = randn({rows, 8}, generator).to_vector<float>();
  std::string text;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < 8; ++j) text += std::to_string(values[static_cast<std::size_t>(8 * i + j)]) + ",";
    text += i % 2 == 0 ? "a\n" : "b\n";
  }
  return text;
}

/// The last epoch that is marked as best.
Json best_of(const std::vector<Json>& events) {
  Json best;
  for (const Json& event : events)
    if (event["event"] == "epoch" && event.value("best", false)) best = event;
  return best;
}

}  // namespace

TEST_CASE("train: early stop keeps the weights of the best epoch", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", noise(80));
  const Outcome trained = tern({"train", "--dataset", "c.csv", "--epochs", "500", "--early-stop", "5", "--refit", "no",
                                "--schedule", "constant", "--learning-rate", "0.02", "--dropout", "0"},
                               {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto events = events_of(folder / "run");
  CHECK(events.back()["reason"] == "stopped early");
  CHECK(events.front()["data"]["training_examples"] == 64);
  CHECK(events.front()["data"]["stopping_examples"] == 12);  // 6 of the 32 of each class
  const Json best = best_of(events);
  CHECK(events.back()["epochs"] < 500);
  CHECK(events.back()["epochs"] <= best["epoch"].get<int>() + 5);  // earlier where the losses have turned
  CHECK(events.back()["best_epoch"] == best["epoch"]);
  // The saved model is of that epoch, judged on rows that had no part in the choice.
  CHECK(events.back()["loss"].get<double>() == Approx(best["validation_loss"].get<double>()).epsilon(1e-5));
  CHECK_THAT(trained.out, ContainsSubstring("the best epoch was " + best["epoch"].dump() + "; its weights are kept"));
}

TEST_CASE("train: a table by default stops early and trains anew on all its rows", "[tools][train]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", noise(80));
  const Outcome trained = tern({"train", "--dataset", "c.csv"}, {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto events = events_of(folder / "run");
  const Json best = best_of(events);
  int refits = 0;
  for (const Json& event : events)
    if (event["event"] == "refit") {
      ++refits;
      CHECK(event["epochs"] == best["epoch"]);
      CHECK(event["examples"] == 64);
    }
  CHECK(refits == 1);
  // As one training on all rows that stops after as many epochs of the same schedule.
  CHECK_THAT(trained.out, ContainsSubstring("trained again for as many on all 64 training examples"));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "200", "--dropout", "0.5", "--run", "all"},
               {.folder = folder.path()})
              .code == 0);
  const auto whole = events_of(folder / "all");
  for (const Json& event : whole)
    if (event["event"] == "epoch" && event["epoch"] == best["epoch"])
      CHECK(event["validation_loss"].get<double>() == Approx(events.back()["loss"].get<double>()).epsilon(1e-5));
}

}  // namespace tern::testing
