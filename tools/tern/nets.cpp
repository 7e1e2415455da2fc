#include "nets.hpp"

#include <algorithm>
#include <cmath>

#include "errors.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

// The default layers for a table of numbers.
const std::vector<std::int64_t> table_hidden{128};

/// Replaces one-hot ranges of a table's inputs by the vector of the category: what nn::Embedding does with its index.
/// Unknown and missing categories give a vector of zeros.
class Embeddings : public nn::Module {
 public:
  Embeddings(const Blueprint& blueprint, Generator& generator) {
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < blueprint.embedding.size(); ++c) {
      const data::Column& column = blueprint.encoding.columns[c];
      const auto categories = static_cast<std::int64_t>(column.categories.size());
      if (const std::int64_t width = blueprint.embedding[c]; width > 0) {
        const double deviation = 1 / std::sqrt(static_cast<double>(width));
        parts_.push_back({begin, begin + categories,
                          parameter(std::to_string(c), randn({categories, width}, generator, 0, deviation))});
      }
      begin += column.inputs();
    }
  }
  Tensor forward(const Tensor& x) const override {
    std::vector<Tensor> found;
    std::int64_t done = 0;
    for (const Part& part : parts_) {
      if (part.begin > done) found.push_back(x.slice(1, done, part.begin));
      found.push_back(operators::matmul(x.slice(1, part.begin, part.end), part.vectors));
      done = part.end;
    }
    if (done < x.size(1)) found.push_back(x.slice(1, done, x.size(1)));
    return operators::cat(found, 1);
  }
  std::string describe() const override { return "Embeddings"; }

 private:
  struct Part {
    std::int64_t begin = 0, end = 0;  // its inputs
    nn::Parameter vectors;
  };
  std::vector<Part> parts_;
};

/// models::Mlp with every available activation.
class Perceptron : public nn::Sequential {
 public:
  Perceptron(const Blueprint& blueprint, std::uint64_t seed) {
    Generator generator(seed);
    if (!blueprint.embedding.empty()) add("embeddings", Embeddings(blueprint, generator));
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

template <class Model, class Options>
std::shared_ptr<nn::Module> build(const Blueprint& blueprint, std::uint64_t seed, nn::Start start) {
  return std::make_shared<Model>(
      Options{.classes = blueprint.class_count(), .image_size = blueprint.input[1], .start = start}, seed);
}

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
       .build = [](const Blueprint&, std::uint64_t seed, nn::Start) { return std::make_shared<models::LeNet>(seed); }},
      {.name = "alexnet", .size = 227, .least_size = 67, .build = build<models::AlexNet, models::AlexNetOptions>},
      {.name = "googlenet",
       .size = 224,
       .least_size = 79,
       .own_loss = true,
       .build = build<models::GoogLeNet, models::GoogLeNetOptions>},
      {.name = "vgg16", .size = 224, .least_size = 32, .build = build<models::Vgg16, models::Vgg16Options>},
      {.name = "resnet18", .size = 224, .least_size = 1, .build = build<models::ResNet18, models::ResNet18Options>},
      {.name = "resnet50", .size = 224, .least_size = 1, .build = build<models::ResNet50, models::ResNet50Options>},
      {.name = "mobilenetv2",
       .size = 224,
       .least_size = 1,
       .build = build<models::MobileNetV2, models::MobileNetV2Options>},
      {.name = "mlp-small", .hidden = {196, 196, 196}},
      {.name = "mlp-medium", .hidden = {392, 392, 392}},
      {.name = "mlp-big", .hidden = {784, 784, 784}}};
  return table;
}

std::string misfit(const Blueprint& blueprint) {
  if (blueprint.net == "mlp" || blueprint.net == "onnx") return {};
  const Net& net = *find_net(blueprint.net);
  const std::string other = "; --layers makes a network for them";
  if (net.size > 0) {
    if (blueprint.table || blueprint.input[0] != 3)
      return "takes colour images from a folder, but the examples of " + blueprint.source + " are " +
             (blueprint.table ? message("rows of ", blueprint.input[0], " numbers") : text_of(blueprint.input)) + other;
    if (blueprint.input[1] < net.least_size || blueprint.input[1] != blueprint.input[2])
      return message("takes square images of ", net.least_size, " pixels or more, but these are ",
                     text_of(blueprint.input));
  }
  if (!net.input.empty() && !(net.input == blueprint.input))
    return message("takes examples of ", text_of(net.input), ", but those of ", blueprint.source, " are ",
                   text_of(blueprint.input), other);
  if (net.classes != 0 && net.classes != blueprint.class_count())
    return message("tells ", net.classes, " classes apart, but ", blueprint.source, " has ", blueprint.class_count(),
                   other);
  return {};
}

