#include "nets.hpp"

#include <algorithm>

#include "errors.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"

namespace tern::tool {

namespace {

// Layers of a table of numbers, where nothing else is asked for.
const std::vector<std::int64_t> table_hidden{64, 64};

/// models::Mlp with every activation that there is.
class Perceptron : public nn::Sequential {
 public:
  Perceptron(const Blueprint& blueprint, std::uint64_t seed) {
    Generator generator(seed);
    const std::size_t last = blueprint.layers.size() - 2;
    for (std::size_t i = 0; i <= last; ++i) {
      add(nn::Linear(blueprint.layers[i], blueprint.layers[i + 1], {}, generator));
      if (i == last) break;
      add_activation(blueprint.activation);
      if (blueprint.dropout > 0) add(nn::Dropout(blueprint.dropout));
    }
  }
  Tensor forward(const Tensor& x) const override { return Sequential::forward(x.rank() > 2 ? x.flatten(1) : x); }
  std::string describe() const override { return "Mlp"; }

 private:
  void add_activation(const std::string& name) {
    if (name == "relu") add(nn::Relu());
    if (name == "sigmoid") add(nn::Sigmoid());
    if (name == "tanh") add(nn::Tanh());
    if (name == "leaky-relu") add(nn::LeakyRelu());
    if (name == "softplus") add(nn::Softplus());
    if (name == "gelu") add(nn::Gelu());
  }
};

const Net* find_net(const std::string& name) {
  const auto found = std::find_if(nets().begin(), nets().end(), [&](const Net& net) { return net.name == name; });
  return found == nets().end() ? nullptr : &*found;
}

template <class... Parts>
std::string text_of(const Shape& shape, const Parts&... parts) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return message(text, parts...);
}

}  // namespace

const std::vector<Net>& nets() {
  static const std::vector<Net> table{
      {.name = "lenet",
       .input = {1, 28, 28},
       .classes = 10,
       .parameters = [](std::int64_t) { return std::int64_t{431080}; },
       .build = [](const Blueprint&, std::uint64_t seed) { return std::make_shared<models::LeNet>(seed); }},
      {.name = "mlp-small", .hidden = {196, 196, 196}},
      {.name = "mlp-medium", .hidden = {392, 392, 392}},
      {.name = "mlp-big", .hidden = {784, 784, 784}}};
  return table;
}

void choose_net(Blueprint& blueprint, const Settings& settings) {
  expects<UsageError>(settings.layers.empty() || settings.net.empty(),
                      "--layers and --net are both given; one of them says what the network is");
  blueprint.activation = settings.activation;
  blueprint.dropout = settings.dropout;
  blueprint.cost = settings.cost;
  blueprint.net = "mlp";
  const std::string name =
      settings.net.empty() && settings.layers.empty() && !blueprint.table ? "mlp-small" : settings.net;
  const Net* net = name.empty() ? nullptr : find_net(name);
  if (net != nullptr && net->hidden.empty()) {
    blueprint.net = net->name;
    blueprint.layers.clear();
    expects<UsageError>(net->input.empty() || net->input == blueprint.input, "--net ", net->name, " takes examples of ",
                        text_of(net->input), ", but those of ", blueprint.source, " are ", text_of(blueprint.input),
                        "; --layers makes a network for them");
    expects<UsageError>(net->classes == 0 || net->classes == blueprint.class_count(), "--net ", net->name, " tells ",
                        net->classes, " classes apart, but ", blueprint.source, " has ", blueprint.class_count(),
                        "; --layers makes a network for them");
    expects<UsageError>(settings.dropout == 0, "--dropout is for --layers and the mlp nets, not for --net ", net->name);
    return;
  }
  if (!settings.layers.empty()) {
    blueprint.layers = settings.layers;
    expects<UsageError>(blueprint.layers.front() == blueprint.features(), "--layers begins with ",
                        blueprint.layers.front(), ", but an example of ", blueprint.source, " has ",
                        blueprint.features(), " values");
    expects<UsageError>(blueprint.layers.back() == blueprint.class_count(), "--layers ends with ",
                        blueprint.layers.back(), ", but ", blueprint.source, " has ", blueprint.class_count(),
                        " classes");
    return;
  }
  blueprint.layers = net != nullptr ? net->hidden : table_hidden;
  blueprint.layers.insert(blueprint.layers.begin(), blueprint.features());
  blueprint.layers.push_back(blueprint.class_count());
}

std::int64_t parameter_count(const Blueprint& blueprint) {
  if (blueprint.net != "mlp") return find_net(blueprint.net)->parameters(blueprint.class_count());
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < blueprint.layers.size(); ++i)
    count += (blueprint.layers[i] + 1) * blueprint.layers[i + 1];
  return count;
}

std::shared_ptr<nn::Module> build_net(const Blueprint& blueprint, std::uint64_t seed) {
  if (blueprint.net != "mlp") return find_net(blueprint.net)->build(blueprint, seed);
  return std::make_shared<Perceptron>(blueprint, seed);
}

std::string describe_net(const Blueprint& blueprint) {
  if (blueprint.net != "mlp") return blueprint.net;
  std::string text = "mlp ";
  for (std::size_t i = 0; i < blueprint.layers.size(); ++i)
    text += (i == 0 ? "" : "-") + std::to_string(blueprint.layers[i]);
  text += ", " + blueprint.activation;
  if (blueprint.dropout > 0) text += message(", dropout ", blueprint.dropout);
  return text;
}

}  // namespace tern::tool
