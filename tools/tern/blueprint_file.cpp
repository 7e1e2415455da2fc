#include "blueprint_file.hpp"

#include <algorithm>
#include <cmath>

#include "errors.hpp"
#include "names.hpp"
#include "nets.hpp"

namespace tern::tool {

namespace {

constexpr int format = 1;

// A member of a JSON object that may hold anything.
class Reader {
 public:
  Reader(const Json& json, const std::string& file) : json_(json), file_(file) {
    expects<FileError>(json.is_object(), file_, ": the description of the model is not a JSON object");
  }
  template <class T>
  T take(const char* name) const {
    const auto found = json_.find(name);
    expects<FileError>(found != json_.end(), file_, ": the description of the model lacks '", name, "'");
    try {
      // The JSON library would convert any number to an integer.
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) check_integer(*found, name);
      if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
        for (const Json& part : *found) check_integer(part, name);
      return found->template get<T>();
    } catch (const Json::exception&) {
      throw FileError(
          message(file_, ": '", name, "' in the description of the model is of another kind than expected"));
    }
  }
  /// T{} for members that an older version did not write.
  template <class T>
  T take_or_default(const char* name) const {
    return json_.contains(name) ? take<T>(name) : T{};
  }
  std::string one_of(const char* name, const std::vector<std::string>& known) const {
    auto value = take<std::string>(name);
    expects<FileError>(std::find(known.begin(), known.end(), value) != known.end(), file_, ": '", name,
                       "' in the description of the model is unknown here; a newer version may have written it");
    return value;
  }

 private:
  void check_integer(const Json& json, const char* name) const {
    expects<FileError>(json.is_number_integer(), file_, ": '", name, "' in the description is not a whole number");
  }

  const Json& json_;
  const std::string& file_;
};

// For a table, lists with an element per column. Values that are equal in all columns, and numbers that may not be
// missing, are not written.
void write_columns(Json& json, const Blueprint& b) {
  Json names = Json::array(), mean = Json::array(), deviation = Json::array(), categories = Json::array(),
       fill = Json::array(), indicator = Json::array();
  for (const data::Column& column : b.encoding.columns) {
    names.push_back(column.name);
    mean.push_back(column.mean);
    deviation.push_back(column.deviation);
    categories.push_back(column.categories);
    fill.push_back(column.fill ? Json(*column.fill) : Json());
    indicator.push_back(column.indicator);
  }
  json["columns"] = std::move(names);
  json["mean"] = std::move(mean);
  json["deviation"] = std::move(deviation);
  const auto& columns = b.encoding.columns;
  if (std::any_of(columns.begin(), columns.end(), [](const auto& column) { return !column.categories.empty(); }))
    json["categories"] = std::move(categories);
  if (b.missing == "refuse") return;
  json["missing"] = b.missing;
  json["fill"] = std::move(fill);
  json["indicator"] = std::move(indicator);
}

void read_columns(const Reader& reader, const Json& json, Blueprint& b, const std::string& file) {
  const auto names = reader.take<std::vector<std::string>>("columns");
  const auto mean = reader.take<std::vector<double>>("mean"), deviation = reader.take<std::vector<double>>("deviation");
  const std::size_t count = names.size();
  const bool fills = json.contains("missing");
  if (fills) b.missing = reader.one_of("missing", missing_names());
  auto categories = reader.take_or_default<std::vector<std::vector<std::string>>>("categories");
  if (!json.contains("categories")) categories.resize(count);
  const auto fill = fills ? reader.take<std::vector<Json>>("fill") : std::vector<Json>(count);
  const auto indicator = fills ? reader.take<std::vector<bool>>("indicator") : std::vector<bool>(count);
  expects<FileError>(mean.size() == count && deviation.size() == count && categories.size() == count &&
                         fill.size() == count && indicator.size() == count,
                     file, ": the description of the model does not have one mean, deviation and the like for each of ",
                     count, " columns");
  for (std::size_t i = 0; i < count; ++i) {
    data::Column column{names[i], mean[i], deviation[i], std::move(categories[i]), {}, indicator[i]};
    expects<FileError>(std::isfinite(mean[i]) && std::isfinite(deviation[i]) && deviation[i] > 0, file,
                       ": the description of the model has a deviation that is not above 0");
    if (!fill[i].is_null()) {
      const double value = fill[i].is_number() ? fill[i].get<double>() : NAN;
      const auto known = static_cast<double>(column.categories.size());
      expects<FileError>(std::isfinite(value) && (known == 0 || (value >= 0 && value < known)), file,
                         ": 'fill' in the description is neither a number nor one of the categories");
      column.fill = value;
    }
    b.encoding.columns.push_back(std::move(column));
  }
  expects<FileError>(b.encoding.inputs() == b.input[0], file, ": the columns in the description make ",
                     b.encoding.inputs(), " inputs, expected ", b.input[0]);
}

void read_scaling(const Reader& reader, Blueprint& b, const std::string& file) {
  b.scaling.mean = reader.take<std::vector<double>>("mean");
  b.scaling.deviation = reader.take<std::vector<double>>("deviation");
  const auto scales = static_cast<std::size_t>(b.input[0]);
  expects<FileError>(b.scaling.mean.size() == scales && b.scaling.deviation.size() == scales, file,
                     ": the description of the model does not have one mean and deviation for each of ", scales,
                     " channels");
  for (std::size_t i = 0; i < scales; ++i)
    expects<FileError>(
        std::isfinite(b.scaling.mean[i]) && std::isfinite(b.scaling.deviation[i]) && b.scaling.deviation[i] > 0, file,
        ": the description of the model has a deviation that is not above 0");
}

}  // namespace

