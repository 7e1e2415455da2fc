// What is known of a call before it runs, and what observers of kernels know of the program's operators.

#include <fstream>
#include <sstream>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Calls = std::vector<std::string>;

/// "kernel <- operator attributes" of every kernel.
class Sources final : public Observer {
 public:
  Sources() { begin(); }
  ~Sources() override { end(); }
  void before(const OperatorCall& call) override {
    const op::OpCall* const source = call.source();
    std::string text = message(call.name(), call.backward() ? " backward" : "");
    if (source != nullptr) {
      text += message(" <- ", source->op.name(), '(', source->inputs.size(), ')');
      if (const std::string attributes = source->op.write(source->attributes); !attributes.empty())
        text += " " + attributes;
      CHECK(source->results.empty());
    }
    heard.push_back(text);
  }
  Calls heard;
};

}  // namespace

TEST_CASE("observers: a kernel's call knows the operator that the program called", "[graph]") {
  const Device device{"sequential"};
  const Tensor x = ones({1, 2, 4, 4}), weight = ones({3, 2, 3, 3}).set_requires_grad();
  Sources sources;
  const Tensor y = op::conv2d(x, weight, Tensor(), {.padding = 1});
  op::softmax(y.detach(), 1);
  op::tanh(y.detach());
  CHECK(sources.heard ==
        Calls{"conv2d <- conv2d(3) padding=1x1", "softmax <- softmax(1) dim=1 dtype=none", "tanh <- tanh(1)"});
  sources.heard.clear();
  const op::Listening nobody(nullptr);  // a listener or none: observers hear the same
  op::log_softmax(op::exp(x), 1);
  CHECK(sources.heard == Calls{"exp <- exp(1)", "log_softmax <- log_softmax(1) dim=1 dtype=none"});
  sources.heard.clear();
  {
    const Unobserved alone;
    op::relu(x);
  }
  CHECK(sources.heard.empty());
}

TEST_CASE("observers: the checks of a scope and the profile name operator and attributes", "[graph]") {
  {
    const Device device{"sequential", {.numerics = Numerics::check}};
    CHECK_THROWS_WITH(op::leaky_relu(op::log(zeros({2})), 0.5),
                      Catch::ContainsSubstring("log in sequential, of float32 [2]"));
    CHECK_THROWS_WITH(op::pow(full({2}, 1e30), 3), Catch::ContainsSubstring("for pow_number exponent=3"));
  }
  const Device device{"sequential"};
  const tern::testing::TemporaryFolder folder;
  Profile profile;
  op::max_pool2d(ones({1, 1, 4, 4}), 2);
  profile.stop();
  profile.write_trace(folder / "trace.json");
  std::ostringstream text;
  text << std::ifstream(folder / "trace.json").rdbuf();
  CHECK_THAT(text.str(), Catch::ContainsSubstring(R"("operator": "max_pool2d kernel=2x2")"));
}

TEST_CASE("infer: shapes, dtypes and operations without kernels, elements or memory", "[graph]") {
  // 4 TB each.
  const Tensor a({1 << 20, 1 << 20}), b({1 << 20, 1 << 20});
  const op::Inferred product = op::op("matmul").infer({a, b}, op::Attributes({op::MatmulOptions{}}));
  REQUIRE(product.results.size() == 1);
  CHECK(product.results[0].shape() == Shape{1 << 20, 1 << 20});
  CHECK(product.flops == 0x1p61);
  CHECK(a.storage().untouched());
  CHECK_THROWS_WITH(product.results[0].values(), Catch::ContainsSubstring("only its shape is known"));
}

TEST_CASE("infer: mistakes are those of the call", "[graph]") {
  CHECK_THROWS_AS(op::op("add").infer({ones({2}), ones({3})}, {}), ShapeError);
  CHECK_THROWS_AS(op::op("add").infer({ones({2}), ones({2}, DType::float64)}, {}), DTypeError);
  CHECK_THROWS_AS(op::op("nonzero").infer({ones({2})}, {}), Error);
}

TEST_CASE("infer: nothing of the program changes", "[graph]") {
  const Device device{"sequential"};
  const Tensor x = ones({4});
  reset_transfers();
  const op::Inferred view = op::op("reshape").infer({x}, op::op("reshape").read("shape=[2,2]"));
  CHECK(view.results[0].shared_storage() == x.shared_storage());
  CHECK(transfers().empty());
  // Generators stay where they are, and statistics as they are.
  const std::uint64_t position = default_generator().position();
  nn::Sequential net{nn::BatchNorm2d(2), nn::Dropout(0.5)};
  const std::vector<double> mean = net.state().at("0.running_mean").values();
  const graph::Graph graph = graph::trace(net, ones({2, 2, 3, 3}));
  CHECK(graph.structure().nodes.size() == 2);
  CHECK(default_generator().position() == position);
  CHECK(net.state().at("0.running_mean").values() == mean);
}

TEST_CASE("summary: needs no memory, and runs where a module looks at values", "[graph]") {
  const nn::Linear wide(4, 3);
  CHECK(nn::summary(wide, {std::int64_t{1} << 40, 4}).flops == 24 * (std::int64_t{1} << 40));

  class Looks final : public nn::Module {
   public:
    Tensor forward(const Tensor& x) const override {
      const Tensor y = linear_(x);
      return y.max().item() > 1e30 ? x : y;
    }

   private:
    nn::Linear linear_ = module("linear", nn::Linear(4, 3));
  };
  const nn::Summary summary = nn::summary(Looks(), {2, 4});
  REQUIRE(summary.layers.size() == 1);
  CHECK(summary.layers[0].name == "linear");
  CHECK(summary.flops == 2 * 2 * 4 * 3);
}
