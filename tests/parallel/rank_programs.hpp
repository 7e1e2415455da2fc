#pragma once
// Random programs over ranks: what they draw, and the rule that they check: what every rank holds whole has the same
// bits in every rank.

#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "tern/data/fingerprint.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/split.hpp"

namespace tern::testing {

/// The same decisions in every rank, from a seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : generator_(seed * 2654435761u + 1) {}
  /// In [least, most].
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool once_in(int times) { return number(1, times) == 1; }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(number(0, std::ssize(choices) - 1))];
  }

 private:
  std::mt19937_64 generator_;
};

/// What a rank throws that must fail.
struct Planned : std::runtime_error {
  Planned() : std::runtime_error("as planned") {}
};

inline std::uint64_t asked_of(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// The parameters and buffers of a module of which a rank has a part, with the number of the part.
inline std::map<std::string, int> parts_in(const nn::Module& net) {
  std::map<std::string, int> parts;
  net.visit([&](const std::string& path, const nn::Module& module) {
    const auto* const split = dynamic_cast<const parallel::SplitModule*>(&module);
    if (split == nullptr || split->group().size() == 1) return;
    for (const auto& [name, tensor] : module.state())
      if (split->layout(name) != parallel::Layout::whole)
        parts.emplace(message(path, path.empty() ? "" : ".", name), split->group().rank());
  });
  return parts;
}

/// What a rank holds, a line for each thing: ranks with the same thing have the same line.
class Lines {
 public:
  explicit Lines(const nn::Module& net) : parts_(parts_in(net)) {
    for (const nn::NamedTensor& named : net.named_parameters()) {
      names_.push_back(named);
      if (named.tensor.grad().defined())
        add("gradient", named.name, named.tensor.grad());
      else
        add("gradient", named.name, Tensor());
    }
    add("net", net.state());
  }
  void add(const std::string& kind, const std::string& name, const Tensor& tensor) {
    const auto part = parts_.find(name);
    text_ += message(kind, ' ', name, part == parts_.end() ? "" : message(", part ", part->second), '\t',
                     tensor.defined() ? data::Fingerprint().add(tensor.detach()).text() : "none", '\n');
  }
  /// Under the names of the net's parameters.
  void add(const std::string& kind, const nn::State& state) {
    for (const auto& [name, tensor] : state) add(kind, name, tensor);
  }
  void add(const optim::Optimizer& optimizer) {
    for (const auto& [entry, tensor] : optimizer.state()) {
      const Tensor owner = optimizer.owner_of(entry);
      for (const nn::NamedTensor& named : names_)
        if (owner.defined() && named.tensor.is(owner))
          add("optimizer " + entry.substr(entry.rfind('.') + 1), named.name, tensor);
      if (entry == "learning_rate") add("optimizer", entry, tensor);
    }
  }
  void add(const std::string& figure, double value) {
    text_ += message(figure, '\t', std::hexfloat, value, std::defaultfloat, '\n');
  }

  /// The first thing that two ranks have and that differs; empty where the rule holds. A collective call.
  std::string difference(const parallel::Group& group) const {
    std::map<std::string, std::pair<std::string, int>> known;
    const std::vector<std::string> all = group.all_gather(text_);
    for (int rank = 0; rank < group.size(); ++rank) {
      std::istringstream lines(all[static_cast<std::size_t>(rank)]);
      for (std::string line; std::getline(lines, line);) {
        const auto tab = line.find('\t');
        const std::string what = line.substr(0, tab), value = line.substr(tab + 1);
        const auto [entry, is_new] = known.try_emplace(what, value, rank);
        if (!is_new && entry->second.first != value)
          return message(what, " is ", value, " in rank ", rank, " and ", entry->second.first, " in rank ",
                         entry->second.second);
      }
    }
    return {};
  }

 private:
  std::map<std::string, int> parts_;
  std::vector<nn::NamedTensor> names_;
  std::string text_;
};

/// What differs between two states: by more than `most` (0: in any bit); empty where nothing does.
inline std::string difference(const nn::State& found, const nn::State& expected, double most) {
  if (found.size() != expected.size()) return message(found.size(), " tensors for ", expected.size());
  for (const auto& [name, tensor] : found) {
    const auto other = expected.find(name);
    if (other == expected.end() || tensor.shape() != other->second.shape()) return message(name, " does not fit");
    const std::vector<double> a = tensor.values(), b = other->second.values();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= most * (1 + std::abs(b[i]))))
        return message(name, " is ", a[i], " for ", b[i], " of one rank");
  }
  return {};
}

}  // namespace tern::testing
