#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::onnx {

/// One node of a model, for the function that builds it of public operators. Attributes that the function does not read
/// are an error: none is ignored silently.
class Call {
 public:
  struct State;
  explicit Call(State& state) : state_(state) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// "Conv".
  const std::string& type() const;
  /// The version of the operator set that the model asks for.
  std::int64_t opset() const;

  int inputs() const;
  /// Whether input i is there.
  bool has(int i) const;
  /// Throws where the model leaves the input out.
  const Tensor& input(int i) const;
  /// Undefined where the model leaves it out.
  Tensor optional(int i) const;
  /// All inputs, none of which may be left out.
  std::vector<Tensor> all_inputs() const;

  /// ONNX's number of the type of an input's elements where no tensor has it (int4, float8e5m2, ...) and a wider dtype
  /// carries its values; else 0.
  std::int64_t element(int i) const;
  /// The results have such elements.
  void makes(std::int64_t element) const;

  /// Whether the values of an input are known while the model is read.
  bool knows(int i) const;
  /// The values of an input of int64 or int32, which must be known.
  std::vector<std::int64_t> known_integers(int i) const;
  /// The same of floating inputs.
  std::vector<double> known_numbers(int i) const;
  /// The one value of an input, which must be known.
  double known_number(int i) const;
  std::int64_t known_integer(int i) const;

  bool has_attribute(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t absent) const;
  /// Throws where the attribute is absent.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name, double absent) const;
  std::string text(std::string_view name, const std::string& absent) const;
  std::vector<std::int64_t> integers(std::string_view name, const std::vector<std::int64_t>& absent = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  /// Attributes that change nothing here.
  void ignore(std::initializer_list<std::string_view> names) const;

  /// How many results the model names; later ones may be left out.
  int results() const;
  /// Whether the model reads result i.
  bool wants(int i) const;

  /// Throws: this node cannot be built.
  [[noreturn]] void refuse(const std::string& what, const std::string& advice = "") const;
  /// Throws unless a tensor of this shape may be made.
  void check_size(const Shape& shape) const;

 private:
  State& state_;
};

}  // namespace tern::onnx