Json to_json(const Blueprint& b) {
  Json json{{"format", format},
            {"table", b.table},
            {"task", b.regression ? "regression" : "classification"},
            {"input", std::vector<std::int64_t>(b.input.begin(), b.input.end())},
            {"classes", b.classes},
            {"columns", Json::array()},
            {"header", b.header},
            {"target", b.target},
            {"ignore", b.ignore},
            {"mean", b.scaling.mean},
            {"deviation", b.scaling.deviation},
            {"source", b.source},
            {"examples", b.examples},
            {"fingerprint", b.fingerprint},
            {"validation", b.validation},
            {"split", b.split},
            {"net", b.net},
            {"layers", b.layers},
            {"activation", b.activation},
            {"dropout", b.dropout},
            {"cost", b.cost}};
  if (b.test > 0) json["test"] = b.test;
  if (b.folds > 0) json["folds"] = b.folds;
  if (b.folds > 0) json["fold"] = b.fold;
  if (!b.embedding.empty()) json["embedding"] = b.embedding;
  if (!b.class_weights.empty()) json["class_weights"] = b.class_weights;
  if (b.table) write_columns(json, b);
  if (b.regression) {
    json["target_mean"] = b.target_scaling.mean.at(0);
    json["target_deviation"] = b.target_scaling.deviation.at(0);
  }
  return json;
}

