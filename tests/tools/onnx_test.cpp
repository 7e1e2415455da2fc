// ONNX files where the verbs of tern expect a model.

#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

#if TERN_TEST_ONNX
#include "onnx_model.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"
#endif

namespace tern::testing {

using Catch::ContainsSubstring;

#if TERN_TEST_ONNX

namespace {

std::string accuracy_in(const Outcome& tested) {
  INFO(tested.err);
  REQUIRE(tested.code == 0);
  const std::size_t at = tested.out.find("\"accuracy\": ");
  REQUIRE(at != std::string::npos);
  return tested.out.substr(at, tested.out.find(',', at) - at);
}

/// A network as others export it: no word of classes or of scaling.
void write_foreign(const std::string& file, std::int64_t classes, bool fixed_batch = false) {
  const nn::Sequential net{nn::Flatten(), nn::Linear(784, 16), nn::Relu(), nn::Linear(16, classes)};
  const Tensor example = ones({1, 1, 28, 28});
  graph::TraceOptions options;
  options.batch = !fixed_batch;
  onnx::save(graph::trace(net, example, options), file);
}

}  // namespace

TEST_CASE("onnx: a model goes to a file and back, and every verb takes the file", "[tools][onnx]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& words) { return tern(words, {.folder = folder.path()}); };
  const auto tested = [&](const char* model) {
    return accuracy_in(
        run({"test", "--model", model, "--dataset", "synthetic-digits", "--limit", "1000", "--format", "json"}));
  };
  REQUIRE(run({"train", "--dataset", "synthetic-digits", "--limit", "1000", "--epochs", "2", "--run", "m"}).code == 0);
  const Outcome made = run({"convert", "--model", "m", "--out", "digits.onnx"});
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK_THAT(made.out, ContainsSubstring("in digits.onnx"));
  const std::string expected = tested("m");
  CHECK(tested("digits.onnx") == expected);
  REQUIRE(run({"convert", "--model", "digits.onnx", "--out", "digits.tern"}).code == 0);
  CHECK(tested("digits.tern") == expected);

  CHECK(run({"predict", "--model", "digits.onnx", "--dataset", "synthetic-digits", "--limit", "20"}).code == 0);
  CHECK_THAT(run({"bench", "--model", "digits.onnx", "--modes", "vectorized", "--seconds", "0.05"}).out,
             ContainsSubstring("median"));
  CHECK_THAT(run({"graph", "--model", "digits.onnx"}).out, ContainsSubstring("linear("));
  CHECK_THAT(run({"info", "--model", "digits.onnx"}).out,
             ContainsSubstring("float32[n,1,28,28]") && ContainsSubstring("parameters") && ContainsSubstring("linear"));
  REQUIRE(run({"quantize", "--model", "digits.onnx", "--dataset", "synthetic-digits", "--limit", "1000", "--out",
               "small.tern", "--force", "--examples", "64"})
              .code == 0);
  CHECK(run({"test", "--model", "small.tern", "--dataset", "synthetic-digits", "--limit", "500"}).code == 0);
}

TEST_CASE("onnx: the network of somebody else is tested and trained", "[tools][onnx]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& words) { return tern(words, {.folder = folder.path()}); };
  write_foreign(folder / "ten.onnx", 10);
  write_foreign(folder / "seven.onnx", 7);
  write_foreign(folder / "one.onnx", 10, true);
  const std::vector<std::string> digits{"--dataset", "synthetic-digits", "--limit", "500"};
  const auto with_digits = [&](std::vector<std::string> words) {
    words.insert(words.end(), digits.begin(), digits.end());
    return run(words);
  };
  CHECK(with_digits({"test", "--model", "ten.onnx"}).code == 0);
  CHECK(with_digits({"test", "--model", "one.onnx"}).code == 0);  // one example at a time
  CHECK_THAT(with_digits({"test", "--model", "seven.onnx"}).err, ContainsSubstring("10 classes, expected 7"));

  const Outcome trained = with_digits({"train", "--init", "ten.onnx", "--epochs", "3", "--run", "r"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("onnx, 12,730 parameters") && ContainsSubstring("4 of 4 tensors"));
  CHECK(with_digits({"test", "--model", "r"}).code == 0);
  const Outcome other = with_digits({"train", "--init", "seven.onnx", "--epochs", "1", "--run", "s"});
  INFO(other.err);
  REQUIRE(other.code == 0);
  CHECK_THAT(other.err, ContainsSubstring("2 of 4 tensors"));  // another last layer
  REQUIRE(with_digits({"train", "--init", "ten.onnx", "--epochs", "3", "--run", "s", "--freeze", "1.*"}).code == 0);
  // In two parts, the same bits.
  auto part = digits;
  part.insert(part.begin(), {"train", "--init", "ten.onnx", "--run", "p", "--schedule", "constant", "--epochs"});
  const auto first = [&](const char* epochs) {
    auto words = part;
    words.insert(words.begin() + 8, epochs);
    return words;
  };
  REQUIRE(run(first("1")).code == 0);
  const Outcome resumed = run({"train", "--resume", "--run", "p", "--epochs", "2"});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
}

TEST_CASE("onnx: a file for one example whose sums go over the batch is not given several", "[tools][onnx]") {
  const TemporaryFolder folder;
  const nn::Linear net(4, 3);
  graph::TraceOptions options;
  options.batch = false;
  onnx::save(graph::trace(net, ones({1, 4}), options), folder / "apart.onnx");
  const auto mixing = [&](const std::vector<Tensor>& x) {
    const Tensor y = net(x[0]);
    return std::vector{y + operators::mean(y, {0}, true)};
  };
  onnx::save(graph::trace(mixing, {ones({1, 4})}, options), folder / "mixing.onnx");
  CHECK(tool::load_onnx_graph(folder / "apart.onnx").structure().batch > 0);
  CHECK(tool::load_onnx_graph(folder / "mixing.onnx").structure().batch == 0);
  write_foreign(folder / "one.onnx", 10, true);
  const Outcome small = tern({"quantize", "--model", "one.onnx", "--dataset", "synthetic-digits", "--limit", "200",
                              "--out", "small.tern", "--force"},
                             {.folder = folder.path()});
  CHECK(small.code == 2);
  CHECK_THAT(small.err, ContainsSubstring("takes one example at a time"));
}

TEST_CASE("onnx: what cannot be used is refused by its file", "[tools][onnx]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& words) { return tern(words, {.folder = folder.path()}); };
  const auto refused = [&](const char* model, const std::string& words) {
    const Outcome outcome = run({"test", "--model", model, "--dataset", "synthetic-digits"});
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(model) && ContainsSubstring(words));
  };
  refused("absent.onnx", "");
  write_bytes(folder / "torn.onnx", "\x08\x08\x3a\x7f torn");
  refused("torn.onnx", "not an ONNX file, or a damaged one");
  const auto two = graph::trace([](const std::vector<Tensor>& x) { return std::vector{operators::add(x[0], x[1])}; },
                                {ones({2, 3}), ones({2, 3})});
  onnx::save(two, folder / "two.onnx");
  refused("two.onnx", "takes 2 inputs");
  CHECK_THAT(run({"info", "--model", "two.onnx"}).out, ContainsSubstring("add"));
  CHECK(run({"convert", "--model", "two.onnx", "--out", "two.tern"}).code == 0);
  const auto values = graph::trace([](const std::vector<Tensor>& x) { return std::vector{operators::relu(x[0])}; },
                                   {ones({2, 3, 4, 5})});
  onnx::save(values, folder / "images.onnx");
  refused("images.onnx", "expected a score for each of two or more classes");
  write_foreign(folder / "ten.onnx", 10);
  onnx::save(onnx::load(folder / "ten.onnx"), folder / "named.onnx", {{"tern.classes", "a,b"}});
  refused("named.onnx", "2 names, expected 10");
  onnx::save(onnx::load(folder / "ten.onnx"), folder / "flat.onnx", {{"tern.deviation", "0"}});
  refused("flat.onnx", "expected numbers above 0");
  CHECK_THAT(run({"convert", "--model", "ten.onnx", "--out", "x.pth"}).err, ContainsSubstring(".onnx or .tern"));
  CHECK_THAT(run({"train", "--init", "images.onnx", "--dataset", "synthetic-digits"}).err,
             ContainsSubstring("images.onnx"));
}

#else

TEST_CASE("onnx: a build without ONNX says so", "[tools][onnx]") {
  const Outcome outcome = tern({"info", "--model", "x.onnx"});
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.err, ContainsSubstring("libprotozero-dev"));
}

#endif

}  // namespace tern::testing
