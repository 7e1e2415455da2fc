// Parts of the program that its words alone do not show: run folders, costs, sheets, scores and plans.

#include <cmath>
#include <filesystem>

#include "data_sets.hpp"
#include "early_stopping.hpp"
#include "errors.hpp"
#include "evaluation.hpp"
#include "importance.hpp"
#include "init_columns.hpp"
#include "names.hpp"
#include "page.hpp"
#include "predict_sheet.hpp"
#include "run_folder.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"
#include "training.hpp"
#include "tune_plan.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using namespace tool;
namespace fs = std::filesystem;

TEST_CASE("inside: a run that goes on cuts off what came after its checkpoint", "[tools][inside]") {
  const TemporaryFolder folder;
  const auto open_files = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_files();
  std::uint64_t bytes = 0;
  {
    RunFolder run(folder / "run");
    CHECK_FALSE(run.begin());
    run.write({{"event", "a"}});
    bytes = run.bytes();
    run.write({{"event", "b"}});
  }
  CHECK(open_files() == before);
  {
    RunFolder run(folder / "run");
    run.resume(bytes);
    CHECK(run.bytes() == bytes);
    run.write({{"event", "c"}});
  }
  std::string seen;
  read_metrics(folder / "run", [&](const Json& event) { seen += event["event"].get<std::string>(); });
  CHECK(seen == "ac");
  // What another training leaves goes aside, with its folds.
  fs::create_directory(folder / "run/fold-1");
  RunFolder again(folder / "run");
  CHECK(again.begin());
  CHECK(fs::exists(folder / "run/previous/fold-1"));
  CHECK_FALSE(fs::exists(folder / "run/fold-1"));
}

TEST_CASE("inside: texts as tables, pages and terminals hold them", "[tools][inside]") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a \"b\"") == "\"a \"\"b\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  CHECK(in_script("</script>") == "\\u003c/script>");
  CHECK_THAT(page({{"</script>", {}}}), !ContainsSubstring("\"</script>"));
  CHECK(wrapped("aaa bbb", 6) == std::vector<std::string>{"aaa", "bbb"});
  CHECK(wrapped("aaa bbb", 7) == std::vector<std::string>{"aaa bbb"});
}

TEST_CASE("inside: costs, scores and schedules are what their names say", "[tools][inside]") {
  const Tensor logits = tensor<float>({0.5f, -2, 0.25f, 3}, {2, 2});
  const Tensor labels = tensor<std::int64_t>({0, 1}), targets = tensor<float>({1, -1, -1, 1}, {2, 2});
  CHECK(Cost("hinge")(logits, labels).item() == operators::hinge(logits, targets).item());
  CHECK(scores_of("binary-cross-entropy", logits).values() == operators::sigmoid(logits).values());
  CHECK(parse_schedule("cosine:4", 10)(0) < 1);
  CHECK(parse_schedule("cosine", 10)(0) == 1);
  for (const char* const text : {"cosine:10", "step:1:2", "step:1:0", "exponential:1.5"})
    CHECK_THROWS_AS(parse_schedule(text, 10), UsageError);
}

namespace {

/// Rows [n, columns] of a table whose targets are numbers, met by a net that says its only input again.
struct Numbers {
  Blueprint blueprint{.table = true, .regression = true, .input = {1}};
  Examples examples;
  nn::Linear net{1, 1};
  explicit Numbers(std::int64_t rows) {
    Generator generator(4);
    examples.memory.images = randn({rows, 1}, generator);
    examples.memory.labels = examples.memory.images + randn({rows, 1}, generator, 0.1, 0.5);
    examples.memory.classes = data::no_classes;
    blueprint.encoding.columns = {{.name = "x"}};
    blueprint.target_scaling = {{0}, {3}};
    blueprint.cost = "mse";
    net.load_state({{"weight", ones({1, 1})}, {"bias", zeros({1})}});
  }
};

}  // namespace

