// Command lines: what is wrong with one is said in one sentence, with the documented exit code.

#include <filesystem>
#include <sstream>

#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

struct Wrong {
  std::string line;     // words behind "tern", separated by blanks; "''" is an empty word
  int code;             // documented: 1 failed, 2 usage, 3 data, 4 device
  std::string culprit;  // what the sentence must name
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  return words;
}

const std::vector<std::string> verbs{"train",  "test",    "predict", "tune",     "report",     "bench", "info",
                                     "export", "convert", "graph",   "quantize", "completion", "man"};

}  // namespace

TEST_CASE("usage: bad command lines", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60, "x,y,z,kind\n"));
  write_bytes(folder / "two.csv", "1,2,a\n2,3,b\n1,2,a\n2,3,b\n1,1,a\n4,4,b\n");
  write_bytes(folder / "config.json", "{\"epochs\": 2, \"bogus\": 1}");
  write_bytes(folder / "list.json", "[1]");
  write_bytes(folder / "nested.json", "{\"epochs\": {\"a\": 1}}");
  write_bytes(folder / "type.json", "{\"epochs\": \"many\"}");
  fs::create_directory(folder / "empty");
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--run", "m"}, {.folder = folder.path()}).code == 0);
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--run", "all", "--validation", "0"},
               {.folder = folder.path()})
              .code == 0);
  const std::string t = "train --dataset c.csv --run r ";
  const std::vector<Wrong> table{
      {"trian", 2, "did you mean tern train"},
      {"--dataset c.csv", 2, "--dataset"},
      {"''", 2, "no verb ''"},
      {"train", 2, "--dataset is missing"},
      {"train --dataset", 2, "--dataset needs a value"},
      {"train --dataset --epochs 3", 2, "--dataset needs a value"},
      {"train --dataset c.csv -- --epochs 3", 2, "does not accept '--epochs'"},
      {"train --dataset c.csv -", 2, "does not accept '-'"},
      {"train --dataset c.csv ---epochs=3", 2, "there is no option ---epochs"},
      {"train --dataset ''", 2, "--dataset"},
      {"train --dataset=", 2, "--dataset"},
      {"train c.csv", 2, "does not accept 'c.csv'"},
      {"train --dataset c.csv --bogus 1", 2, "--bogus"},
      {"train --dataset c.csv --epoch 1", 2, "did you mean --epochs"},
      {"train --dataset c.csv --lerning_rate=1", 2, "did you mean --learning-rate"},
      {"train --dataset c.csv -e 5", 2, "-e"},
      {"train --dataset nowhere.csv", 3, "nowhere.csv"},
      {"train --dataset empty", 3, "empty"},
      {"train --dataset mnist --data empty", 3, "empty"},
      {"train --dataset c.csv --run c.csv", 3, "c.csv"},
      {t + "--epochs 0", 2, "--epochs: found '0'"},
      {t + "--epochs -3", 2, "--epochs: found '-3'"},
      {t + "--epochs many", 2, "--epochs: found 'many'"},
      {t + "--epochs 1.5", 2, "--epochs: found '1.5'"},
      {t + "--epochs 99999999999999999999", 2, "--epochs"},
      {t + "--epochs 1 --epochs 2", 2, "--epochs is set 2 times"},
      {t + "--epochs", 2, "--epochs needs a value"},
      {t + "--batch-size 0", 2, "--batch-size: found '0'"},
      {t + "--batch_number x", 2, "--batch-size: found 'x'"},
      {t + "--learning-rate 0", 2, "--learning-rate: found 0"},
      {t + "--learning-rate -1", 2, "--learning-rate: found -1"},
      {t + "--learning-rate nan", 2, "--learning-rate: found 'nan'"},
      {t + "--learning-rate 1e999", 2, "--learning-rate"},
      {t + "--learning-rate 0,1", 2, "--learning-rate: found '0,1'"},
      {t + "--momentum 1", 2, "--momentum: found 1"},
      {t + "--momentum 0.5", 2, "--momentum is for --optimizer sgd"},
      {t + "--nesterov", 2, "--nesterov is for --optimizer sgd"},
      {t + "--optimizer sgd --nesterov --momentum 0", 2, "--nesterov needs a --momentum"},
      {t + "--nesterov=perhaps", 2, "nesterov"},
      {t + "--weight-decay -0.1", 2, "--weight-decay: found -0.1"},
      {t + "--dropout 1", 2, "--dropout: found 1"},
      {t + "--validation 1", 2, "--validation: found 1"},
      {t + "--validation -0.1", 2, "--validation"},
      {t + "--stopping 0 --early-stop 3", 2, "--early-stop"},
      {t + "--refit yes --epochs 3", 2, "--refit"},
      {t + "--seed -1", 2, "--seed: found '-1'"},
      {t + "--seed 18446744073709551616", 2, "--seed"},
      {t + "--threads 5000", 2, "--threads: found '5000'"},
      {t + "--keep 0", 2, "--keep: found '0'"},
      {t + "--port 70000", 2, "--port: found '70000'"},
      {t + "--optimizer rmsprop", 2, "--optimizer: found 'rmsprop', expected sgd, adam or adamw"},
      {t + "--activation swish", 2, "--activation: found 'swish'"},
      {t + "--cost log", 2, "--cost: found 'log'"},
      {t + "--precision fp16", 2, "--precision: found 'fp16'"},
      {t + "--header maybe", 2, "--header: found 'maybe'"},
      {t + "--schedule linear", 2, "--schedule: found 'linear'"},
      {t + "--schedule step", 2, "--schedule: found 'step'"},
      {t + "--schedule step:0", 2, "--schedule: found '0'"},
      {t + "--schedule step:5:2", 2, "--schedule: found the factor 2"},
      {t + "--schedule cosine:200", 2, "--schedule: found a warm-up of 200"},
      {t + "--mode tpu", 4, "tpu"},
      {t + "--net resnet101", 2, "--net: found 'resnet101'"},
      {t + "--net lenet", 2, "--net lenet takes examples of 1x28x28"},
      {t + "--net vgg16", 2, "--net vgg16 takes colour images"},
      {t + "--net lenet --layers 3,3", 2, "--layers and --net are both set"},
      {t + "--layers 3", 2, "--layers: found '3'"},
      {t + "--layers 3,0,3", 2, "--layers: found '0'"},
      {t + "--layers 3,,3", 2, "--layers: found ''"},
      {t + "--layers 4,8,3", 2, "--layers begins with 4"},
      {t + "--layers 3,8,4", 2, "--layers ends with 4"},
      {t + "--layers 3,16777217,3", 2, "--layers: found '16777217'"},
      {t + "--target colour", 3, "named 'colour'"},
      {t + "--target 9", 3, "the number 9"},
      {t + "--ignore x,y,z", 3, "at least one feature"},
      {t + "--ignore ,", 2, "--ignore"},
      {t + "--target kind --ignore kind", 3, "among the columns to ignore"},
      {t + "--limit -1", 2, "--limit"},
      {t + "--config nowhere.json", 3, "nowhere.json"},
      {t + "--config config.json", 2, "config.json: there is no option --bogus"},
      {t + "--config list.json", 3, "list.json"},
      {t + "--config nested.json", 2, "nested.json: --epochs"},
      {t + "--config type.json", 2, "type.json: --epochs: found 'many'"},
      {t + "--model nowhere/m.safetensors --epochs 1", 3, "nowhere/m.safetensors"},
      {t + "--model c.csv", 2, "c.csv is read here and would be overwritten"},
      {t + "--model two.csv", 3, "two.csv: is no model and would be overwritten"},
      {t + "--model empty", 3, "empty: expected a regular file"},
      {"test --model m --dataset c.csv --out c.csv", 2, "c.csv is read here"},
      {"test --model m --dataset c.csv --out m/model.safetensors", 2, "m/model.safetensors is read here"},
      {"predict --model m --dataset c.csv --out ./m/../c.csv", 2, "c.csv is read here"},
      {"export --model m --out m/model.safetensors", 2, "m/model.safetensors is read here"},
      {"report m --out m/metrics.jsonl", 2, "m/metrics.jsonl is read here"},
      {"test", 2, "--model is missing"},
      {"test --model m", 2, "--dataset is missing"},
      {"test --model nowhere --dataset c.csv", 3, "nowhere"},
      {"test --model empty --dataset c.csv", 3, "empty"},
      {"test --model c.csv --dataset c.csv", 3, "c.csv"},
      {"test --model m --dataset two.csv", 3, "two.csv:1:1: found 3 columns and no header, expected one named 'kind'"},
      {"test --model m --dataset synthetic-digits", 2, "was trained on a table"},
      {"test --model m --dataset c.csv --format xml", 2, "--format: found 'xml'"},
      {"test --model all --dataset c.csv --held-out", 2, "--held-out"},
      {"test --model m --dataset c.csv --out nowhere/x", 3, "nowhere/x"},
      {"predict --model m", 2, "--dataset is missing"},
      {"predict --model m --dataset c.csv c.jpg", 2, "both set"},
      {"predict --model m photo.jpg", 2, "photo.jpg is an image"},
      {"tune --dataset c.csv", 2, "--grid is missing"},
      {"tune --dataset c.csv --grid epochs", 2, "--grid: found 'epochs'"},
      {"tune --dataset c.csv --grid seed=1 --halving 1", 2, "--halving"},
      {"tune --dataset c.csv --random 0 --range dropout=0:0.5", 2, "--random: found '0'"},
      {"tune --dataset c.csv --grid dropout=0,1", 2, "--dropout: found 1"},
      {"report", 2, "folder of a run"},
      {"report nowhere", 3, "nowhere/metrics.jsonl"},
      {"report m --out nowhere/r.html", 3, "nowhere/r.html"},
      {"bench --nets lenett", 2, "did you mean"},
      {"bench --batches 0", 2, "--batches: found '0'"},
      {"bench --modes gpu", 4, "gpu"},
      {"bench --seconds 0", 2, "--seconds: found 0"},
      {"info now", 2, "does not accept 'now'"},
      {"export --model m", 2, "--out is missing"},
      {"export --model m --out w --format onnx", 2, "--format: found 'onnx'"},
      {"export --model nowhere --out w", 3, "nowhere"},
      {"completion", 2, "bash, zsh or fish"},
      {"completion powershell", 2, "bash, zsh or fish"},
  };
  CHECK(table.size() >= 60);
  for (const Wrong& wrong : table) {
    const Outcome outcome = tern(words_of(wrong.line), {.seconds = 20, .folder = folder.path()});
    INFO("tern " << wrong.line << "\n" << outcome.err);
    CHECK_FALSE(outcome.timed_out);
    CHECK(outcome.code == wrong.code);
    const auto last = outcome.err.rfind("tern: ");
    REQUIRE(last != std::string::npos);
    const std::string sentence = outcome.err.substr(last);
    CHECK_THAT(sentence, ContainsSubstring(wrong.culprit));
    CHECK(std::count(sentence.begin(), sentence.end(), '\n') == 1);
    CHECK(sentence.size() < 400);
  }
  // None of them did harm.
  CHECK(read_bytes(folder / "c.csv") == clusters(60, "x,y,z,kind\n"));
  CHECK(tern({"test", "--model", "m", "--dataset", "c.csv"}, {.folder = folder.path()}).code == 0);
}

