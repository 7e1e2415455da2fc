#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/operators/op.hpp"
#include "tern/tensor/create.hpp"

namespace tern::nn {

/// Tensors by name: what a checkpoint holds.
using State = std::map<std::string, Tensor>;

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct LoadOptions {
  bool allow_missing = false;     ///< leave tensors unchanged that the state does not have
  bool allow_unexpected = false;  ///< ignore names that do not exist here
};

/// Copies the tensors of `state` into the tensors of the same names. Everything is checked first: one Error that begins
/// with `what` lists all tensors that are missing, unexpected or of another shape or kind; then nothing was changed.
void load_tensors(const std::string& what, const std::vector<NamedTensor>& targets, const State& state,
                  const LoadOptions& options = {});

/// A tensor that a module trains. Only Module::parameter makes one, and registers it, so every Parameter member is in
/// `parameters()`. Undefined if the module was made without it (a bias).
class Parameter {
 public:
  operator const Tensor&() const { return tensor_; }
  const Tensor& tensor() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

 private:
  friend class Module;
  explicit Parameter(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor tensor_;
};

/// What a layer is whose forward is one operator: its class has `using Operator = Layer;`, which names itself, and
/// `AsOperator as_operator(bool training) const`. In a class that derives from it the name is another one's, so that a
/// forward of its own is kept.
struct AsOperator {
  operators::OpForm form;
  std::vector<Tensor> tensors = {};                 ///< its inputs behind x
  std::function<void(const Tensor& x)> check = {};  ///< throws for an x that the module does not take
};

/// Base of all modules. A module is a handle, as a Tensor is: a copy shares the parameters, the buffers, the children
/// and the training switch. One's own module registers its parts where it declares them:
///
///     class Net : public nn::Module {
///      public:
///       Tensor forward(const Tensor& x) const override { return last_(operators::relu(first_(x))); }
///      private:
///       nn::Linear first_ = module("first", nn::Linear{784, 100});
///       nn::Linear last_ = module("last", nn::Linear{100, 10});
///       nn::Parameter scale_ = parameter("scale", ones({10}));
///     };
///
/// A module with parameters that is called inside another one's forward is an Error unless it is registered there or
/// further out; a module of somewhere else may be called while recording only if its parameters take no gradient.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;

  /// Runs `forward`. A ShapeError or DTypeError in it names the module, by its path below the one that the program
  /// called.
  Tensor operator()(const Tensor& x) const;
  virtual Tensor forward(const Tensor& x) const = 0;
  /// One line, such as "Linear(784, 196)".
  virtual std::string describe() const { return "Module"; }

  /// Names are torch's: "0.weight", "first.bias". A tensor registered under two names is listed once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  /// Total number of elements of all parameters.
  std::int64_t parameter_count() const;

  /// Switches training (the default) or evaluation, here and in all children: Dropout and BatchNorm2d depend on it.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const {
    if (detail::observer != nullptr) [[unlikely]]
      tell([&](Observer& observer) { observer.depends({body_, &body_->training}); });
    return body_->training;
  }
  /// Clears the gradients of all parameters.
  void zero_grad();
  /// Converts the floating parameters to a floating dtype, and the buffers to scalar_of(dtype): statistics stay float32
  /// beside 16 bits. All handles of a parameter see it; its gradient is dropped. A Step, a Program or an optimiser's
  /// moments that were made before keep the old numbers, so convert first. Throws DTypeError for an integer dtype.
  void to(DType dtype);

  /// Parameters and buffers by all their names, sharing the elements.
  State state() const;
  /// See load_tensors.
  void load_state(const State& state, const LoadOptions& options = {});
  /// Names of tensors that other libraries save and load_state ignores: "bn1.num_batches_tracked".
  std::vector<std::string> ignored_names() const;

  /// Calls `function` for this module (path "") and everything below it, in order of registration.
  void visit(const std::function<void(const std::string& path, const Module& module)>& function) const;
  /// Whether both are handles of one module.
  bool is(const Module& other) const { return body_ == other.body_; }

 protected:
  Module() : body_(std::make_shared<Body>()) {}

  // A name is not empty, has no dot and is not taken; else Error.
  /// Registers and returns a tensor to train, with its gradient enabled; an undefined one is registered as absent.
  Parameter parameter(const std::string& name, Tensor tensor);
  /// Registers and returns a tensor that is saved with the state but not trained.
  Tensor buffer(const std::string& name, Tensor tensor);
  /// Names a tensor that other libraries save here and that this module does not use: load_state ignores it.
  void ignore(const std::string& name);
  /// Registers and returns a child.
  template <std::derived_from<Module> M>
  M module(const std::string& name, M child) {
    add_child(name, std::make_shared<M>(child));
    return child;
  }
  void add_child(const std::string& name, std::shared_ptr<Module> child);
  /// Adds the children [begin, end) of another module to this one, too, under their names.
  void add_children(const Module& of, std::size_t begin, std::size_t end);
  /// Runs `function` as the forward of this module, for the messages of errors.
  Tensor run(const std::function<Tensor()>& function) const;
  std::size_t child_count() const { return body_->children.size(); }
  const Module& child(std::size_t i) const { return *body_->children[i].second; }

 private:
  friend struct EvaluationScope;
  friend class Sequential;
  friend struct Frame;
  struct Body {
    std::vector<NamedTensor> parameters, buffers;
    std::vector<std::string> ignored;
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> children;
    bool training = true;
    bool registered = false;  // whether it is a child of some module
  };
  template <class Forward>
  Tensor call(Forward forward) const;
  static std::string path_of(const Module& outer, const Module& inner);
  bool holds(const Module& other) const;
  void check_caller() const;
  void check_name(const char* what, const std::string& name) const;
  void visit(const std::string& path, const std::function<void(const std::string&, const Module&)>& function) const;
  std::vector<NamedTensor> collect(std::vector<NamedTensor> Body::*list, bool once) const;

  std::shared_ptr<Body> body_;
};

}  // namespace tern::nn
