// The text of a graph: a line for each input, tensor and node, and one for the results.

#include <charconv>
#include <unordered_map>

#include "core/small_file.hpp"
#include "graph/batch_text.hpp"
#include "kernels/families.hpp"

namespace tern::graph {

namespace {

constexpr std::string_view words[]{"input", "parameter", "buffer", "constant"};

// In names, what would end one in the text is written as a backslash and two hexadecimal digits.
constexpr std::string_view ends_names = " ,():=#[\\\x7f";

std::string escaped(std::string_view name, std::string_view special) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= ' ' && special.find(c) == special.npos) {
      text += c;
      continue;
    }
    text += {'\\', digits[code >> 4], digits[code & 15]};
  }
  return text;
}

std::string written_name(const std::string& name) {
  if (name.empty()) return "\\";
  return name == "-" ? "\\2d" : escaped(name, ends_names);
}

std::string unescaped(std::string_view text) {
  std::string name;
  if (text == "\\") return name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      name += text[i];
      continue;
    }
    unsigned code = 0;
    const char* const begin = text.data() + i + 1;
    const bool whole = i + 2 < text.size();
    const auto [stop, error] = std::from_chars(begin, begin + (whole ? 2 : 0), code, 16);
    expects<GraphError>(whole && error == std::errc() && stop == begin + 2, "a backslash in '", text,
                        "' without two hexadecimal digits");
    name += static_cast<char>(code);
    i += 2;
  }
  return name;
}

std::string names_of(const Structure& structure, const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) {
    if (!text.empty()) text += ", ";
    text += id < 0 ? "-" : written_name(structure.values[id].name);
  }
  return text;
}

// Names come from programs and files: what would end one in the text becomes an underscore.
std::string plain_name(const std::string& name) {
  std::string plain = name.empty() ? "_" : name;
  for (char& c : plain)
    if (static_cast<unsigned char>(c) <= ' ' || c == ',' || c == '(' || c == ')' || c == '=' || c == '#') c = '_';
  return plain == "-" ? "_" : plain;
}

bool is_frozen(const Value& value) { return value.kind == Kind::parameter && !value.tensor.requires_grad(); }

/// Takes a text apart, line by line.
class Parser {
 public:
  Parser(const std::string& text, const std::map<std::string, Tensor>& tensors) : left_(text), tensors_(tensors) {}

  Structure read() {
    while (!left_.empty()) {
      ++number_;
      rest_ = next_line(left_);
      try {
        read_line();
      } catch (const Error& error) {
        throw GraphError(message("graph, line ", number_, ": ", error.what()));
      }
    }
    expects<GraphError>(ended_, "graph: the text ends without a line of results");
    return std::move(structure_);
  }

