#pragma once
// The networks by name.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "blueprint.hpp"
#include "settings.hpp"
#include "tern/nn/init.hpp"
#include "tern/nn/module.hpp"

namespace tern::tool {

struct Net {
  std::string name = {};
  /// Sizes of the hidden layers of a perceptron; empty for the nets that `build` makes.
  std::vector<std::int64_t> hidden = {};
  Shape input = {};          // of one example, if the net accepts no other
  std::int64_t classes = 0;  // if the net accepts no other number
  std::int64_t size = 0;     // preferred size of colour images; 0: it accepts none
  std::int64_t least_size = 0;
  bool own_loss = false;  // trains on more than its outputs
  std::function<std::shared_ptr<nn::Module>(const Blueprint& blueprint, std::uint64_t seed, nn::Start start)> build =
      {};
};

const std::vector<Net>& nets();

/// Why the blueprint's data does not suit its net; empty if it does.
std::string misfit(const Blueprint& blueprint);

/// Fills in the network of a blueprint whose data is known; the settings determine the cost. Throws UsageError if they
/// contradict each other.
void choose_net(Blueprint& blueprint, const Settings& settings);

/// If the settings name neither a network nor layers, takes the network of `before`, whose weights the training starts
/// with. Called first without, then with the data, whose number of classes the layers need.
void take_net(Settings& settings, const Blueprint& before);
void take_layers(Settings& settings, const Blueprint& before, const Blueprint& data);

/// Whether the training goes on with the graph of an ONNX file.
bool takes_graph(const Settings& settings);

/// Height and width of a folder's images for the network of the settings.
std::int64_t natural_size(const Settings& settings);
/// Whether the blueprint's net trains on more than its outputs: `training_loss` is then minimised.
bool has_own_loss(const Blueprint& blueprint);
Tensor own_loss(const nn::Module& net, const Tensor& x, const Tensor& labels);

/// The largest size of a category's vector.
inline constexpr std::int64_t most_embedding = 1000;
/// Blueprint::embedding for --embedding. "auto" gives columns of more than 10 categories 1.6 n^0.56 numbers, at most
/// 50.
std::vector<std::int64_t> embeddings_of(const Settings& settings, const data::Encoding& encoding);

/// The number of parameters of the network, known before its weights are allocated.
std::int64_t parameter_count(const Blueprint& blueprint);
std::shared_ptr<nn::Module> build_net(const Blueprint& blueprint, std::uint64_t seed);
/// The names of the parameters that depend on the number of classes.
std::vector<std::string> head_of(const Blueprint& blueprint);
/// "mlp 4-64-64-3, relu" or "lenet".
std::string describe_net(const Blueprint& blueprint);

}  // namespace tern::tool