TEST_CASE("inside: a score of several batches is that of all rows, with its error", "[tools][inside]") {
  for (const std::int64_t rows : {4, 1500}) {
    CAPTURE(rows);
    Numbers set(rows);
    const Score found = *score(
        set.net, set.blueprint, set.examples, [] { return false; }, true);
    const std::vector<double> x = set.examples.memory.images.values(), y = set.examples.memory.labels.values();
    const auto n = static_cast<double>(rows);
    double mean = 0, squares = 0, fourth = 0, variance = 0;
    for (const double value : y) mean += value / n;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double square = (x[i] - y[i]) * (x[i] - y[i]);
      squares += square / n;
      fourth += square * square / n;
      variance += (y[i] - mean) * (y[i] - mean) / n;
    }
    CHECK(found.loss == Approx(squares));
    CHECK(found.accuracy == Approx(1 - squares / variance));
    CHECK(found.rmse == Approx(3 * std::sqrt(squares)));
    if (rows == 4) CHECK(found.error == Approx(std::sqrt((fourth - squares * squares) / n)));
    CHECK(found.error > 0);
    CHECK(found.error < found.loss);
  }
}

namespace {

/// A source whose example 5 cannot be read.
class WithHole final : public data::ExampleSource {
 public:
  std::int64_t size() const override { return 12; }
  std::int64_t classes() const override { return 2; }
  Shape shape() const override { return {1}; }
  std::int64_t label(std::int64_t index) const override { return index % 2; }
  std::string name() const override { return "a set with a hole"; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    to[0] = static_cast<float>(index);
    return index == 5 ? std::nullopt : std::optional(label(index));
  }
};

}  // namespace

TEST_CASE("inside: what cannot be read is missing among the rows of a prediction", "[tools][inside]") {
  const Blueprint blueprint{.input = {1}, .classes = {"a", "b"}, .cost = "cross-entropy"};
  Generator generator(1);
  nn::Linear net(1, 2, {}, generator);
  Examples examples;
  examples.source = std::make_shared<const WithHole>();
  const Prediction found = predict(net, blueprint, examples);
  CHECK(found.rows == std::vector<std::int64_t>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11});
  CHECK(found.actual == std::vector<std::int64_t>{0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1});
}

TEST_CASE("inside: an evaluation has what it is in rows, and no ROC AUC of one class", "[tools][inside]") {
  Prediction prediction{.classes = 2,
                        .scores = {0.9f, 0.1f, 0.2f, 0.8f, 0.3f, 0.7f},
                        .predicted = {0, 1, 1},
                        .actual = {0, 0, 1},
                        .rows = {0, 1, 2}};
  CHECK(evaluate(prediction).confusion.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 0, 1});
  CHECK(evaluate(prediction).auc == 0.5);
  prediction.actual = {1, 1, 1};
  CHECK_FALSE(evaluate(prediction).auc);
}

TEST_CASE("inside: what is held out has no part in the scales", "[tools][inside]") {
  const TemporaryFolder folder;
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i) text += message(0.5 + i * i, ",", 3.25 * i * i, "\n");
  write_bytes(folder / "t.csv", text);
  Settings settings;
  settings.dataset = folder / "t.csv";
  settings.task = "regression";
  const TrainingData data = load_training_data(settings);
  REQUIRE(data.held_out.size() > 0);
  for (const Tensor& part : {data.train.memory.images, data.train.memory.labels}) {
    double sum = 0, squares = 0;
    for (const double value : part.values()) {
      sum += value;
      squares += value * value;
    }
    CHECK(std::abs(sum) < 1e-4);
    CHECK(squares == Approx(static_cast<double>(data.train.size())).epsilon(1e-4));
  }
}

TEST_CASE("inside: rows for a glance come from all parts of a set", "[tools][inside]") {
  Numbers set(60000);
  set.examples.memory.images = tern::arange(0, 60000).to(DType::float32).reshape({60000, 1});
  const std::vector<float> rows = some_of(set.examples, set.blueprint, 100).memory.images.to_vector<float>();
  CHECK(rows.size() == 5000);
  CHECK(rows.front() == 0);
  CHECK(rows.back() == 59988);
}

TEST_CASE("inside: examples set aside are another draw than those held out", "[tools][inside]") {
  TrainingData data;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 100; ++i) labels.push_back(i % 2);
  data.train.memory = {.images = tern::arange(0, 100).to(DType::float32).reshape({100, 1}),
                       .labels = tensor(labels, {100}),
                       .classes = 2};
  data.blueprint = {.table = true, .input = {1}, .classes = {"a", "b"}, .examples = 100};
  Settings settings;
  settings.early_stop = 3;
  const std::vector<float> aside = divide(settings, data).stopping.memory.images.to_vector<float>();
  const data::SplitRows held = data::split_rows(labels, 2, settings.stopping, settings.split);
  REQUIRE(aside.size() == held.validation.size());
  CHECK(aside != std::vector<float>(held.validation.begin(), held.validation.end()));
}