 private:
  bool eat(std::string_view start) {
    if (!rest_.starts_with(start)) return false;
    rest_.remove_prefix(start.size());
    return true;
  }
  void need(std::string_view start) {
    expects<GraphError>(eat(start), "'", start, "' is missing before '", rest_.substr(0, 40), "'");
  }
  std::string_view until(std::string_view ends) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    expects<GraphError>(!word.empty(), "a name is missing before '", rest_.substr(0, 40), "'");
    rest_.remove_prefix(word.size());
    return word;
  }

  void read_line() {
    if (rest_.empty()) return;
    expects<GraphError>(!ended_, "a line behind the results");
    if (eat("graph ")) {
      structure_.name = rest_;
    } else if (eat("batch ")) {
      structure_.batch = read_linear(rest_).fixed;
      expects<GraphError>(structure_.batch > 0, "a batch is positive");
      if (eat(" from ")) structure_.least = read_linear(rest_).fixed;
      expects<GraphError>(structure_.least == 0 || structure_.least == 1, "batches begin at 0 or 1");
    } else if (eat("return ")) {
      structure_.results = read_names("");
      ended_ = true;
    } else {
      for (std::size_t kind = 0; kind < std::size(words); ++kind)
        if (eat(std::string(words[kind]) + " ")) return read_value(static_cast<Kind>(kind));
      read_node();
    }
  }

  void read_value(Kind kind) {
    Value value{.name = unescaped(until(" ")), .kind = kind};
    need(" ");
    value.dtype = dtype_named(until("["));
    value.shape = read_shape();
    const bool frozen = kind == Kind::parameter && eat(" frozen");
    expects<GraphError>(rest_.empty(), "'", rest_.substr(0, 40), "' behind a value");
    if (kind != Kind::input) {
      const auto found = tensors_.find(value.name);
      expects<GraphError>(found != tensors_.end(), "the tensor '", value.name, "' is missing");
      value.tensor = found->second;
      expects<GraphError>(value.tensor.dtype() == value.dtype && value.tensor.shape() == value.shape_at(0),
                          "the tensor '", value.name, "' is ", value.tensor.dtype(), ' ', value.tensor.shape());
      if (kind == Kind::parameter && value.tensor.requires_grad() == frozen) value.tensor.set_requires_grad(!frozen);
    }
    const int id = add(std::move(value));
    if (kind == Kind::input) structure_.inputs.push_back(id);
  }

  void read_node() {
    Node node;
    std::vector<Value> results;
    do {
      results.push_back({.name = unescaped(until(" :,"))});
      need(":");
      results.back().dtype = dtype_named(until("["));
      results.back().shape = read_shape();
    } while (eat(", "));
    need(" = ");
    const std::string_view name = until("(");
    node.op = &operators::op(name);
    expects<GraphError>(node.op->results() < 0 || node.op->results() == static_cast<int>(results.size()), name, " has ",
                        node.op->results(), " results");
    need("(");
    node.inputs = read_names(")");
    need(")");
    for (const Value& result : results) check_kernels(name, result.dtype);
    for (const int id : node.inputs)
      if (id >= 0) check_kernels(name, structure_.values[id].dtype);
    std::string_view attributes = rest_;
    if (const std::size_t comment = attributes.find("  # "); comment != attributes.npos) {
      node.module = unescaped(attributes.substr(comment + 4));
      attributes = attributes.substr(0, comment);
    }
    if (attributes.starts_with(' ')) attributes.remove_prefix(1);
    if (attributes.find('{') != attributes.npos) node.by_batch = attributes;
    node.attributes = node.op->read(text_at(attributes, structure_.batch));
    for (Value& result : results) node.results.push_back(add(std::move(result)));
    structure_.nodes.push_back(std::move(node));
  }

  /// A library for TERN_OPERATORS has not the kernels of every dtype. Bytes are what 8-bit operators compute and others
  /// move.
  static void check_kernels(std::string_view name, DType dtype) {
    const std::uint32_t families = kernels::families_of(name);
    const bool stored = dtype == DType::uint8 || dtype == DType::int8;
    if ((is_floating(dtype) && dtype != DType::float64) || families == kernels::family::quantized ||
        (stored && families == 0))
      return;
    expects<GraphError>(kernels::wanted(kernels::family::all), name, " of ", dtype,
                        ": this library was built with TERN_OPERATORS, which lists no such dtype; add '", dtype,
                        "' there");
  }

  std::vector<int> read_names(std::string_view end) {
    std::vector<int> ids;
    if (rest_.empty() || (!end.empty() && rest_.starts_with(end))) return ids;
    do {
      const std::string_view text = until(end.empty() ? "," : ",)");
      if (text == "-") {
        ids.push_back(-1);
        continue;
      }
      const std::string name = unescaped(text);
      const auto found = ids_.find(name);
      expects<GraphError>(found != ids_.end(), "nothing is named '", name, "'");
      ids.push_back(found->second);
    } while (eat(", "));
    return ids;
  }

  std::vector<Linear> read_shape() {
    std::vector<Linear> shape;
    need("[");
    while (!eat("]")) {
      if (!shape.empty()) need(",");
      shape.push_back(read_linear(rest_));
      expects<GraphError>(shape.size() <= Shape::max_rank, "a shape has more than ", Shape::max_rank, " dimensions");
    }
    return shape;
  }

  static DType dtype_named(std::string_view name) {
    for (const DTypeFacts& facts : dtype_facts)
      if (facts.name == name) return facts.dtype;
    throw GraphError(message("'", name, "' is no dtype"));
  }

  int add(Value value) {
    const int id = static_cast<int>(structure_.values.size());
    expects<GraphError>(ids_.emplace(value.name, id).second, "two values are named '", value.name, "'");
    structure_.values.push_back(std::move(value));
    return id;
  }

  std::string_view left_;
  const std::map<std::string, Tensor>& tensors_;
  Structure structure_;
  std::unordered_map<std::string, int> ids_;
  std::string_view rest_;
  int number_ = 0;
  bool ended_ = false;
};

}  // namespace

std::string to_text(const Structure& structure) {
  std::string text = "graph " + plain_name(structure.name) + '\n';
  if (structure.batch > 0) text += message("batch ", structure.batch, structure.least > 0 ? " from 1\n" : "\n");
  for (const Value& value : structure.values)
    if (value.kind != Kind::result)
      text += message(words[static_cast<int>(value.kind)], ' ', written_name(value.name), ' ', value.dtype,
                      written_shape(value.shape), is_frozen(value) ? " frozen\n" : "\n");
  for (const Node& node : structure.nodes) {
    std::string results;
    for (const int id : node.results) {
      const Value& value = structure.values[id];
      results +=
          message(results.empty() ? "" : ", ", written_name(value.name), ":", value.dtype, written_shape(value.shape));
    }
    const std::string attributes = node.by_batch.empty() ? node.op->write(node.attributes) : node.by_batch;
    text += message(results, " = ", node.op->name(), "(", names_of(structure, node.inputs), ")",
                    attributes.empty() ? "" : " ", attributes, node.module.empty() ? "" : "  # ",
                    escaped(node.module, "\\"), '\n');
  }
  return text + "return " + names_of(structure, structure.results) + '\n';
}

Structure parse(const std::string& text, const std::map<std::string, Tensor>& tensors) {
  return Parser(text, tensors).read();
}

}  // namespace tern::graph
