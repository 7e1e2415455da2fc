// Any text either is a graph, which then has the same text again, or a GraphError. A file of Program is such a text in
// the metadata of a safetensors file, whose own reader has its own target.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "tern/core/error.hpp"
#include "tern/graph/graph.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tensor/create.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern;
  try {
    static const Tensor weight = zeros({2, 2}), bias = zeros({2});
    io::Safetensors content;
    content.tensors = {{"0.weight", weight}, {"0.bias", bias}, {"2.weight", weight}, {"2.bias", bias}};
    content.metadata = {{"tern.graph", std::string(reinterpret_cast<const char*>(data), size)}};
    const graph::Graph graph = graph::Graph::load(content, "fuzz");
    const std::string text = graph.text();
    std::map<std::string, Tensor> tensors(content.tensors.begin(), content.tensors.end());
    if (graph::to_text(graph::parse(text, tensors)) != text) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