void choose_net(Blueprint& blueprint, const Settings& settings) {
  expects<UsageError>(settings.layers.empty() || settings.net.empty(),
                      "--layers and --net are both set; use one of them");
  expects<UsageError>(blueprint.table || settings.embedding == "off",
                      "--embedding is for a table's columns; the examples of ", blueprint.source, " are pictures");
  blueprint.activation = settings.activation;
  blueprint.dropout = settings.dropout.value_or(0);
  blueprint.cost = *settings.cost;
  blueprint.net = "mlp";
  if (takes_graph(settings)) {
    blueprint.net = "onnx";
    expects<UsageError>(blueprint.dropout == 0, "--dropout is for --layers and the mlp nets, not for ", settings.init);
    return;
  }
  const std::string name =
      settings.net.empty() && settings.layers.empty() && !blueprint.table ? "mlp-small" : settings.net;
  const Net* net = name.empty() ? nullptr : find_net(name);
  if (net != nullptr && net->hidden.empty()) {
    blueprint.net = net->name;
    blueprint.layers.clear();
    const std::string problem = misfit(blueprint);
    expects<UsageError>(problem.empty(), "--net ", net->name, " ", problem);
    expects<UsageError>(blueprint.dropout == 0, "--dropout is for --layers and the mlp nets, not for --net ",
                        net->name);
    return;
  }
  if (!settings.layers.empty()) {
    blueprint.layers = settings.layers;
    expects<UsageError>(blueprint.layers.front() == blueprint.mlp_inputs(), "--layers begins with ",
                        blueprint.layers.front(), ", but an example of ", blueprint.source, " has ",
                        blueprint.mlp_inputs(), " values", blueprint.embedding.empty() ? "" : " with its --embedding");
    expects<UsageError>(
        blueprint.layers.back() == blueprint.outputs(), "--layers ends with ", blueprint.layers.back(), ", but ",
        blueprint.source, " has ",
        blueprint.regression ? std::string("one number to predict") : message(blueprint.class_count(), " classes"));
    return;
  }
  blueprint.layers = net != nullptr ? net->hidden : table_hidden;
  blueprint.layers.insert(blueprint.layers.begin(), blueprint.mlp_inputs());
  blueprint.layers.push_back(blueprint.outputs());
}

bool takes_graph(const Settings& settings) {
  return is_onnx(settings.init) && settings.net.empty() && settings.layers.empty();
}

void take_net(Settings& settings, const Blueprint& before) {
  if (!settings.net.empty() || !settings.layers.empty() || before.net == "mlp") return;
  if (takes_graph(settings) && settings.image_size == 0 && !before.table) settings.image_size = before.input[1];
  if (takes_graph(settings)) return;
  settings.net = before.net;
  if (settings.image_size == 0 && find_net(before.net)->size > 0) settings.image_size = before.input[1];
}

void take_layers(Settings& settings, const Blueprint& before, const Blueprint& data) {
  if (!settings.net.empty() || !settings.layers.empty() || before.net != "mlp" || takes_graph(settings)) return;
  settings.layers = before.layers;
  settings.layers.front() = data.mlp_inputs();
  settings.layers.back() = data.outputs();
  settings.activation = before.activation;
  if (!settings.dropout) settings.dropout = before.dropout;  // its layers count
}

std::int64_t natural_size(const Settings& settings) {
  const Net* net = settings.net.empty() ? nullptr : find_net(settings.net);
  return net != nullptr && net->size > 0 ? net->size : 64;
}

bool has_own_loss(const Blueprint& blueprint) {
  const Net* net = find_net(blueprint.net);
  return net != nullptr && blueprint.cost == "cross-entropy" && net->own_loss;
}

Tensor own_loss(const nn::Module& net, const Tensor& x, const Tensor& labels) {
  return dynamic_cast<const models::ImageClassifier&>(net).loss(x, labels);
}

std::vector<std::int64_t> embeddings_of(const Settings& settings, const data::Encoding& encoding) {
  if (settings.embedding == "off") return {};
  constexpr std::int64_t few = 10, most_found = 50;
  const bool found = settings.embedding == "auto";
  const std::int64_t requested = found ? 0 : parse_integer("embedding", settings.embedding, 1, most_embedding);
  std::vector<std::int64_t> sizes;
  for (const data::Column& column : encoding.columns) {
    const auto count = static_cast<std::int64_t>(column.categories.size());
    const auto usual =
        std::min(most_found, static_cast<std::int64_t>(std::lround(1.6 * std::pow(static_cast<double>(count), 0.56))));
    sizes.push_back(count > (found ? few : requested) ? (found ? usual : requested) : 0);
  }
  const bool none = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size == 0; });
  return none ? std::vector<std::int64_t>() : sizes;
}

std::int64_t parameter_count(const Blueprint& blueprint) {
  if (blueprint.net != "mlp") return find_net(blueprint.net)->build(blueprint, 0, nn::Start::none)->parameter_count();
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < blueprint.layers.size(); ++i)
    count += (blueprint.layers[i] + 1) * blueprint.layers[i + 1];
  for (std::size_t c = 0; c < blueprint.embedding.size(); ++c)
    count += blueprint.embedding[c] * static_cast<std::int64_t>(blueprint.encoding.columns[c].categories.size());
  return count;
}

std::shared_ptr<nn::Module> build_net(const Blueprint& blueprint, std::uint64_t seed) {
  if (blueprint.net != "mlp") return find_net(blueprint.net)->build(blueprint, seed, nn::Start::kaiming);
  return std::make_shared<Perceptron>(blueprint, seed);
}

// Parameters whose shape changes with one more class.
std::vector<std::string> head_of(const Blueprint& blueprint) {
  Blueprint more = blueprint;
  more.classes.emplace_back();
  if (!more.layers.empty()) ++more.layers.back();
  const nn::State other = build_net(more, 0)->state();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : build_net(blueprint, 0)->state())
    if (!(other.at(name).shape() == tensor.shape())) names.push_back(name);
  return names;
}

std::string describe_net(const Blueprint& blueprint) {
  if (blueprint.net != "mlp") return blueprint.net;
  std::string text = "mlp ";
  for (std::size_t i = 0; i < blueprint.layers.size(); ++i)
    text += (i == 0 ? "" : "-") + std::to_string(blueprint.layers[i]);
  text += ", " + blueprint.activation;
  if (const auto vectors =
          blueprint.embedding.size() -
          static_cast<std::size_t>(std::count(blueprint.embedding.begin(), blueprint.embedding.end(), std::int64_t{0}));
      vectors > 0)
    text += ", " + counted(static_cast<std::int64_t>(vectors), "embedding");
  if (blueprint.dropout > 0) text += ", dropout " + fixed(blueprint.dropout, 2);
  return text;
}

}  // namespace tern::tool