TEST_CASE("usage: the help of every verb fits a screen and shows an example", "[tools][usage]") {
  for (const std::string& verb : verbs) {
    INFO(verb);
    const Outcome help = tern({verb, "--help"});
    CHECK(help.code == 0);
    CHECK(help.err == "");
    CHECK_THAT(help.out, ContainsSubstring("usage: tern " + verb));
    CHECK_THAT(help.out, ContainsSubstring("example:"));
    CHECK(std::count(help.out.begin(), help.out.end(), '\n') <= 24);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
  CHECK(tern({"--help"}).code == 0);
  CHECK_THAT(tern({"--version"}).out, ContainsSubstring("tern "));
  const Outcome nothing = tern({});
  CHECK(nothing.code == 2);
  CHECK_THAT(nothing.err, ContainsSubstring("usage: tern VERB"));
}

TEST_CASE("usage: the options are one table for help, man page and completion", "[tools][usage]") {
  const std::string help = tern({"train", "--help-all"}).out, page = tern({"man"}).out,
                    bash = tern({"completion", "bash"}).out, zsh = tern({"completion", "zsh"}).out,
                    fish = tern({"completion", "fish"}).out;
  int options = 0;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  --")) continue;
    const std::string name = line.substr(4, line.find(' ', 4) - 4);
    std::string escaped;
    for (const char c : name) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
    INFO(name);
    CHECK_THAT(page, ContainsSubstring("\\-\\-" + escaped));
    CHECK_THAT(bash, ContainsSubstring(" --" + name));
    CHECK_THAT(zsh, ContainsSubstring("--" + name + "["));
    CHECK_THAT(fish, ContainsSubstring(" -l " + name + " "));
    ++options;
  }
  CHECK(options > 35);
}