Blueprint blueprint_from(const Json& json, const std::string& file) {
  const Reader reader(json, file);
  expects<FileError>(reader.take<std::int64_t>("format") == format, file, ": expected a model of format ", format,
                     "; a newer version may have written it");
  Blueprint b;
  b.table = reader.take<bool>("table");
  const auto sizes = reader.take<std::vector<std::int64_t>>("input");
  expects<FileError>(sizes.size() == (b.table ? 1u : 3u), file, ": 'input' in the description has ", sizes.size(),
                     " sizes, expected ", b.table ? 1 : 3);
  for (const std::int64_t size : sizes)
    expects<FileError>(size >= 1 && size <= (1 << 20), file, ": 'input' in the description has the size ", size);
  b.input = Shape(sizes);
  if (json.contains("task")) b.regression = reader.one_of("task", {"classification", "regression"}) == "regression";
  expects<FileError>(b.table || !b.regression, file, ": the description of the model has a regression of images");
  b.classes = reader.take<std::vector<std::string>>("classes");
  expects<FileError>(b.regression ? b.classes.empty() : b.classes.size() >= 2, file,
                     ": the description of the model has ", b.classes.size(), " classes, expected ",
                     b.regression ? "none" : "two or more");
  b.header = reader.take_or_default<bool>("header");
  b.target = reader.take<std::string>("target");
  b.ignore = reader.take<std::vector<std::string>>("ignore");
  if (b.table)
    read_columns(reader, json, b, file);
  else
    read_scaling(reader, b, file);
  if (b.regression) {
    const auto mean = reader.take<double>("target_mean"), deviation = reader.take<double>("target_deviation");
    expects<FileError>(std::isfinite(mean) && std::isfinite(deviation) && deviation > 0, file,
                       ": the target in the description of the model has a deviation that is not above 0");
    b.target_scaling = {{mean}, {deviation}};
  }
  b.source = reader.take<std::string>("source");
  b.examples = reader.take<std::int64_t>("examples");
  b.fingerprint = reader.take_or_default<std::string>("fingerprint");
  b.validation = reader.take<double>("validation");
  expects<FileError>(b.validation >= 0 && b.validation < 1, file,
                     ": 'validation' in the description is not a fraction");
  b.test = reader.take_or_default<double>("test");
  expects<FileError>(b.test >= 0 && b.test < 1, file, ": 'test' in the description is not a fraction");
  b.folds = reader.take_or_default<std::int64_t>("folds");
  b.fold = reader.take_or_default<std::int64_t>("fold");
  expects<FileError>(b.folds == 0 ? b.fold == 0 : b.folds >= 2 && b.fold >= 1 && b.fold <= b.folds, file,
                     ": 'fold' in the description is none of its folds");
  b.split = reader.take<std::uint64_t>("split");
  std::vector<std::string> nets = net_names();
  nets.insert(nets.end(), {"mlp", "onnx"});
  b.net = reader.one_of("net", nets);
  b.layers = reader.take<std::vector<std::int64_t>>("layers");
  b.activation = reader.one_of("activation", activation_names());
  b.dropout = reader.take<double>("dropout");
  expects<FileError>(b.dropout >= 0 && b.dropout < 1, file, ": 'dropout' in the description is not a probability");
  b.cost = reader.one_of("cost", b.regression ? regression_cost_names() : cost_names());
  b.class_weights = reader.take_or_default<std::vector<double>>("class_weights");
  expects<FileError>(
      b.class_weights.empty() || (b.class_weights.size() == b.classes.size() && b.cost == "cross-entropy" &&
                                  std::all_of(b.class_weights.begin(), b.class_weights.end(),
                                              [](double weight) { return std::isfinite(weight) && weight > 0; })),
      file, ": 'class_weights' in the description are not a number above 0 for each class");
  expects<FileError>(b.net == "mlp" || b.net == "onnx" || !b.table, file,
                     ": the net in the description takes images, not a table");
  if (!b.table)
    expects<FileError>(b.input[1] <= 4096, file, ": 'input' in the description has images of ", b.input[1],
                       " pixels, expected at most 4096");
  b.embedding = reader.take_or_default<std::vector<std::int64_t>>("embedding");
  expects<FileError>(b.embedding.empty() || (b.net == "mlp" && b.embedding.size() == b.encoding.columns.size()), file,
                     ": 'embedding' in the description is not a size for each column of a table");
  for (std::size_t c = 0; c < b.embedding.size(); ++c)
    expects<FileError>(
        b.embedding[c] == 0 ||
            (b.embedding[c] > 0 && b.embedding[c] <= most_embedding && !b.encoding.columns[c].categories.empty()),
        file, ": 'embedding' in the description has the size ", b.embedding[c], " for ", b.encoding.columns[c].name);
  const std::string problem = misfit(b);
  expects<FileError>(problem.empty(), file, ": the net ", b.net, " of the description ", problem);
  if (b.net == "mlp") {
    expects<FileError>(b.layers.size() >= 2 && b.layers.size() <= 1000, file, ": 'layers' in the description has ",
                       b.layers.size(), " sizes, expected 2 to 1000");
    for (const std::int64_t size : b.layers)
      expects<FileError>(size >= 1 && size <= (1 << 24), file, ": 'layers' in the description has the size ", size);
    expects<FileError>(b.layers.front() == b.mlp_inputs() && b.layers.back() == b.outputs(), file,
                       ": 'layers' in the description fits neither its input nor its classes");
  }
  return b;
}

}  // namespace tern::tool
