#pragma once
// What the reader of a model knows of its values.

#include <set>

#include "onnx/model.hpp"
#include "tern/onnx/onnx.hpp"

namespace tern::onnx {

/// A value of the model while it is read.
struct Item {
  Tensor tensor = {};
  std::int64_t element = 0;  ///< ONNX's type where no tensor has it, and the dtype carries its values (narrow.hpp)
  bool known = false;        ///< its elements are known now: no input leads to it
  bool parameter = false;    ///< trained, so nothing is computed of it before the graph runs
  bool by_batch = false;     ///< known, and its elements may depend on the batch
  bool unsized = false;      ///< its size depends on values
  bool missing = false;      ///< could not be made
};

/// Why a node cannot be built.
class Refusal : public Error {
 public:
  Refusal(const std::string& what, std::string advice) : Error(what), advice_(std::move(advice)) {}
  const std::string& advice() const { return advice_; }

 private:
  std::string advice_;
};

struct Call::State {
  const NodeProto& node;
  std::int64_t opset;
  std::vector<const Item*> inputs;  // null: left out
  std::int64_t largest;
  const std::string& folder;
  std::set<std::string, std::less<>> read = {};  // attributes
  std::int64_t made = 0;                         // the element of the results, as Item has it
};

/// The name of a node in messages: its own, or that of its first result.
std::string label_of(const NodeProto& node);

}  // namespace tern::onnx
