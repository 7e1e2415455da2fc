// Programs for answer.cpp, made by the whole library: make FOLDER writes for each NAME.tern the inputs, NAME.in, and
// the results, NAME.out; and the operators of all in operators.txt. With a second argument, those of the catalogue.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "support/catalogue.hpp"
#include "support/traced.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

std::map<std::string, Tensor> numbered(const std::vector<Tensor>& tensors) {
  std::map<std::string, Tensor> named;
  for (const Tensor& tensor : tensors) named.emplace(std::to_string(named.size()), tensor.detach().contiguous());
  return named;
}

class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::ofstream file(path_ / "operators.txt");
    for (const std::string& name : operators_) file << name << '\n';
  }
  void add(const std::string& name, const graph::Graph& graph, const std::vector<Tensor>& inputs) {
    const std::string stem = path_ / name;
    io::save_safetensors(stem + ".in", numbered(inputs));
    graph.save(stem + ".tern");
    io::save_safetensors(stem + ".out", numbered(graph::Graph::load(stem + ".tern").run(inputs)));
    const std::set<DType> more{DType::float64, DType::int32, DType::int64, DType::boolean};
    for (const graph::Node& node : graph.structure().nodes) {
      operators_.insert(node.op->name());
      if (node.op->name().find("quantize") != std::string::npos) continue;
      for (const auto& ids : {node.inputs, node.results})
        for (const int id : ids)
          if (id >= 0 && more.contains(graph.structure().values[id].dtype))
            operators_.insert(std::string(name_of(graph.structure().values[id].dtype)));
    }
  }

 private:
  std::filesystem::path path_;
  std::set<std::string> operators_;
};

void add_networks(Folder& folder) {
  Generator generator{5};
  const Tensor digits = rand({16, 1, 28, 28}, generator), photographs = rand({2, 3, 64, 64}, generator);
  models::LeNet lenet;
  models::ResNet18 resnet({.image_size = 64});
  lenet.eval(), resnet.eval();
  folder.add("lenet", graph::for_inference(graph::trace(lenet, digits)), {digits});
  folder.add("resnet18", graph::for_inference(graph::trace(resnet, photographs)), {photographs});
  folder.add("int8", graph::quantize(graph::trace(resnet, photographs), {{photographs}}, {.force = true}),
             {photographs});
}

void add_catalogue(Folder& folder) {
  int count = 0, seen = 0;
  for (const testing::Operator& op : catalogue())
    for (const Sample& sample : op.samples) {
      std::set<DType> dtypes{sample.dtypes.front()};
      if (std::ranges::find(sample.dtypes, DType::int64) != sample.dtypes.end()) dtypes.insert(DType::int64);
      for (const DType dtype : dtypes) {
        // The first of each operator, and every sixth.
        const bool first = &sample == &op.samples.front();
        if (sample.large || dtype == DType::float64 || (seen++ % 6 != 0 && !first)) continue;
        const std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
        const std::optional<graph::Graph> made = traced(sample, inputs);
        if (!made) continue;
        const std::string text = made->text();
        if (text.find("generator=") == std::string::npos && text.find("float64") == std::string::npos)
          folder.add(std::to_string(count++), *made, inputs);
      }
    }
  if (count < 800) throw Error(message("only ", count, " programs"));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return 2;
  const Device device{"vectorized"};
  const NoGrad no_grad;
  Folder folder(argv[1]);
  argc > 2 ? add_catalogue(folder) : add_networks(folder);
} catch (const std::exception& error) {
  std::fprintf(stderr, "make: %s\n", error.what());
  return 1;
}
