// Attention whose scores and probabilities go through graphs of the node.

#include <algorithm>
#include <cmath>

#include "onnx/importer.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

std::vector<Item> Importer::run_flex_attention(const NodeProto& node, const std::vector<const Item*>& inputs,
                                               Frame& frame) {
  if (inputs.size() != 3 || std::ranges::any_of(inputs, [](const Item* each) { return each == nullptr; }))
    throw Refusal("needs queries, keys and values", "repair the file");
  const Tensor &query = inputs[0]->tensor, &key = inputs[1]->tensor, &value = inputs[2]->tensor;
  const bool fits = query.rank() == 4 && key.rank() == 4 && value.rank() == 4 && key.size(1) > 0 &&
                    query.size(1) % key.size(1) == 0 && value.size(1) == key.size(1) && key.size(2) == value.size(2);
  if (!fits)
    throw Refusal(message("has queries ", query.shape(), ", keys ", key.shape(), " and values ", value.shape()),
                  "each is [N, heads, length, width]");
  for (const AttributeProto& attribute : node.attributes)
    if (attribute.name != "scale" && attribute.name != "softmax_precision" && attribute.name != "score_mod" &&
        attribute.name != "prob_mod")
      throw Refusal(message("has an attribute '", attribute.name, "' that Tern does not know"), "repair the file");
  const AttributeProto* scaled = find_attribute(node, "scale");
  const AttributeProto* precision = find_attribute(node, "softmax_precision");
  const double scale = scaled != nullptr ? scaled->f : 1 / std::sqrt(static_cast<double>(query.size(3)));
  DType inside = scalar_of(query.dtype());
  if (precision != nullptr) {
    const std::optional<DType> wanted = dtype_of_element(precision->i);
    if (!wanted || !is_floating(*wanted))
      throw Refusal(message("has a softmax_precision of ", name_of_element(precision->i)), "a floating type");
    inside = *wanted;
  }
  const auto through = [&](const char* name, const Tensor& x, bool& missing) {
    const AttributeProto* graph = find_attribute(node, name);
    if (graph == nullptr) return x;
    if (graph->g == nullptr || graph->g->inputs.size() != 1 || graph->g->outputs.size() != 1)
      throw Refusal(message("has a '", name, "' that is no graph with one input and one output"), "repair the file");
    const Item made = run_body(*graph->g, {{.tensor = x}}, frame)[0];
    missing = missing || made.missing;
    if (!made.missing && (made.tensor.shape() != x.shape() || made.tensor.dtype() != x.dtype()))
      throw Refusal(message("has a '", name, "' that makes ", made.tensor.dtype(), ' ', made.tensor.shape(), " of ",
                            x.dtype(), ' ', x.shape()),
                    "it keeps dtype and shape");
    return made.missing ? x : made.tensor;
  };
  const double half = std::sqrt(scale);
  const std::int64_t times = query.size(1) / key.size(1);
  bool missing = false;
  const Tensor products =
      op::matmul(op::mul(query, half), op::mul(repeated_heads(key, times), half), {.transpose_b = true});
  const Tensor scores = through("score_mod", op::cast(products, inside), missing);
  const Tensor weights = through("prob_mod", op::softmax(scores, -1), missing);
  if (missing) return {{.missing = true}};
  const Tensor y = op::matmul(weights, op::cast(repeated_heads(value, times), inside));
  return {{.tensor = op::cast(y, value.dtype())}};
}

}  // namespace tern::onnx