TEST_CASE("usage: bash completes verbs, options and values", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "tern.bash", tern({"completion", "bash"}).out);
  const auto completed = [&](const std::string& words) {
    const std::string script = "source ./tern.bash; COMP_WORDS=(" + words +
                               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tern; echo ${COMPREPLY[@]}";
    return Process({"/bin/bash", "-c", script}, {.folder = folder.path()}).wait().out;
  };
  CHECK(completed("tern tr") == "train\n");
  CHECK(completed("tern train --act") == "--activation\n");
  CHECK(completed("tern train --activation s") == "sigmoid softplus\n");
  CHECK(completed("tern train --run ''") == "\n");
  CHECK(completed("tern train --dataset ter") == "tern.bash\n");
}

TEST_CASE("usage: info says what a bug report needs", "[tools][usage]") {
  const Outcome info = tern({"info"});
  CHECK(info.code == 0);
  for (const char* word :
       {"tern ", "system", "processor", "threads", "sequential", "vectorized", "cuda", "zlib", "Highway", "libjpeg"})
    CHECK_THAT(info.out, ContainsSubstring(word));
  CHECK_THAT(tern({"info", "--json"}).out, ContainsSubstring("\"modes\": ["));
}

TEST_CASE("usage: info shows what kernels choose between, and what they take in a net", "[tools][usage]") {
  const Outcome all = tern({"info", "--choices", "lenet", "--batch", "2"});
  CHECK(all.code == 0);
  // What a processor's instructions add to the three algorithms follows them in their line.
  for (const char* line : {"sequential chooses between\n  every operator has one algorithm\n",
                           "vectorized chooses between\n", "  conv2d               im2col rows winograd",
                           "  in lenet, training of 2, strict\n", "  in lenet, inference of 2, strict\n"})
    CHECK_THAT(all.out, ContainsSubstring(line));
  const auto forced = [](const std::string& algorithm) {
    return tern({"info", "--choices", "lenet", "--mode", "vectorized"},
                {.environment = {"TERN_ALGORITHM=conv2d:" + algorithm}})
        .out;
  };
  CHECK_THAT(forced("rows"), ContainsSubstring("[32,1,28,28]") && ContainsSubstring("conv2d:rows") &&
                                 !ContainsSubstring("conv2d:im2col"));
  CHECK_THAT(forced("im2col"), ContainsSubstring("conv2d:im2col") && !ContainsSubstring("conv2d:rows"));
  CHECK(tern({"info", "--choices", "lenin"}).code == 2);
  CHECK(tern({"info", "--choices", "lenet", "--json"}).code == 2);
}

