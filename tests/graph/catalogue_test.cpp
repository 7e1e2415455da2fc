// Every operator of the catalogue as data: heard, written, read, traced and run again.

#include "support/catalogue.hpp"

#include <set>

#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

/// Compares what is inferred of a call with its results. An operator that reads elements on the host says so.
void check_inferred(const operators::OpCall& call) {
  operators::Inferred inferred;
  try {
    inferred = call.op.infer(call.inputs, call.attributes);
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::ContainsSubstring("only its shape is known"));
    CHECK(call.op.effect(call.attributes) != operators::Effect::none);
    return;
  }
  REQUIRE(inferred.results.size() == call.results.size());
  for (std::size_t i = 0; i < inferred.results.size(); ++i) {
    const Tensor &guess = inferred.results[i], &result = call.results[i];
    REQUIRE(guess.defined() == result.defined());
    if (!guess.defined()) continue;
    CHECK(guess.dtype() == result.dtype());
    CHECK(guess.shape() == result.shape());
    // A view of an input is one of the same input.
    for (const Tensor& input : call.inputs)
      if (input.defined())
        CHECK((guess.shared_storage() == input.shared_storage()) ==
              (result.shared_storage() == input.shared_storage()));
  }
}

/// What a program of operators calls.
class Heard final : public operators::OpListener {
 public:
  void called(const operators::OpCall& call) override {
    const std::string text = call.op.write(call.attributes);
    names.insert(call.op.name());
    INFO(call.op.name() << " " << text);
    // A generator of the program's own is none of a text's.
    if (text.find("generator=own") == std::string::npos) CHECK(call.op.write(call.op.read(text)) == text);
    const operators::Listening nobody(nullptr);
    check_inferred(call);
    if (call.op.effect(call.attributes) == operators::Effect::changes) return;
    CHECK(difference_of(call.op.run(call.inputs, call.op.read(text)), call.results) == "");
  }
  std::set<std::string> names;
};

/// The same elements in another order: along the first dimension, or the last.
std::vector<Tensor> turned(const std::vector<Tensor>& inputs, int way) {
  std::vector<Tensor> made;
  for (const Tensor& x : inputs)
    made.push_back(way == 0 || x.rank() == 0 ? x : operators::flip(x, {way == 1 ? 0 : -1}));
  return made;
}

/// Calls f(operator, sample, inputs) for every small sample, in the first of its dtypes and in int64 where it has it.
template <class F>
void for_each_sample(F&& f) {
  for (const testing::Operator& op : catalogue())
    for (const Sample& sample : op.samples) {
      if (sample.large) continue;
      std::set<DType> dtypes{sample.dtypes.front()};
      if (std::ranges::find(sample.dtypes, DType::int64) != sample.dtypes.end()) dtypes.insert(DType::int64);
      if (std::ranges::find(sample.dtypes, DType::bfloat16) != sample.dtypes.end()) dtypes.insert(DType::bfloat16);
      for (const DType dtype : dtypes) {
        INFO(op.name << ", " << sample.name << ", " << name_of(dtype));
        f(op, sample, make_inputs(op, sample, dtype));
      }
    }
}

}  // namespace

TEST_CASE("operators as data: attributes are written and read, and run again", "[graph]") {
  const Device device{"sequential"};
  Heard heard;
  for_each_sample([&](const testing::Operator&, const Sample& sample, const std::vector<Tensor>& inputs) {
    const operators::Listening listening(&heard);
    sample.call(inputs);
  });
  // Every operator of the list is heard: none is there that nobody calls.
  for (const operators::Op* op : operators::all_ops()) {
    INFO(op->name());
    CHECK(heard.names.contains(op->name()));
  }
}

TEST_CASE("operators as data: the whole catalogue is traced and runs as a graph with the same bits", "[graph]") {
  for (const char* name : {"sequential", "vectorized"}) {
    const Device device{name};
    const NoGrad no_grad;
    std::set<std::string> refused;
    int traced = 0;
    for_each_sample([&](const testing::Operator& op, const Sample& sample, const std::vector<Tensor>& inputs) {
      std::vector<Tensor> expected, copies;
      for (const Tensor& input : inputs) copies.push_back(input.clone());
      std::optional<graph::Graph> made;
      try {
        made = graph::trace([&](const std::vector<Tensor>& x) { return sample.call(x); }, inputs, {.batch = false});
      } catch (const graph::GraphError&) {
        refused.insert(op.name);
        return;
      } catch (const AutogradError&) {  // a sample with a backward of its own
        return;
      }
      ++traced;
      expected = sample.call(copies);
      INFO(made->text());
      if (made->text().find("generator=own") != std::string::npos) return;  // each call of the sample seeds its own
      CHECK(difference_of(made->run(inputs), expected) == "");
      std::map<std::string, Tensor> tensors;
      for (const graph::Value& value : made->structure().values)
        if (value.tensor.defined()) tensors.emplace(value.name, value.tensor);
      const graph::Graph again(graph::parse(made->text(), tensors));
      CHECK(again.text() == made->text());
      CHECK(difference_of(again.run(inputs), expected) == "");
      // Run, planned, recorded and replayed, with other elements in each call.
      const graph::Program program(*made, {.fold = false});
      for (int i = 0; i < 8; ++i) {
        const std::vector<Tensor> others = turned(inputs, i % 3);
        std::optional<std::vector<Tensor>> wanted;
        try {
          wanted = made->run(others);
        } catch (const Error&) {  // no matrix to invert any more
          continue;
        }
        INFO("call " << i << " of the program: " << program.unrecorded());
        CHECK(difference_of(program(others), *wanted) == "");
      }
    });
    // These change an input, or look at it.
    INFO(name);
    CHECK(refused == std::set<std::string>{"adam", "allclose", "copy_", "fill_", "sgd"});
    CHECK(traced > 1000);
  }
}
