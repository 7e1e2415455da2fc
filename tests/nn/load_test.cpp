// Weights that come from another training, and those that stay as they are.

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/npy.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;

namespace {

using Names = std::vector<std::string>;

nn::Sequential classifier(std::int64_t classes) {
  Generator generator(7);
  return nn::Sequential(nn::Linear(4, 3, {}, generator), nn::Relu(), nn::Linear(3, classes, {}, generator));
}

std::vector<double> values_of(const nn::Module& module, const std::string& name) {
  return module.state().at(name).values();
}

}  // namespace

TEST_CASE("load: all of a file, or an error that lists what does not fit", "[nn][load]") {
  const testing::TemporaryFolder folder;
  nn::Sequential there = classifier(2), here = classifier(2);
  {
    const NoGrad no_grad;
    for (Tensor& tensor : there.parameters()) tensor.fill_(0.5);
  }
  for (const std::string& file : {folder / "w.safetensors", folder / "w.npz"}) {
    if (file.ends_with("npz"))
      io::save_npz(file, there.state());
    else
      io::save_safetensors(file, there.state());
    nn::Sequential fresh = classifier(2);
    const nn::LoadReport report = nn::load(fresh, file);
    CHECK(report.whole());
    CHECK(report.taken == Names{"0.bias", "0.weight", "2.bias", "2.weight"});
    CHECK(values_of(fresh, "2.weight") == std::vector<double>(6, 0.5));
  }
  nn::Sequential other = classifier(5);
  const std::vector<double> before = values_of(other, "0.weight");
  try {
    nn::load(other, folder / "w.safetensors");
    FAIL("expected an error");
  } catch (const FileError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("w.safetensors: does not fit Sequential"));
    CHECK_THAT(error.what(), ContainsSubstring("different: 2.weight is [5,3] here and [2,3] there"));
    CHECK_THAT(error.what(), ContainsSubstring("strict = false"));
  }
  CHECK(values_of(other, "0.weight") == before);
}

TEST_CASE("load: what fits is taken, the rest reported and left alone", "[nn][load]") {
  nn::Sequential here = classifier(5);
  nn::State there;
  for (const auto& [name, tensor] : classifier(2).state()) there.emplace("model." + name, full(tensor.shape(), 2.0));
  there.emplace("model.aux.weight", ones({3}));
  there.emplace("optimizer.0.weight", ones({3, 4}));
  there.erase("model.0.bias");
  const std::vector<double> head = values_of(here, "2.weight"), bias = values_of(here, "0.bias");
  const nn::LoadReport report = nn::load(here, there, {.prefix = "model.", .strict = false});
  CHECK(report.taken == Names{"0.weight"});
  CHECK(report.missing == Names{"0.bias"});
  CHECK(report.unexpected == Names{"aux.weight"});
  REQUIRE(report.differing.size() == 2);
  CHECK(report.differing[1].name == "2.weight");
  CHECK(report.differing[1].here == Shape{5, 3});
  CHECK(report.differing[1].there == Shape{2, 3});
  CHECK_FALSE(report.whole());
  CHECK(report.text() ==
        "1 of 4 tensors were taken\n  different: 2.bias is [5] here and [2] there\n"
        "  different: 2.weight is [5,3] here and [2,3] there\n  missing: 0.bias\n  left over: aux.weight");
  CHECK(values_of(here, "0.weight") == std::vector<double>(12, 2.0));
  CHECK(values_of(here, "2.weight") == head);
  CHECK(values_of(here, "0.bias") == bias);
}

