#include "tern/operators/op.hpp"

#include <algorithm>

#include "operators/attribute_text.hpp"
#include "operators/op_list.hpp"

namespace tern::operators {

constinit thread_local OpListener* detail::op_listener = nullptr;

namespace {

const std::vector<std::unique_ptr<Op>>& list() {
  static const std::vector<std::unique_ptr<Op>> ops = [] {
    std::vector<std::unique_ptr<Op>> made;
    append_elementwise(made);
    append_networks(made);
    append_shapes(made);
    std::ranges::sort(made, {}, [](const auto& each) { return each->name(); });
    return made;
  }();
  return ops;
}

}  // namespace

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> all = [] {
    std::vector<const Op*> ops;
    for (const auto& each : list()) ops.push_back(each.get());
    return ops;
  }();
  return all;
}

const Op* find_op(std::string_view name) {
  const auto& ops = all_ops();
  const auto found =
      std::ranges::lower_bound(ops, name, {}, [](const Op* each) -> std::string_view { return each->name(); });
  return found != ops.end() && (*found)->name() == name ? *found : nullptr;
}

const Op& op(std::string_view name) {
  const Op* found = find_op(name);
  expects(found != nullptr, "operators: there is none of the name '", name, "'");
  return *found;
}

std::vector<Tensor> TracedCall::run(const char* name) {
  const Op& called = op(name);
  OpListener* const listener = detail::op_listener;
  const Attributes attributes(std::move(attributes_));
  std::vector<Tensor> results;
  {
    const Listening nobody(nullptr);
    results = called.run(inputs_, attributes);
  }
  listener->called({called, inputs_, attributes, results});
  return results;
}

void attribute::write_number(std::string& text, double value) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace tern::operators
