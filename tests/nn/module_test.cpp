#include "support/catch.hpp"
#include "tern/nn/nn.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

class Block : public nn::Module {
 public:
  explicit Block(std::int64_t in, std::int64_t out)
      : linear_(module("linear", nn::Linear(in, out))), scale_(parameter("scale", ones({out}))) {}
  Tensor forward(const Tensor& x) const override { return linear_(x) * scale_; }
  std::string describe() const override { return "Block"; }

 private:
  nn::Linear linear_;
  nn::Parameter scale_;
};

class Net : public nn::Module {
 public:
  Tensor forward(const Tensor& x) const override { return last_(first_(x)) + offset_; }
  void add_parameter(const std::string& name) { parameter(name, ones({1})); }
  void add_child_named(const std::string& name) { module(name, nn::Relu()); }
  void add_itself() { module("self", *this); }

 private:
  Block first_ = module("first", Block(4, 3));
  nn::Sequential last_ = module("last", nn::Sequential(nn::Linear(3, 2), nn::Tanh(), nn::Dropout(0.5)));
  Tensor offset_ = buffer("offset", zeros({2}));
  nn::Parameter absent_ = parameter("absent", Tensor());
};

/// The mistake that must not go unnoticed: a child that was not registered.
class Forgetful : public nn::Module {
 public:
  Tensor forward(const Tensor& x) const override { return linear_(x); }

 private:
  nn::Linear linear_{4, 2};
};

class Tied : public nn::Module {
 public:
  Tensor forward(const Tensor& x) const override { return operators::matmul(x * a_, b_); }

 private:
  Tensor shared_ = ones({2});
  nn::Parameter a_ = parameter("a", shared_);
  nn::Parameter b_ = parameter("b", shared_);
};

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& list) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& named : list) names.push_back(named.name);
  return names;
}

}  // namespace

static_assert(!std::is_constructible_v<nn::Parameter, Tensor> && !std::is_default_constructible_v<nn::Parameter>);

TEST_CASE("module: parameters are named as torch names them, own ones first, in order of registration", "[nn]") {
  Net net;
  CHECK(names_of(net.named_parameters()) == std::vector<std::string>{"first.scale", "first.linear.weight",
                                                                     "first.linear.bias", "last.0.weight",
                                                                     "last.0.bias"});
  CHECK(names_of(net.named_buffers()) == std::vector<std::string>{"offset"});
  CHECK(net.parameter_count() == 3 + 12 + 3 + 6 + 2);
  for (const Tensor& tensor : net.parameters()) CHECK(tensor.requires_grad());
  std::vector<std::string> paths;
  net.visit([&](const std::string& path, const nn::Module&) { paths.push_back(path); });
  CHECK(paths == std::vector<std::string>{"", "first", "first.linear", "last", "last.0", "last.1", "last.2"});
}

TEST_CASE("module: names are checked", "[nn]") {
  Net net;
  CHECK_THROWS_AS(net.add_parameter("first"), Error);
  CHECK_THROWS_AS(net.add_parameter("offset"), Error);
  CHECK_THROWS_AS(net.add_parameter("a.b"), Error);
  CHECK_THROWS_AS(net.add_child_named(""), Error);
  CHECK_THROWS_AS(net.add_child_named("last"), Error);
  CHECK_THROWS_AS(net.add_itself(), Error);
  CHECK_NOTHROW(net.add_parameter("another"));
  CHECK_NOTHROW(net.add_parameter("and another"));
  CHECK_THROWS_AS(net.add_parameter("another"), Error);
  CHECK(net.parameter_count() == 28);
}

TEST_CASE("module: a child that was not registered is an error when it is called", "[nn]") {
  const Tensor x = ones({1, 4});
  Forgetful net;
  CHECK_THROWS_WITH(net(x),
                    Catch::ContainsSubstring("Linear(4, 2)") && Catch::ContainsSubstring("not one of its children"));
  CHECK_NOTHROW(nn::Linear(4, 2)(x));
  // What holds no parameters may be made on the spot; a registered module may be called at any depth.
  class Inline : public nn::Module {
   public:
    Tensor forward(const Tensor& x) const override { return nn::Relu()(block_(x)); }

   private:
    Block block_ = module("block", Block(4, 2));
  };
  CHECK(nn::Sequential(Inline())(x).shape() == Shape{1, 2});
  // A module may call itself.
  class Twice : public nn::Module {
   public:
    Tensor forward(const Tensor& x) const override { return operators::sum(x).item() < 100 ? (*this)(x * scale_) : x; }

   private:
    nn::Parameter scale_ = parameter("scale", full({4}, 2.0));
  };
  CHECK(Twice()(x).values() == std::vector<double>(4, 32));
}