TEST_CASE("load: names are brought together, and dtypes of one kind converted", "[nn][load]") {
  nn::Sequential here = classifier(2);
  nn::State there;
  there.emplace("backbone.first.weight", full({3, 4}, 3.0, DType::float64));
  there.emplace("backbone.first.bias", full({3}, 3.0));
  there.emplace("backbone.head.weight", full({2, 3}, 1.0));
  there.emplace("backbone.head.bias", full({2}, 4, DType::int64));
  const nn::ImportOptions options{
      .prefix = "backbone.", .rename = {{"first.", "0."}, {"head.", "2."}, {"h", "never"}}, .strict = false};
  const nn::LoadReport report = nn::load(here, there, options);
  CHECK(report.taken == Names{"0.bias", "0.weight", "2.weight"});
  CHECK(values_of(here, "0.weight") == std::vector<double>(12, 3.0));
  REQUIRE(report.differing.size() == 1);
  CHECK_THAT(report.text(), ContainsSubstring("different: 2.bias is [2] here and [2] there, float32 and int64"));

  nn::ImportOptions clash = options;
  clash.rename = {{"first.", "0."}, {"head.", "0."}};
  CHECK_THROWS_WITH(nn::load(here, there, clash), ContainsSubstring("would both be called 0.bias"));
  CHECK_THROWS_WITH(nn::load(here, there, {.strict = false}),
                    ContainsSubstring("nothing in there fits Sequential: it has backbone.first.bias, ") &&
                        ContainsSubstring("and the module 0.bias, 0.weight, 2.bias, ..."));
  CHECK_THROWS_WITH(
      nn::load(here, {{"0.bias", ones({5})}}, {.strict = false}),
      ContainsSubstring("nothing in there fits Sequential: 0.bias is float32 [3] here and float32 [5] there"));
}

TEST_CASE("load: what other libraries count beside the weights is no remainder", "[nn][load]") {
  nn::Sequential here{nn::Conv2d(3, 4, 1, {.bias = false}), nn::BatchNorm2d(4)};
  nn::State there = here.state();
  there.emplace("1.num_batches_tracked", scalar(std::int64_t{9}));
  CHECK(nn::load(here, there).whole());
}

TEST_CASE("freeze: by pattern, and training leaves those alone", "[nn][load]") {
  nn::Sequential net = classifier(2);
  CHECK(nn::freeze(net, {"0.*", "*.bias"}) == Names{"0.weight", "0.bias", "2.bias"});
  const std::vector<Tensor> trained = nn::trained_parameters(net);
  REQUIRE(trained.size() == 1);
  CHECK(trained[0].shape() == Shape{2, 3});
  const auto frozen = values_of(net, "0.weight"), head = values_of(net, "2.weight");
  optim::SGD sgd(trained, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  operators::sum(operators::square(net(ones({2, 4})))).backward();
  sgd.step();
  CHECK(values_of(net, "0.weight") == frozen);
  CHECK(values_of(net, "2.weight") != head);
  CHECK_THROWS_WITH(nn::freeze(net, {"3.*"}), ContainsSubstring("no parameter of Sequential is called '3.*'; there are "
                                                                "0.bias, 0.weight, 2.bias, ..."));
  CHECK(nn::unfreeze(net, {"?.weight"}) == Names{"0.weight", "2.weight"});
  CHECK(nn::trained_parameters(net).size() == 2);
}

TEST_CASE("freeze: stars and question marks", "[nn][load]") {
  nn::Sequential net;
  net.add("layer1", nn::Sequential(nn::Linear(2, 2))).add("layer12", nn::Linear(2, 2));
  CHECK(nn::freeze(net, {"layer1.*"}) == Names{"layer1.0.weight", "layer1.0.bias"});
  CHECK(nn::freeze(net, {"layer1*s"}) == Names{"layer1.0.bias", "layer12.bias"});
  CHECK(nn::freeze(net, {"layer??.weight"}) == Names{"layer12.weight"});
  CHECK(nn::freeze(net, {"*a*a*"}).size() == 2);  // layer1... has one "a" but for "bias"
  CHECK(nn::freeze(net, {"*"}).size() == 4);
  CHECK(nn::freeze(net, {"layer12.bias", "layer12.b*"}).size() == 1);
  CHECK(nn::freeze(net, {"layer12.bias*"}) == Names{"layer12.bias"});  // a star stands for nothing as well
}