TEST_CASE("inside: balanced weights of a class without examples", "[tools][inside]") {
  TrainingData data;
  data.train.memory = {.images = ones({4, 1}), .labels = tensor<std::int64_t>({0, 0, 0, 1}), .classes = 3};
  data.blueprint = {.table = true,
                    .input = {1},
                    .classes = {"a", "b", "c"},
                    .encoding = {.columns = {{.name = "x"}}},
                    .source = "three",
                    .examples = 4};
  Settings settings;
  settings.layers = {1, 3};
  settings.epochs = 1;
  settings.batch_size = 2;
  settings.class_weights = "balanced";
  complete(settings, data);
  const Training training(settings, data);
  const std::vector<double>& weights = training.blueprint().class_weights;
  REQUIRE(weights.size() == 3);
  CHECK(weights[0] == Approx(2.0 / 3));
  CHECK(weights[1] == Approx(2));
  CHECK(weights[2] == 1);
}

TEST_CASE("inside: a range of whole numbers holds both its ends", "[tools][inside]") {
  Settings settings;
  std::vector<Dimension> dimensions;
  add_range(dimensions, "batch-size=1:3:linear", training_options(settings));
  std::string all;
  for (const Trial& trial : drawn_combinations(dimensions, 3, 1)) all += trial.values[0].second + " ";
  for (const char* const value : {"1 ", "2 ", "3 "}) CHECK_THAT(all, ContainsSubstring(value));
}

TEST_CASE("inside: a sheet shows the surest mistakes first, and no more pictures than it says", "[tools][inside]") {
  const TemporaryFolder folder;
  constexpr std::int64_t count = 245;
  const Blueprint blueprint{.input = {1, 2, 2}, .classes = {"cat", "dog"}, .scaling = {{0}, {1}}, .net = "lenet"};
  Examples set;
  set.memory.images = zeros({count, 1, 2, 2}, DType::uint8);
  set.memory.classes = 2;
  Prediction prediction{.classes = 2, .probabilities = true};
  SheetNames names{.by = "label"};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sure = static_cast<float>(500 + 2 * i) / 1000;  // from 50 to 98.8 per cent
    prediction.scores.insert(prediction.scores.end(), {sure, 1 - sure});
    prediction.predicted.push_back(0);
    prediction.rows.push_back(i);
    names.expected.push_back(i < 10 ? 1 : 0);
  }
  write_predict_sheet(folder / "sheet.html", "m", set, prediction, names, blueprint);
  const std::string html = read_bytes(folder / "sheet.html");
  const auto at = [&](const char* text) { return html.find(text); };
  CHECK(at("51.8 % sure") < at("50.0 % sure"));  // of those that differ
  CHECK(at("50.0 % sure") < at("52.0 % sure"));  // of the others
  CHECK(at("52.0 % sure") < at("52.2 % sure"));
  std::size_t shown = 0;
  for (std::size_t place = html.find(" % sure\""); place != std::string::npos;
       place = html.find(" % sure\"", place + 1))
    ++shown;
  CHECK(shown == 240);
}

TEST_CASE("inside: columns are matched with their indicators, categories and vectors", "[tools][inside]") {
  Blueprint before{.table = true, .header = true, .net = "mlp"};
  before.encoding.columns = {{.name = "x", .indicator = true}, {.name = "y"}};
  Blueprint now = before;
  now.encoding.columns = {{.name = "y"}, {.name = "word", .categories = {"a", "b"}}, {.name = "x", .indicator = true}};
  nn::State weights{{"0.weight", tensor<float>({1, 2, 3}, {1, 3})}};  // x, x is missing, y
  const nn::State fresh{{"0.weight", tensor<float>({10, 20, 30, 40, 50}, {1, 5})}};
  CHECK(match_columns(weights, before, now, fresh) == std::vector<std::string>{"word"});
  CHECK(weights.at("0.weight").values() == std::vector<double>{3, 20, 30, 1, 2});

  // Vectors of another size begin anew.
  before.encoding.columns = now.encoding.columns = {{.name = "word", .categories = {"a", "b"}}};
  before.embedding = {2};
  now.embedding = {3};
  nn::State vectors{{"1.weight", zeros({1, 2})}, {"embeddings.0", zeros({2, 2})}};
  const nn::State others{{"1.weight", ones({1, 3})}, {"embeddings.0", ones({2, 3})}};
  match_columns(vectors, before, now, others);
  CHECK(vectors.at("embeddings.0").values() == std::vector<double>(6, 1));
}

}  // namespace tern::testing
