#include "init_columns.hpp"

#include <algorithm>
#include <map>

#include "errors.hpp"

namespace tern::tool {

namespace {

// An input of the first layer: its column, and its position within it.
struct Input {
  std::string column, what;
  auto operator<=>(const Input&) const = default;
};

std::int64_t width_of(const Blueprint& blueprint, std::size_t column) {
  return blueprint.embedding.empty() ? 0 : blueprint.embedding[column];
}

// In the order of the first layer's inputs.
std::vector<Input> inputs_of(const Blueprint& blueprint) {
  std::vector<Input> inputs;
  for (std::size_t c = 0; c < blueprint.encoding.columns.size(); ++c) {
    const data::Column& column = blueprint.encoding.columns[c];
    const std::int64_t width = width_of(blueprint, c);
    for (std::int64_t i = 0; i < width; ++i) inputs.push_back({column.name, message("vector ", width, " ", i)});
    if (width == 0 && column.categories.empty()) inputs.push_back({column.name, "number"});
    if (width == 0)
      for (const std::string& category : column.categories) inputs.push_back({column.name, "is " + category});
    if (column.indicator) inputs.push_back({column.name, "missing"});
  }
  return inputs;
}

// Copies rows of `to` that `from` has, by name. Returns the positions of the others.
std::vector<std::size_t> take_rows(const Tensor& from, const std::vector<Input>& from_names, Tensor to,
                                   const std::vector<Input>& to_names) {
  std::map<Input, std::size_t> places;
  for (std::size_t i = 0; i < from_names.size(); ++i) places.emplace(from_names[i], i);
  const auto width = static_cast<std::size_t>(to.size(1));
  const std::vector<float> known = from.to(DType::float32).to_vector<float>();
  const auto values = to.write<float>();
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < to_names.size(); ++i) {
    const auto found = places.find(to_names[i]);
    if (found == places.end())
      unknown.push_back(i);
    else
      std::copy_n(known.begin() + static_cast<std::ptrdiff_t>(found->second * width), width,
                  values.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return unknown;
}

std::vector<Input> categories_of(const data::Column& column) {
  std::vector<Input> names;
  for (const std::string& category : column.categories) names.push_back({column.name, category});
  return names;
}

// Tables of vectors are named by the number of their column.
void match_vectors(nn::State& weights, const Blueprint& before, const Blueprint& now, const nn::State& fresh) {
  nn::State known;
  for (std::size_t c = 0; c < before.embedding.size(); ++c)
    if (auto entry = weights.extract(message("embeddings.", c))) known.emplace(entry.key(), entry.mapped());
  for (std::size_t c = 0; c < now.embedding.size(); ++c) {
    if (now.embedding[c] == 0) continue;
    const data::Column& column = now.encoding.columns[c];
    const Tensor vectors = fresh.at(message("embeddings.", c)).clone();
    for (std::size_t b = 0; b < before.embedding.size(); ++b) {
      const data::Column& old = before.encoding.columns[b];
      const auto found = known.find(message("embeddings.", b));
      if (old.name != column.name || before.embedding[b] != now.embedding[c] || found == known.end()) continue;
      take_rows(found->second, categories_of(old), vectors, categories_of(column));
    }
    weights.insert_or_assign(message("embeddings.", c), vectors);
  }
}

}  // namespace

std::vector<std::string> match_columns(nn::State& weights, const Blueprint& before, const Blueprint& now,
                                       const nn::State& fresh) {
  if (!before.table || !now.table || !before.header || !now.header || before.net != "mlp" || now.net != "mlp" ||
      before.embedding.empty() != now.embedding.empty())
    return {};
  const std::vector<Input> inputs_before = inputs_of(before), inputs_now = inputs_of(now);
  const std::string first = now.embedding.empty() ? "0.weight" : "1.weight";
  const auto found = weights.find(first);
  if (found == weights.end() || found->second.rank() != 2 ||
      found->second.size(1) != static_cast<std::int64_t>(inputs_before.size()) ||
      found->second.size(0) != fresh.at(first).size(0))
    return {};
  const Tensor columns = fresh.at(first).transpose(0, 1).contiguous().clone();
  const std::vector<std::size_t> unknown =
      take_rows(found->second.transpose(0, 1).contiguous(), inputs_before, columns, inputs_now);
  found->second = columns.transpose(0, 1).contiguous();
  match_vectors(weights, before, now, fresh);
  std::vector<std::string> names;
  for (const std::size_t i : unknown)
    if (names.empty() || names.back() != inputs_now[i].column) names.push_back(inputs_now[i].column);
  return names;
}

}  // namespace tern::tool