TEST_CASE("usage: bench measures every mode, export writes what others read", "[tools][usage]") {
  const Outcome bench =
      tern({"bench", "--nets", "mlp-small", "--batches", "4", "--seconds", "0.05", "--format", "csv"});
  REQUIRE(bench.code == 0);
  for (const char* row :
       {"mlp-small,train,4,sequential,", "mlp-small,train,4,vectorized,", "mlp-small,infer,4,vectorized,"})
    CHECK_THAT(bench.out, ContainsSubstring(row));
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--run", "m"}, {.folder = folder.path()}).code == 0);
  CHECK(tern({"export", "--model", "m", "--out", "w.safetensors"}, {.folder = folder.path()}).code == 0);
  CHECK(tern({"export", "--model", "m", "--format", "npy", "--out", "w"}, {.folder = folder.path()}).code == 0);
  CHECK(read_bytes(folder / "w/0.weight.npy").find("'shape': (128,3,), }") != std::string::npos);
  CHECK(fs::exists(folder / "w/model.json"));
}

TEST_CASE("usage: a closed pipe and a full standard output are errors, not crashes", "[tools][usage]") {
  const TemporaryFolder folder;
  const Outcome full = Process({"/bin/sh", "-c", std::string(program_path) + " info > /dev/full"}, {}).wait();
  CHECK(full.code == 1);
  CHECK_THAT(full.err, ContainsSubstring("standard output cannot be written"));
}

