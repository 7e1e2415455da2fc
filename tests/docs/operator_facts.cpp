// What the operators of the catalogue turn out to do, for the index in docs/book: a line per operator with its dtypes,
// whether its result takes a gradient, and the kernels that it calls on float32 and on int64. Found by running it in
// `sequential`.

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "support/catalogue.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

using Names = std::vector<std::string>;

struct Facts {
  std::set<DType> computed, viewed;  ///< dtypes of which the result is a new tensor; of which it is a view
  bool gradient = false;
  std::map<DType, std::set<std::string>> kernels;  ///< sorted: compilers evaluate arguments in different orders
};

/// The kernels that run on this thread.
class Kernels final : public Observer {
 public:
  explicit Kernels(Names& names) : names_(names) { begin(); }
  ~Kernels() override { end(); }
  void before(const OperatorCall& call) override {
    if (std::ranges::find(names_, call.name()) == names_.end()) names_.emplace_back(call.name());
  }

 private:
  Names& names_;
};

/// Whether the case's dtype is that of any argument.
bool of_any_dtype(const Sample& sample) {
  return std::ranges::any_of(sample.arguments, [](const Argument& argument) { return !argument.dtype; });
}

void run(const testing::Operator& op, const Sample& sample, DType dtype, Facts& facts) {
  std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
  bool differentiable = false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (sample.gradient && sample.arguments[i].differentiable && is_floating(inputs[i].dtype())) {
      inputs[i].set_requires_grad();
      differentiable = true;
    }
  Names kernels;
  std::vector<Tensor> results;
  {
    const Kernels watched(kernels);
    results = sample.call(inputs);
  }
  const bool view = kernels.empty() && !results.empty() && std::ranges::any_of(inputs, [&](const Tensor& input) {
                      return &input.storage() == &results[0].storage();
                    });
  (view ? facts.viewed : facts.computed).insert(of_any_dtype(sample) ? dtype : inputs.at(0).dtype());
  facts.kernels[dtype].insert(kernels.begin(), kernels.end());
  facts.gradient = facts.gradient || (differentiable && !results.empty() && results[0].requires_grad());
}

Facts facts_of(const std::vector<testing::Operator>& forms) {
  Facts facts;
  for (const testing::Operator& op : forms)
    for (const Sample& sample : op.samples)
      for (const DType dtype : all_dtypes) {
        if (sample.large || (!of_any_dtype(sample) && dtype != DType::float32)) continue;
        try {
          run(op, sample, dtype, facts);
        } catch (const Error&) {  // not of this dtype
        }
      }
  return facts;
}

}  // namespace

int main() {
  std::map<std::string, std::vector<testing::Operator>> forms;
  for (const testing::Operator& op : catalogue())
    if (!op.member) forms[op.name.substr(0, op.name.find('/'))].push_back(op);
  for (const auto& [name, all] : forms) {
    Facts facts = facts_of(all);
    std::cout << name << '\t';
    for (const DType dtype : facts.computed.empty() ? facts.viewed : facts.computed) std::cout << message(dtype) << ' ';
    std::cout << '\t' << (facts.gradient ? "yes" : "no") << '\t' << (facts.viewed.empty() ? "" : "view");
    for (const DType dtype : {DType::float32, DType::int64}) {
      std::cout << '\t';
      for (const std::string& kernel : facts.kernels[dtype]) std::cout << kernel << ' ';
    }
    std::cout << '\n';
  }
  return 0;
}
