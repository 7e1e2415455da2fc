#include "tern/data/encoding.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "tern/data/scaling.hpp"

namespace tern::data {

namespace {

constexpr std::size_t most_categories = 1000, fewest_rows = 50;

void check(const Tensor& features, std::size_t columns) {
  expects<DTypeError>(features.dtype() == DType::float32, "encoding: expected features of float32, found ",
                      features.dtype());
  expects<ShapeError>(features.rank() == 2 && features.size(1) == static_cast<std::int64_t>(columns),
                      "encoding: expected features [rows, ", columns, "], found ", features.shape());
}

// The values of a column that are not missing.
std::vector<float> present(std::span<const float> values, std::size_t column, std::size_t columns) {
  std::vector<float> found;
  for (std::size_t i = column; i < values.size(); i += columns)
    if (!std::isnan(values[i])) found.push_back(values[i]);
  return found;
}

double median_of(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return static_cast<double>(*middle);
  const float below = *std::max_element(values.begin(), middle);
  return (static_cast<double>(below) + static_cast<double>(*middle)) / 2;
}

void describe_numbers(Column& column, const std::vector<float>& values, Missing missing) {
  Tensor here({static_cast<std::int64_t>(values.size()), 1});
  std::copy(values.begin(), values.end(), here.write<float>().begin());
  const Scaling scaling = scaling_of(here);
  column.mean = scaling.mean[0];
  column.deviation = scaling.deviation[0];
  if (missing == Missing::mean || missing == Missing::indicator) column.fill = column.mean;
  if (missing == Missing::median) column.fill = median_of(values);
}

void describe_categories(Column& column, const std::vector<float>& values, const std::vector<std::string>& names,
                         Missing missing) {
  std::vector<std::size_t> counts(names.size());
  for (const float value : values) ++counts.at(static_cast<std::size_t>(value));
  std::size_t most = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (counts[i] == 0) continue;
    if (counts[i] > most && (missing == Missing::mean || missing == Missing::median))
      column.fill = static_cast<double>(column.categories.size());
    most = std::max(most, counts[i]);
    column.categories.push_back(names[i]);
  }
}

// The position of each of a table's categories among those of a column; -1 if absent.
std::vector<std::int64_t> positions(const std::vector<std::string>& names, const Column& column) {
  std::vector<std::int64_t> found;
  for (const std::string& name : names) {
    const auto known = std::find(column.categories.begin(), column.categories.end(), name);
    found.push_back(known == column.categories.end() ? -1 : known - column.categories.begin());
  }
  return found;
}

}  // namespace

std::int64_t Column::inputs() const {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(categories.size())) + (indicator ? 1 : 0);
}

std::int64_t Encoding::inputs() const {
  std::int64_t count = 0;
  for (const Column& column : columns) count += column.inputs();
  return count;
}

Tensor Encoding::apply(const Tensor& features, const std::vector<std::vector<std::string>>& categories) const {
  check(features, columns.size());
  expects<ShapeError>(categories.empty() || categories.size() == columns.size(), "encoding: expected categories of ",
                      columns.size(), " columns, found those of ", categories.size());
  const std::int64_t rows = features.size(0);
  const Tensor whole = features.contiguous();
  const auto from = whole.read<float>();
  Tensor result({rows, inputs()});
  const auto to = result.write<float>();
  const auto width = static_cast<std::size_t>(inputs());
  std::size_t first = 0;  // first input of the column
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    const std::vector<std::int64_t> known =
        categories.empty() ? std::vector<std::int64_t>() : positions(categories[c], column);
    const auto own = static_cast<std::size_t>(column.inputs());
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const float value = from[row * columns.size() + c];
      const auto inputs = to.subspan(row * width + first, own);
      std::fill(inputs.begin(), inputs.end(), 0.0f);
      const bool missing = std::isnan(value);
      if (column.indicator) inputs.back() = missing ? 1.0f : 0.0f;
      if (missing && !column.fill) continue;
      if (column.categories.empty()) {
        const double number = missing ? *column.fill : static_cast<double>(value);
        inputs[0] = static_cast<float>((number - column.mean) / column.deviation);
      } else {
        const std::int64_t at =
            missing ? static_cast<std::int64_t>(*column.fill) : known.at(static_cast<std::size_t>(value));
        if (at >= 0) inputs[static_cast<std::size_t>(at)] = 1;
      }
    }
    first += own;
  }
  return result;
}

Encoding encoding_of(const Table& table, const Tensor& features, Missing missing) {
  check(features, table.columns.size());
  expects<ShapeError>(features.size(0) > 0, "encoding: expected at least one row, found ", features.shape());
  const Tensor whole = features.contiguous();
  const auto values = whole.read<float>();
  const auto rows = static_cast<std::size_t>(features.size(0));
  Encoding result;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    Column column{.name = table.columns[c]};
    const std::vector<float> there = present(values, c, table.columns.size());
    expects<FileError>(!there.empty(), table.source, ": found no value in ", column.name,
                       " of any row to train on, expected at least one; --ignore leaves the column out");
    if (table.categories[c].empty()) {
      describe_numbers(column, there, missing);
    } else {
      describe_categories(column, there, table.categories[c], missing);
      const std::size_t different = column.categories.size();
      expects<FileError>(different <= most_categories && (rows < fewest_rows || different <= rows / 2), table.source,
                         ": found ", different, " different texts in ", column.name, " of ", rows,
                         " rows to train on, expected repeated categories; --ignore leaves the column out");
    }
    column.indicator = missing == Missing::indicator && there.size() < rows;
    result.columns.push_back(std::move(column));
  }
  return result;
}

std::vector<std::int64_t> whole_rows(const Tensor& features) {
  const Tensor all = features.contiguous();
  const auto values = all.read<float>();
  const auto columns = static_cast<std::size_t>(features.size(1));
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row * columns < values.size(); ++row) {
    const auto own = values.subspan(row * columns, columns);
    if (std::none_of(own.begin(), own.end(), [](float value) { return std::isnan(value); }))
      rows.push_back(static_cast<std::int64_t>(row));
  }
  return rows;
}

}  // namespace tern::data