TEST_CASE("module: a copy is another handle of the same module", "[nn]") {
  Net net;
  Net copy = net;
  CHECK(copy.is(net));
  CHECK(copy.parameters()[0].is(net.parameters()[0]));
  copy.eval();
  CHECK_FALSE(net.training());
  const nn::Sequential wrapped(net);
  wrapped.visit([&](const std::string& path, const nn::Module& module) {
    if (path == "0.last.2") CHECK_FALSE(module.training());
  });
  net.train();
  CHECK(copy.training());
  CHECK_FALSE(Net().is(net));
}

TEST_CASE("module: one tensor under two names is trained once and saved twice", "[nn]") {
  Tied net;
  CHECK(net.named_parameters().size() == 1);
  CHECK(net.parameter_count() == 2);
  CHECK(net.state().size() == 2);
  CHECK(net.state().at("a").shared_storage() == net.state().at("b").shared_storage());
  operators::sum(net(ones({1, 2}))).backward();
  CHECK(net.parameters()[0].grad().values() == std::vector<double>{2, 2});
  net.zero_grad();
  CHECK_FALSE(net.parameters()[0].grad().defined());
}

TEST_CASE("module: a state goes round", "[nn]") {
  Generator one(1), two(2);
  const auto make = [](Generator& generator) {
    return nn::Sequential(nn::Conv2d(2, 3, 3, {}, generator), nn::BatchNorm2d(3), nn::Flatten(),
                          nn::Linear(3 * 4, 2, {}, generator));
  };
  nn::Sequential source = make(one), target = make(two);
  source(rand({5, 2, 4, 4}, one));  // moves the running statistics
  const nn::State state = source.state();
  CHECK(state.size() == 8);
  CHECK(state.contains("1.running_var"));
  CHECK_FALSE(state.at("0.weight").requires_grad());
  CHECK(target.state().at("0.weight").values() != state.at("0.weight").values());
  const Tensor handle = target.parameters()[0];
  target.load_state(state);
  for (const auto& [name, tensor] : target.state()) CHECK(tensor.values() == state.at(name).values());
  CHECK(handle.values() == state.at("0.weight").values());
  CHECK(handle.requires_grad());
  CHECK(handle.is_leaf());
  source.eval();
  target.eval();
  const Tensor x = rand({2, 2, 4, 4}, one);
  CHECK(source(x).values() == target(x).values());
}

TEST_CASE("module: a state that does not fit is refused whole, in one error", "[nn]") {
  nn::Sequential net(nn::Linear(3, 2), nn::Linear(2, 2));
  const std::vector<double> before = net.parameters()[0].values();
  nn::State state = net.state();
  state["0.weight"] = zeros({3, 2});
  state["1.bias"] = zeros({2}, DType::int64);
  state.erase("1.weight");
  state["2.weight"] = zeros({1});
  state["0.bias"] = full({2}, 7);
  CHECK_THROWS_WITH(net.load_state(state),
                    Catch::ContainsSubstring("missing: 1.weight [2,2]") &&
                        Catch::ContainsSubstring("unexpected: 2.weight") &&
                        Catch::ContainsSubstring("wrong shape: 0.weight is [2,3] here and [3,2]") &&
                        Catch::ContainsSubstring("wrong dtype: 1.bias is float32 here and int64"));
  CHECK(net.parameters()[0].values() == before);
  CHECK(net.parameters()[1].values() != std::vector<double>{7, 7});

  const nn::State part{{"0.bias", full({2}, 7)}, {"head.weight", zeros({1})}};
  CHECK_THROWS_AS(net.load_state(part), Error);
  CHECK_THROWS_AS(net.load_state(part, {.allow_missing = true}), Error);
  CHECK_NOTHROW(net.load_state(part, {.allow_missing = true, .allow_unexpected = true}));
  CHECK(net.parameters()[1].values() == std::vector<double>{7, 7});
  CHECK_NOTHROW(net.load_state({{"0.bias", full({2}, 3, DType::float64)}}, {.allow_missing = true}));
  CHECK(net.parameters()[1].values() == std::vector<double>{3, 3});
}
