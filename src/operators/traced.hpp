#pragma once
// Each public operator reports its calls to the thread's listener and to the observers of its kernels, and in mixed
// precision gets inputs of the dtypes that its schema states. Its first line is
//
//     if (traces()) return traced("relu", x);

#include "tern/core/error.hpp"
#include "tern/operators/op.hpp"
#include "tern/tensor/create.hpp"

namespace tern::operators {

inline bool traces() { return detail::hearing.on; }

/// A generator as an attribute; null: the default one of the thread that runs the call.
struct GeneratorOf {
  Generator* generator = nullptr;
};

/// Collects the arguments of a call.
class TracedCall {
 public:
  void add(const Tensor& tensor) { inputs_.push_back(tensor); }
  void add(const std::vector<Tensor>& tensors) { inputs_.insert(inputs_.end(), tensors.begin(), tensors.end()); }
  void add(Generator& generator) {
    attributes_.emplace_back(GeneratorOf{&generator == &default_generator() ? nullptr : &generator});
  }
  template <class T>
  void add(const T& attribute) {
    attributes_.emplace_back(attribute);
  }
  /// Runs or infers the operator of this name and tells the listener, if there is one.
  std::vector<Tensor> run(const char* name);

 private:
  std::vector<Tensor> inputs_;
  std::vector<std::any> attributes_;
};

/// The call of an operator of the list (op_list.cpp), with all its arguments in their order.
template <class Result = Tensor, class... Arguments>
[[gnu::noinline, gnu::cold]] Result traced(const char* name, Arguments&&... arguments) {
  TracedCall call;
  (call.add(arguments), ...);
  std::vector<Tensor> results = call.run(name);
  if constexpr (std::is_same_v<Result, Tensor>)
    return std::move(results.front());
  else if constexpr (std::is_same_v<Result, std::vector<Tensor>>)
    return results;
  else
    return Result{std::move(results[0]), std::move(results[1])};
}

/// Options as attributes: their tensors are inputs of the call.
template <class Options>
Options without_tensors(Options options) {
  if constexpr (requires { options.weight; }) options.weight = {};
  if constexpr (requires { options.mask; }) options.mask = {};
  return options;
}

}  // namespace tern::operators
