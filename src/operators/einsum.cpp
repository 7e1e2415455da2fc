#include "tern/operators/einsum.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

constexpr const char* einsum_name = "einsum";

// Letters are their codes; the dimensions of "..." are -1, -2, ... from the last one on.
using Labels = std::vector<int>;

bool has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }
int place_of(const Labels& labels, int label) {
  return static_cast<int>(std::ranges::find(labels, label) - labels.begin());
}

// The labels of one term; "..." stands for `more` dimensions.
Labels labels_of(const std::string& equation, std::string_view term, int more) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      for (int dim = more; dim > 0; --dim) labels.push_back(-dim);
      i += 2;
    } else {
      expects<ShapeError>(std::isalpha(static_cast<unsigned char>(term[i])) != 0, einsum_name, ": '", term[i],
                          "' in \"", equation, "\", expected letters, \"...\", ',' and \"->\"");
      labels.push_back(term[i]);
    }
  }
  return labels;
}

struct Operand {
  Tensor x;
  Labels labels;
};

// A label that occurs twice is a diagonal.
Operand with_diagonals(Operand operand, const std::string& equation) {
  for (int i = 0; i < static_cast<int>(operand.labels.size()); ++i)
    for (int j = i + 1; j < static_cast<int>(operand.labels.size()); ++j) {
      if (operand.labels[static_cast<std::size_t>(i)] != operand.labels[static_cast<std::size_t>(j)]) continue;
      const Shape& shape = operand.x.shape();
      expects<ShapeError>(shape[i] == shape[j], einsum_name, ": \"", equation, "\" takes a diagonal of ", shape[i], 'x',
                          shape[j]);
      const std::int64_t size = shape[i];
      std::vector<std::int64_t> order;
      Shape rest;
      for (int dim = 0; dim < shape.rank(); ++dim)
        if (dim != i && dim != j) order.push_back(dim), rest.push_back(shape[dim]);
      order.push_back(i), order.push_back(j);
      rest.push_back(size * size);
      const Tensor flat = permute(operand.x, order).reshape(rest);
      const int label = operand.labels[static_cast<std::size_t>(i)];
      Labels labels = operand.labels;
      labels.erase(labels.begin() + j);
      labels.erase(labels.begin() + i);
      labels.push_back(label);
      return with_diagonals({slice(flat, -1, 0, size * size, size + 1), labels}, equation);
    }
  return operand;
}

// Sums over the labels of `operand` that `kept` does not name.
Operand summed(const Operand& operand, const Labels& kept) {
  Dims dims;
  Labels labels;
  for (int i = 0; i < static_cast<int>(operand.labels.size()); ++i) {
    const int label = operand.labels[static_cast<std::size_t>(i)];
    if (has(kept, label))
      labels.push_back(label);
    else
      dims.push_back(i);
  }
  if (labels.size() == operand.labels.size()) return operand;
  return {sum(operand.x, dims, false, operand.x.dtype()), labels};
}

// x with a dimension for each label, of size 1 if it has none.
Tensor aligned(const Operand& operand, const Labels& labels) {
  std::vector<std::int64_t> order;
  Shape shape;
  for (const int label : labels) {
    const int place = place_of(operand.labels, label);
    const bool is_there = place < static_cast<int>(operand.labels.size());
    shape.push_back(is_there ? operand.x.shape()[place] : 1);
    if (is_there) order.push_back(place);
  }
  return permute(operand.x, order).reshape(shape);
}

// The sum of products of a and b over the labels that `kept` does not name.
Operand contracted(Operand a, Operand b, const Labels& kept) {
  // A label of size 1 in one tensor broadcasts: both are summed over it alone.
  Labels shared = kept;
  for (const int label : a.labels)
    if (has(b.labels, label) && a.x.shape()[place_of(a.labels, label)] == b.x.shape()[place_of(b.labels, label)])
      shared.push_back(label);
  a = summed(a, shared);
  b = summed(b, shared);
  Labels batch, left, right, inner;
  for (const int label : a.labels) (!has(b.labels, label) ? left : has(kept, label) ? batch : inner).push_back(label);
  for (const int label : b.labels)
    if (!has(a.labels, label)) right.push_back(label);
  Labels result = batch;
  result.insert(result.end(), left.begin(), left.end());
  result.insert(result.end(), right.begin(), right.end());
  if (!is_floating(a.x.dtype()) || inner.empty()) {
    Labels all = result;
    all.insert(all.end(), inner.begin(), inner.end());
    return summed({mul(aligned(a, all), aligned(b, all)), all}, kept);
  }
  const auto sizes = [](const Operand& of, const Labels& labels) {
    Shape shape;
    for (const int label : labels) shape.push_back(of.x.shape()[place_of(of.labels, label)]);
    return shape;
  };
  // [batch..., left or 1, inner] and [batch..., inner, right or 1]; the batch broadcasts in the product.
  const auto matrix = [&](const Operand& of, const Labels& first, const Labels& second) {
    Labels order = batch;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());
    Shape shape = sizes(of, batch);
    shape.push_back(element_count(sizes(of, first)));
    shape.push_back(element_count(sizes(of, second)));
    return aligned(of, order).reshape(shape);
  };
  const Tensor product = matmul(matrix(a, left, inner), matrix(b, inner, right));
  Shape shape(product.shape().begin(), product.shape().end() - 2);
  for (const std::int64_t size : sizes(a, left)) shape.push_back(size);
  for (const std::int64_t size : sizes(b, right)) shape.push_back(size);
  return {product.reshape(shape), result};
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

