// Runs cases of ONNX's backend suite: backend.py writes them to folders and counts what this program prints, a line for
// each: the name, "passed", "rounded", "refused" or
// "WRONG", and why.
//
// usage: onnx_backend MODE [FOLDER] < cases     each line: name, rtol and atol, folder
//
// With a folder each graph that passes is written as a model there ("-": nowhere), read again and compared.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "onnx/model.hpp"
#include "onnx/narrow.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"

namespace {

using namespace tern;
namespace fs = std::filesystem;

struct Case {
  std::string name;
  double rtol = 1e-3, atol = 1e-7;
  fs::path folder;
};

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<Tensor> tensors_of(const fs::path& folder, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (int i = 0; fs::exists(folder / message(kind, '_', i, ".pb")); ++i) {
    const fs::path file = folder / message(kind, '_', i, ".pb");
    const std::string bytes = content_of(file);
    tensors.push_back(onnx::to_tensor(onnx::parse_tensor(bytes, file.string()), ""));
  }
  return tensors;
}

/// Whether two numbers of 16 bits are neighbours, or neighbours of neighbours; in float32 such that differ by no more
/// than the largest number's, where terms of a sum cancel out.
bool nearly(double a, double b, DType dtype, double largest) {
  const double digits = dtype == DType::bfloat16 ? 0x1p-7 : dtype == DType::float16 ? 0x1p-10 : 0;
  return std::abs(a - b) <= 2 * (dtype == DType::float32 ? 0x1p-23 * largest : digits * std::abs(b));
}

/// Empty where they agree; "rounded" where numbers differ by at most two units in the last place.
std::string difference(const Tensor& found, const Tensor& expected, double rtol, double atol) {
  if (found.dtype() != expected.dtype()) return message("is ", found.dtype(), ", expected ", expected.dtype());
  if (found.shape() != expected.shape()) return message("has shape ", found.shape(), ", expected ", expected.shape());
  if (!is_floating(found.dtype()) && found.dtype() == DType::int64) {
    if (found.to_vector<std::int64_t>() != expected.to_vector<std::int64_t>()) return "differs";
    return "";
  }
  const std::vector<double> a = found.detach().values(), b = expected.values();
  double largest = 0;
  for (const double each : b)
    if (std::isfinite(each)) largest = std::max(largest, std::abs(each));
  std::string outcome;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]);
    if (!same && nearly(a[i], b[i], found.dtype(), largest))
      outcome = "rounded";
    else if (!same)
      return message("differs at ", i, ": ", a[i], ", expected ", b[i]);
  }
  return outcome;
}

bool decides(const onnx::OnnxError& error) {
  for (const onnx::Lack& lack : error.lacks())
    if (lack.what.find("known only when") != std::string::npos) return true;
  return false;
}

/// What else there is to say of a case.
struct Notes {
  bool constants = false, carried = false;
  std::string saving;
};

/// Writes the graph as a model, reads that, and runs it on the same inputs: "saved", or why not.
std::string saved_again(const graph::Graph& graph, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& results, const std::string& file) {
  try {
    const std::string bytes = onnx::write(graph);
    if (!file.empty()) std::ofstream(file, std::ios::binary) << bytes;
    onnx::LoadOptions options;
    const std::vector<Tensor> again =
        onnx::read(std::as_bytes(std::span(bytes.data(), bytes.size())), options).run(inputs);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (const std::string text = difference(again.at(i), results[i], 1e-5, 1e-6); !text.empty() && text != "rounded")
        return message("CHANGED result ", i, ' ', text);
    return "saved";
  } catch (const onnx::OnnxError& error) {
    return message("unsaved ", error.what());
  }
}

