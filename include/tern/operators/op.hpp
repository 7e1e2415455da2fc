#pragma once
// Operators as data. Each public operator has a name, attributes and a function that runs it, so that a program can be
// stored, printed and rewritten: see graph/graph.hpp.

#include <any>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// The arguments of a call that are not tensors, in their order: conv2d has a Conv2dOptions, softmax a dimension and
/// perhaps a dtype.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::vector<std::any> values) : values_(std::move(values)) {}

  /// The first argument of this type; null where there is none.
  template <class T>
  const T* find() const {
    for (const std::any& value : values_)
      if (const T* found = std::any_cast<T>(&value)) return found;
    return nullptr;
  }
  /// The same; throws Error where there is none.
  template <class T>
  const T& get() const {
    const T* found = find<T>();
    expects(found != nullptr, "attributes: none is of the type that was requested");
    return *found;
  }
  /// These attributes with the first one of this type exchanged.
  template <class T>
  Attributes with(T changed) const {
    Attributes result = *this;
    for (std::any& value : result.values_)
      if (T* found = std::any_cast<T>(&value)) {
        *found = std::move(changed);
        return result;
      }
    throw Error("attributes: none is of the type that was requested");
  }
  const std::vector<std::any>& values() const { return values_; }

 private:
  std::vector<std::any> values_;
};

/// What a call does beside its results.
enum class Effect : std::uint8_t {
  none,    ///< the same inputs give the same results
  reads,   ///< the host looks at elements: sizes or errors depend on them
  changes  ///< draws random numbers, or writes to an input
};

/// What is known of a call before it runs.
struct Inferred {
  std::vector<Tensor> results;  ///< with dtype and shape, and no elements: to read them is an Error
  double flops = 0;             ///< of its products and convolutions, a multiply-add counted as two
};

/// What an operator makes of its inputs in mixed precision (Precision::bf16 and f16), where activations have 16 bits.
enum class Mixed : std::uint8_t {
  joins,    ///< where some inputs have 16 bits, those of float32 become 16 bits, too
  narrows,  ///< float32 inputs become 16 bits: products and convolutions
  widens,   ///< 16-bit inputs become float32: losses, and what leaves the range of 16 bits
  keeps     ///< takes 16 bits beside float32 weights and statistics
};

/// A public operator.
class Op {
 public:
  Op(std::string name, int results, Mixed mixed = Mixed::joins)
      : name_(std::move(name)), results_(results), mixed_(mixed) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  virtual ~Op() = default;

  /// "conv2d"; where a number stands in the place of a tensor "add_number".
  const std::string& name() const { return name_; }
  /// How many tensors it returns; -1: that depends on the call.
  int results() const { return results_; }
  Mixed mixed() const { return mixed_; }
  /// Calls the operator. Inputs that a call leaves out are undefined tensors.
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Attributes& attributes) const = 0;
  /// Shapes and dtypes of the results, without running a kernel or reading an element. Throws what `run` throws for
  /// such inputs, and Error where the results' sizes depend on elements.
  Inferred infer(const std::vector<Tensor>& inputs, const Attributes& attributes) const;
  /// "stride=2x2 padding=1x1": what differs from the defaults of an options struct, and all other arguments.
  virtual std::string write(const Attributes& attributes) const = 0;
  /// The attributes that `write` wrote. Throws Error for any other text.
  virtual Attributes read(std::string_view text) const = 0;
  virtual Effect effect(const Attributes& attributes) const = 0;

 private:
  std::string name_;
  int results_;
  Mixed mixed_;
};

/// A call without its tensors.
struct OpForm {
  const Op* op = nullptr;
  Attributes attributes = {};
};

/// The operator of this name; null where there is none.
const Op* find_op(std::string_view name);
/// All of them, in alphabetical order.
const std::vector<const Op*>& all_ops();
/// The same as find_op; throws Error where there is none.
const Op& op(std::string_view name);

/// One call of a public operator.
struct OpCall {
  const Op& op;
  const std::vector<Tensor>& inputs;
  const Attributes& attributes;
  const std::vector<Tensor>& results;  ///< empty until it has returned
  double flops = 0;                    ///< of a call that did not run (OpListener::runs)
};

/// Hears of every public operator that the thread calls, and not of those that it calls in turn.
class OpListener {
 public:
  virtual ~OpListener() = default;
  virtual void called(const OpCall& call) = 0;
  /// False: the operators are not run but inferred, see Op::infer.
  virtual bool runs() const { return true; }
};

/// Listens to the calling thread, to the end of the block.
class [[nodiscard]] Listening {
 public:
  explicit Listening(OpListener* listener) : outer_(std::exchange(detail::hearing.listener, listener)) {
    detail::update_hearing();
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    detail::hearing.listener = outer_;
    detail::update_hearing();
  }

 private:
  OpListener* outer_;
};

/// Whether somebody listens to the calling thread.
inline bool listened() { return detail::hearing.listener != nullptr; }

/// The dtype of activations in the calling thread's scope: 16 bits in mixed precision, else float32.
inline DType activations() { return current_scope().activation_dtype(); }

}  // namespace tern::operators
