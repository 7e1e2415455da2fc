#include "importance.hpp"

#include <algorithm>
#include <cmath>

#include "evaluation.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"
#include "training.hpp"

namespace tern::tool {

namespace {

// Random streams that nothing else in a training uses.
constexpr std::uint64_t streams = std::uint64_t{13} << 60;

// Float32 [n, inputs], with `count` inputs from `first` on taken from other rows.
Tensor permuted(const Tensor& rows, std::int64_t first, std::int64_t count, const std::vector<std::int64_t>& order) {
  const Tensor from = rows.slice(1, first, first + count);
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<Tensor> parts;
  if (first > 0) parts.push_back(rows.slice(1, 0, first));
  parts.push_back(operators::index_select(from, 0, tensor(order, {n})));
  if (first + count < rows.size(1)) parts.push_back(rows.slice(1, first + count, rows.size(1)));
  return operators::cat(parts, 1);
}

}  // namespace

Importance importance(nn::Module& net, const Blueprint& blueprint, const Examples& examples, std::int64_t repeats,
                      std::uint64_t seed, const std::function<bool()>& stop) {
  const NoGrad no_grad;
  const auto never = [] { return false; };
  const Score whole = *score(net, blueprint, examples, never);
  Importance result{.examples = examples.size(), .repeats = repeats, .whole = whole.accuracy};
  const std::vector<data::Column>& columns = blueprint.encoding.columns;
  Generator generator(seed);
  std::int64_t first = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    ColumnImportance found{.column = columns[c].name};
    double squares = 0;
    for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
      if (stop()) return {.examples = result.examples, .repeats = repeats, .whole = result.whole};
      generator.set_position(streams + static_cast<std::uint64_t>(repeat) * columns.size() + c);
      Examples other = examples;
      other.memory.images = permuted(examples.memory.images, first, columns[c].inputs(),
                                     randperm(examples.size(), generator).to_vector<std::int64_t>());
      const Score score_of_it = *score(net, blueprint, other, never);
      const double fall = whole.accuracy - score_of_it.accuracy;
      found.mean += fall;
      squares += fall * fall;
      found.loss += score_of_it.loss - whole.loss;
    }
    const auto count = static_cast<double>(repeats);
    found.mean /= count;
    found.loss /= count;
    found.deviation = std::sqrt(std::max(0.0, squares / count - found.mean * found.mean));
    result.columns.push_back(std::move(found));
    first += columns[c].inputs();
  }
  std::stable_sort(result.columns.begin(), result.columns.end(),
                   [](const auto& a, const auto& b) { return a.mean != b.mean ? a.mean > b.mean : a.loss > b.loss; });
  return result;
}

Examples some_of(const Examples& examples, const Blueprint& blueprint, std::int64_t repeats) {
  constexpr std::int64_t passes = 500000, least = 200;  // rows through the net
  const auto columns = static_cast<std::int64_t>(blueprint.encoding.columns.size());
  const std::int64_t count = examples.size(), most = std::max(least, passes / (columns * repeats));
  if (count <= most) return examples;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < most; ++i) rows.push_back(i * count / most);
  return {.memory = examples.memory.select(tensor(rows, {most}))};
}

std::string as_table(const Importance& importance, const Blueprint& blueprint) {
  std::size_t width = 8;
  for (const ColumnImportance& column : importance.columns)
    width = std::max(width, std::min<std::size_t>(width_of(column.column), 40));
  const std::string figure = blueprint.regression ? "R2" : "accuracy";
  std::string text =
      message("\nImportance of columns: by how much the ", figure, " falls from ", fixed(importance.whole, 4),
              ", and the loss rises,\nwhen a column is shuffled (", counted(importance.repeats, "time"), ")\n",
              padded("column", width), "      fall  deviation", "  loss rises\n");
  for (const ColumnImportance& column : importance.columns)
    text += padded(shortened(column.column, width), width) + left_padded(fixed(column.mean, 4), 10) +
            left_padded(fixed(column.deviation, 4), 11) + left_padded(fixed(column.loss, 4), 12) + "\n";
  return text;
}

std::string as_csv(const Importance& importance, const Blueprint& blueprint) {
  std::string text = message("column,", blueprint.regression ? "r2" : "accuracy", "_fall,deviation,loss_rise\n");
  for (const ColumnImportance& column : importance.columns)
    text += csv_field(column.column) + "," + fixed(column.mean, 6) + "," + fixed(column.deviation, 6) + "," +
            fixed(column.loss, 6) + "\n";
  return text;
}

Json as_json(const Importance& importance) {
  Json columns = Json::array();
  for (const ColumnImportance& column : importance.columns)
    columns.push_back(
        {{"column", column.column}, {"mean", column.mean}, {"deviation", column.deviation}, {"loss", column.loss}});
  return {{"examples", importance.examples},
          {"repeats", importance.repeats},
          {"whole", importance.whole},
          {"columns", std::move(columns)}};
}

}  // namespace tern::tool
