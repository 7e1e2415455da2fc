#include <random>

#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

std::map<std::string, Tensor> tensors_of(const graph::Graph& graph) {
  std::map<std::string, Tensor> tensors;
  for (const graph::Value& value : graph.structure().values)
    if (value.tensor.defined()) tensors.emplace(value.name, value.tensor);
  return tensors;
}

}  // namespace

TEST_CASE("graph files: text, names and bits come back, and the graph trains on", "[graph]") {
  const Device device{"vectorized"};
  const TemporaryFolder folder;
  const models::LeNet net;
  const graph::Graph graph = graph::trace(net, ones({2, 1, 28, 28}));
  graph.save(folder / "lenet.tern");
  const graph::Graph loaded = graph::Graph::load(folder / "lenet.tern");
  CHECK(loaded.text() == graph.text());
  CHECK(loaded.named_parameters().size() == net.named_parameters().size());
  CHECK(loaded.state().size() == net.state().size());
  const Tensor x = ones({3, 1, 28, 28});
  CHECK(difference_of({loaded(x)}, {net(x)}) == "");
  op::sum(loaded(x)).backward();
  for (const Tensor& parameter : loaded.parameters()) CHECK(parameter.grad().defined());
  io::save_safetensors(folder / "plain", {{"x", x}});
  CHECK_THROWS_AS(graph::Graph::load(folder / "plain"), FileError);
}

TEST_CASE("graph files: mistakes in a text are named with their line", "[graph]") {
  const std::string head = "graph g\ninput x float32[2,3]\n";
  const auto complaint = [&](const std::string& lines) {
    try {
      graph::Graph(graph::parse(head + lines, {{"w", ones({3})}}));
    } catch (const graph::GraphError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  CHECK(complaint("%0:float32[2,3] = relu(x)\nreturn %0\n") == "nothing");
  CHECK_THAT(complaint("%0:float32[2,3] = rely(x)\nreturn %0\n"),
             ContainsSubstring("line 3") && ContainsSubstring("there is no operator 'rely'"));
  CHECK_THAT(complaint("%0:float32[2,3] = relu(y)\nreturn %0\n"), ContainsSubstring("nothing is named 'y'"));
  CHECK_THAT(complaint("%0:float33[2,3] = relu(x)\nreturn %0\n"), ContainsSubstring("'float33' is no dtype"));
  CHECK_THAT(complaint("%0:float32[2,3] = softmax(x) dim=a dtype=none\nreturn %0\n"),
             ContainsSubstring("a whole number is missing"));
  CHECK_THAT(complaint("%0:float32[2,3] = softmax(x) dim=1\nreturn %0\n"), ContainsSubstring("'dtype=' is missing"));
  CHECK_THAT(complaint("%0:float32[2,3] = relu(x) more=1\nreturn %0\n"), ContainsSubstring("attributes end before"));
  CHECK_THAT(complaint("x:float32[2,3] = relu(x)\nreturn x\n"), ContainsSubstring("two values are named 'x'"));
  CHECK_THAT(complaint("constant v float32[3]\nreturn v\n"), ContainsSubstring("the tensor 'v' is missing"));
  CHECK_THAT(complaint("constant w float32[4]\nreturn w\n"), ContainsSubstring("the tensor 'w' is float32 [3]"));
  CHECK_THAT(complaint("%0:float32[2,3] = relu(x)\n"), ContainsSubstring("without a line of results"));
  CHECK_THAT(complaint("return x\nreturn x\n"), ContainsSubstring("behind the results"));
  CHECK_THAT(complaint("%0:float32[2,{99999999999999999999n}] = relu(x)\nreturn %0\n"), ContainsSubstring("line 3"));
}

TEST_CASE("graph files: damaged texts end in an Error", "[graph]") {
  const Device device{"sequential"};
  const NoGrad no_grad;
  models::LeNet net;
  const graph::Graph graph = graph::trace(net, ones({2, 1, 28, 28}));
  const std::string text = graph.text();
  const auto tensors = tensors_of(graph);
  std::mt19937_64 dice(1);
  const std::string_view marks = "{}[](),:=# n0123456789-+.xabc\n%";
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    const int changes = 1 + static_cast<int>(dice() % 4);
    for (int k = 0; k < changes; ++k) {
      const std::size_t place = dice() % damaged.size();
      switch (dice() % 3) {
        case 0:
          damaged[place] = marks[dice() % marks.size()];
          break;
        case 1:
          damaged.erase(place, 1 + dice() % 5);
          break;
        default:
          damaged.insert(place, 1, marks[dice() % marks.size()]);
      }
    }
    try {
      const graph::Graph read(graph::parse(damaged, tensors));
      ++accepted;
      if (i % 20 == 0) read.run({ones({1, 1, 28, 28})});
    } catch (const Error&) {  // as it should
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("graph files: names and equations of any text come back", "[graph]") {
  const TemporaryFolder folder;
  class Names : public nn::Module {
   public:
    Names() {
      weight_ = parameter("a weight, (the first) = 1\\", full({3}, 2));
      add_child("layer 2", inner_);
    }
    Tensor forward(const Tensor& x) const override { return (*inner_)(op::mul(x, weight_)); }
    std::string describe() const override { return "Names of # two\nlines"; }

   private:
    Tensor weight_;
    std::shared_ptr<nn::Linear> inner_ = std::make_shared<nn::Linear>(3, 2);
  };
  const Names net;
  const graph::Graph traced = graph::trace(net, ones({2, 3}), {.inputs = {"an image: [n]"}});
  traced.save(folder / "names.tern");
  const graph::Graph loaded = graph::Graph::load(folder / "names.tern");
  CHECK(loaded.text() == traced.text());
  CHECK(loaded.structure().values[0].name == "an image: [n]");
  CHECK(loaded.named_parameters()[0].name == traced.named_parameters()[0].name);
  CHECK(difference_of({loaded(ones({4, 3}))}, {net(ones({4, 3}))}) == "");

  const auto product = [](const std::vector<Tensor>& x) { return std::vector{op::einsum("ij, jk -> ik", x)}; };
  const graph::Graph einsum =
      graph::trace(product, {ones({2, 3}), ones({3, 4})}, {.batch = false, .inputs = {"-", "\n"}});
  einsum.save(folder / "einsum.tern");
  const graph::Graph again = graph::Graph::load(folder / "einsum.tern");
  CHECK(difference_of(again.run({ones({2, 3}), full({3, 4}, 2)}), {full({2, 4}, 6)}) == "");
  for (const char* name : {"x\\", "x\\2", "x\\2g", "x\\-1"})
    CHECK_THROWS_WITH(graph::parse(message("graph g\ninput ", name, " float32[2]\nreturn ", name, "\n"), {}),
                      ContainsSubstring("backslash"));
}

TEST_CASE("graph: what takes no gradient is written as such", "[graph]") {
  const TemporaryFolder folder;
  nn::Linear net(4, 2);
  net.parameters()[0].set_requires_grad(false);
  graph::trace(net, ones({2, 4})).save(folder / "frozen.tern");
  const graph::Graph loaded = graph::Graph::load(folder / "frozen.tern");
  CHECK(loaded.named_parameters()[0].name == "weight");
  CHECK_FALSE(loaded.named_parameters()[0].tensor.requires_grad());
  CHECK(loaded.named_parameters()[1].tensor.requires_grad());
}
