// A graph in a file: safetensors, with the text among the metadata.

#include "tern/graph/graph.hpp"
#include "tern/io/safetensors.hpp"

namespace tern::graph {

namespace {
constexpr const char *key = "tern.graph", *version = "1\n";
}

void Graph::save(const std::string& file, std::map<std::string, std::string> metadata) const {
  std::map<std::string, Tensor> tensors;
  for (const Value& value : structure().values)
    if (value.tensor.defined()) tensors.emplace(value.name, value.tensor.detach());
  metadata[key] = version + text();
  io::save_safetensors(file, tensors, metadata);
}

Graph Graph::load(const std::string& file) { return load(io::load_safetensors(file), file); }

Graph Graph::load(const io::Safetensors& content, const std::string& file) {
  const auto found = content.metadata.find(key);
  expects<FileError>(found != content.metadata.end(), file,
                     ": a safetensors file without a graph; Graph::save and "
                     "Program::save write one");
  const std::string& text = found->second;
  expects<FileError>(text.starts_with(version), file, ": a graph of another version, '",
                     text.substr(0, text.find('\n')), "'; this library reads version 1");
  return Graph(parse(text.substr(2), content.tensors));
}

}  // namespace tern::graph