TEST_CASE("usage: what is printed to a closed stream goes into no file", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const std::string train = std::string(program_path) + " train --dataset c.csv --epochs 2 --run r";
  const Outcome outcome = Process({"/bin/sh", "-c", train + " <&- >&- 2>&-"}, {.folder = folder.path()}).wait();
  CHECK(outcome.code == 1);
  CHECK(tern({"report", "r"}, {.folder = folder.path()}).code == 0);
  CHECK(tern({"test", "--model", "r", "--dataset", "c.csv"}, {.folder = folder.path()}).code == 0);
}

TEST_CASE("usage: no file names a program to run", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", "1,2,x\n3,4,y\n");
  write_bytes(folder / "evil.json",
              R"({"dataset": "c.csv", "restarts": 1, "ranks": 2, "parallel": "mpi", "launcher": "touch owned"})");
  const Outcome outcome = tern({"train", "--config", "evil.json"}, {.folder = folder.path()});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("evil.json: --launcher names a program to run"));
  CHECK_FALSE(std::filesystem::exists(folder / "owned"));
}

TEST_CASE("usage: names that are not UTF-8 are refused before anything is trained", "[tools][usage]") {
  const TemporaryFolder folder;
  const std::string name = "caf\xe9.csv";
  write_bytes(folder / name, "1,2,x\n3,4,y\n5,6,x\n7,8,y\n");
  const Outcome outcome = tern({"train", "--dataset", name, "--epochs", "1"}, {.folder = folder.path()});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("--dataset: found") && ContainsSubstring("not UTF-8"));
}

TEST_CASE("usage: a training says how many threads it was given", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", "1,2,x\n3,4,y\n5,6,x\n7,8,y\n");
  const auto said = [&](const char* mode, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", "--dataset", "c.csv", "--epochs", "1", "--mode", mode};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tern(words, {.folder = folder.path()});
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  CHECK_THAT(said("vectorized", {"--threads", "1"}), ContainsSubstring("in mode vectorized (at most 1 of "));
  CHECK_THAT(said("vectorized", {}), !ContainsSubstring("at most"));
  CHECK_THAT(said("sequential", {"--threads", "1"}), !ContainsSubstring("at most"));
}

TEST_CASE("usage: a resumed training says that it found nothing", "[tools][usage]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", "1,2,x\n3,4,y\n5,6,x\n7,8,y\n");
  const Outcome outcome =
      tern({"train", "--dataset", "c.csv", "--epochs", "1", "--resume", "--run", "r"}, {.folder = folder.path()});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("--resume found no checkpoint in r: the training starts over"));
}

TEST_CASE("usage: metrics that are none are named without the reader's own words", "[tools][usage]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "r");
  for (const char* line : {R"({"event": 1e999})", R"({"event": "folds", "folds": 3, "x": "\ud800"})"}) {
    write_bytes(folder / "r/metrics.jsonl", std::string(line) + "\n");
    const Outcome outcome = tern({"report", "r"}, {.folder = folder.path()});
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("metrics.jsonl:1") && !ContainsSubstring("json.exception"));
  }
}

}  // namespace tern::testing