Equation parsed(const std::string& equation, const std::vector<Tensor>& tensors) {
  std::string text;
  for (const char letter : equation)
    if (std::isspace(static_cast<unsigned char>(letter)) == 0) text += letter;
  const std::size_t arrow = text.find("->");
  std::vector<std::string> terms{""};
  for (const char letter : text.substr(0, arrow))
    if (letter == ',')
      terms.emplace_back();
    else
      terms.back() += letter;
  expects<ShapeError>(terms.size() == tensors.size(), einsum_name, ": \"", equation, "\" has ", terms.size(),
                      " terms for ", tensors.size(), " tensors");
  Equation result;
  int most = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    check_defined(einsum_name, "a tensor", tensors[i]);
    const int named = static_cast<int>(labels_of(equation, terms[i], 0).size()), rank = tensors[i].rank();
    const bool open = terms[i].find("...") != std::string::npos;
    expects<ShapeError>(open ? named <= rank : named == rank, einsum_name, ": \"", terms[i], "\" of \"", equation,
                        "\" does not fit an input of ", tensors[i].shape());
    most = std::max(most, rank - named);
    result.inputs.push_back(labels_of(equation, terms[i], rank - named));
  }
  std::map<int, int> counts;
  for (const Labels& labels : result.inputs)
    for (const int label : labels) ++counts[label];
  if (arrow == std::string::npos) {
    for (int dim = most; dim > 0; --dim) result.output.push_back(-dim);
    for (const auto& [label, count] : counts)
      if (label > 0 && count == 1) result.output.push_back(label);
  } else {
    result.output = labels_of(equation, std::string_view(text).substr(arrow + 2), most);
    for (const int label : result.output)
      expects<ShapeError>(counts.count(label) == 1 && std::ranges::count(result.output, label) == 1, einsum_name,
                          ": \"", equation, "\" has '", static_cast<char>(label), "' in its result ",
                          counts.count(label) == 0 ? "alone" : "twice");
  }
  return result;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors) {
  if (traces()) [[unlikely]] {
    std::string packed;
    for (const char letter : equation)
      if (std::isspace(static_cast<unsigned char>(letter)) == 0) packed += letter;
    return traced("einsum", packed, tensors);
  }
  expects<ShapeError>(!tensors.empty(), einsum_name, ": no tensors");
  const Equation terms = parsed(equation, tensors);
  std::map<int, std::int64_t> sizes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_dtypes(einsum_name, tensors[0], tensors[i]);
    for (std::size_t dim = 0; dim < terms.inputs[i].size(); ++dim) {
      const std::int64_t size = tensors[i].shape()[static_cast<int>(dim)];
      std::int64_t& known = sizes.try_emplace(terms.inputs[i][dim], size).first->second;
      expects<ShapeError>(known == size || known == 1 || size == 1, einsum_name, ": \"", equation,
                          "\" gives one letter the sizes ", known, " and ", size);
      if (known == 1) known = size;
    }
  }
  const DType dtype = tensors[0].dtype();
  const Unshortened unshortened(dtype);
  const auto operand = [&](std::size_t i) {
    return with_diagonals({tensors[i].to(is_floating(dtype) ? scalar_of(dtype) : dtype), terms.inputs[i]}, equation);
  };
  Operand product = operand(0);
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    Labels kept = terms.output;
    for (std::size_t j = i + 1; j < tensors.size(); ++j)
      kept.insert(kept.end(), terms.inputs[j].begin(), terms.inputs[j].end());
    product = contracted(product, operand(i), kept);
  }
  product = summed(product, terms.output);
  Shape shape;
  for (const int label : terms.output) shape.push_back(sizes[label]);
  const Tensor out = aligned(product, terms.output);
  return (out.shape() == shape ? out : out.expand(shape)).to(dtype);
}

}  // namespace tern::operators