/// Loads with what the case's inputs say of shapes, and runs. Where an operator decides by values of inputs, those of
/// int64 (and then all) become constants.
std::string run(const Case& one, const std::string& saved, Notes& notes) {
  const std::string file = (one.folder / "model.onnx").string();
  const auto bytes = std::make_shared<const std::string>(content_of(file));
  const onnx::ModelProto model = onnx::parse_model(bytes, file);
  std::vector<std::string> names, outputs;
  for (const onnx::ValueProto& value : model.graph.inputs) {
    bool initialized = false;
    for (const onnx::TensorProto& tensor : model.graph.initializers) initialized |= tensor.name == value.name;
    if (!initialized) names.push_back(value.name);
  }
  for (int set = 0; fs::exists(one.folder / message("test_data_set_", set)); ++set) {
    const fs::path folder = one.folder / message("test_data_set_", set);
    const auto kinds = [&]() -> std::string {
      for (const onnx::ValueProto& value : model.graph.inputs) {
        if (!value.other.empty()) return "inputs: a " + value.other;
        if (!onnx::holding_dtype(value.element)) return "inputs: " + onnx::name_of_element(value.element);
      }
      for (const onnx::ValueProto& value : model.graph.outputs) {
        if (!value.other.empty()) return "outputs: a " + value.other;
        if (!onnx::holding_dtype(value.element)) return "outputs: " + onnx::name_of_element(value.element);
      }
      return "";
    }();
    if (!kinds.empty()) return "refused\t" + kinds;
    for (const std::vector<onnx::ValueProto>* values : {&model.graph.inputs, &model.graph.outputs})
      for (const onnx::ValueProto& value : *values) notes.carried |= onnx::narrow_of(value.element) != nullptr;
    const std::vector<Tensor> inputs = tensors_of(folder, "input"), expected = tensors_of(folder, "output");
    std::optional<graph::Graph> graph;
    std::vector<Tensor> given;
    for (int attempt = 0; !graph; ++attempt) {
      onnx::LoadOptions options;
      given.clear();
      for (std::size_t i = 0; i < inputs.size() && i < names.size(); ++i) {
        const Shape& shape = inputs[i].shape();
        const bool constant = attempt == 2 || (attempt == 1 && inputs[i].dtype() == DType::int64);
        if (constant)
          options.constants[names[i]] = inputs[i];
        else {
          options.shapes[names[i]] = {shape.begin(), shape.end()};
          given.push_back(inputs[i]);
        }
      }
      try {
        graph = onnx::load(file, options);
        notes.constants = notes.constants || attempt > 0;
      } catch (const onnx::OnnxError& error) {
        if (attempt < 2 && decides(error)) continue;
        return message("refused\t", error.what());
      }
    }
    const std::vector<Tensor> results = graph->run(given);
    if (results.size() != expected.size()) return message("WRONG\t", results.size(), " results");
    for (std::size_t i = 0; i < results.size(); ++i)
      if (const std::string text = difference(results[i], expected[i], one.rtol, one.atol); !text.empty())
        return text == "rounded" ? "rounded\t" : message("WRONG\tresult ", i, ' ', text);
    if (set == 0 && !saved.empty())
      notes.saving = saved_again(*graph, given, results, saved == "-" ? "" : saved + "/" + one.name + ".onnx");
  }
  return "passed\t";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: onnx_backend MODE [FOLDER] < cases\n";
    return 2;
  }
  const Device device{argv[1]};
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    Case one;
    std::string folder;
    words >> one.name >> one.rtol >> one.atol >> folder;
    one.folder = folder;
    Notes notes;
    std::string outcome;
    try {
      outcome = run(one, argc == 3 ? argv[2] : "", notes);
    } catch (const std::exception& error) {
      outcome = message("refused\tfailed: ", error.what());
    }
    for (char& c : outcome)
      if (c == '\n') c = ' ';
    for (char& c : notes.saving)
      if (c == '\n') c = ' ';
    std::cout << one.name << '\t' << outcome << '\t' << (notes.constants ? "constants" : "")
              << (notes.carried ? "carried" : "") << '\t' << notes.saving << std::endl;
  }
}
