#include "onnx/table.hpp"

namespace tern::onnx {

const Table& table() {
  static const Table all = [] {
    Table made;
    append_elementwise(made);
    append_logic(made);
    append_activations(made);
    append_constants(made);
    append_shapes(made);
    append_indexing(made);
    append_reductions(made);
    append_products(made);
    append_convolutions(made);
    append_pooling(made);
    append_normalization(made);
    append_attention(made);
    append_deform_conv(made);
    append_losses(made);
    append_resizing(made);
    append_quantization(made);
    append_quantized(made);
    append_grids(made);
    append_recurrent(made);
    return made;
  }();
  return all;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, function] : table())
    if (!name.starts_with("tern.")) names.push_back(name);
  return names;
}

}  // namespace tern::onnx
