#include "tern/nn/module.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <unordered_set>

#include "autograd/node.hpp"
#include "autograd/place.hpp"
#include "nn/call_log.hpp"
#include "run/recording.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/operators/op.hpp"

namespace tern::nn {
namespace {

thread_local CallLog* current_log = nullptr;

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

// The innermost module that the current exception has left; empty until it leaves one.
thread_local std::string failed_at;

}  // namespace

/// A module whose call the thread is in.
struct Frame final : Whereabouts {
  explicit Frame(const Module& called) : module(called), caller(innermost), exceptions(std::uncaught_exceptions()) {
    innermost = this;
    if (caller == nullptr) failed_at.clear();
  }
  ~Frame() override {
    innermost = caller;
    if (std::uncaught_exceptions() > exceptions && failed_at.empty()) [[unlikely]]
      remember_failure();
  }
  std::string path() const {
    if (caller == nullptr) return "";
    return join(caller->path(), Module::path_of(caller->module, module));
  }
  std::string describe() const override {
    const std::string where = path();
    return where.empty() ? module.describe() : message(where, ", ", module.describe());
  }
  // The module that the program called needs no path.
  void remember_failure() const noexcept {
    try {
      if (!path().empty()) failed_at = describe();
    } catch (const std::exception&) {  // the error itself says enough
    }
  }

  static constinit thread_local const Frame* innermost;
  const Module& module;
  const Frame* caller;
  int exceptions;
};
constinit thread_local const Frame* Frame::innermost = nullptr;

CallLog::CallLog() : outer_(current_log) { current_log = this; }
CallLog::~CallLog() { current_log = outer_; }
CallLog* call_log() { return current_log; }
bool one_by_one() { return current_log != nullptr || operators::listened(); }

bool Module::holds(const Module& other) const {
  for (const auto& [name, below] : body_->children)
    if (below->is(other)) return true;
  for (const auto& [name, below] : body_->children)
    if (below->holds(other)) return true;
  return false;
}

void Module::check_caller() const {
  for (const Frame* frame = Frame::innermost; frame != nullptr; frame = frame->caller)
    if (frame->module.is(*this) || frame->module.holds(*this)) return;
  const std::vector<Tensor> own = parameters();
  const char* const place =
      " is called inside the forward of another module but is not one of its children, so that its "
      "parameters would not be trained; ";
  expects(own.empty() || body_->registered, "nn: ", describe(), place,
          "create it by module(\"name\", ...), or call its forward() if that is meant");
  const bool trains = autograd::enabled() && std::ranges::any_of(own, &Tensor::requires_grad);
  expects(
      !trains, "nn: ", describe(), place,
      "it belongs to a module that is not being called: register it here by module(\"name\", ...) too, or switch its "
      "gradients off by set_requires_grad(false) or NoGrad");
}

// The names from one module down to another; empty if that one is not part of it.
std::string Module::path_of(const Module& outer, const Module& inner) {
  for (const auto& [name, below] : outer.body_->children) {
    if (below->is(inner)) return name;
    if (const std::string rest = path_of(*below, inner); !rest.empty()) return join(name, rest);
  }
  return "";
}

template <class Forward>
Tensor Module::call(Forward forward) const {
  if (Frame::innermost != nullptr) {
    check_caller();
    const Frame frame(*this);
    return forward();
  }
  try {
    const Frame frame(*this);
    return forward();
  } catch (const ShapeError& error) {
    if (failed_at.empty()) throw;
    throw ShapeError(message(failed_at, ": ", error.what()));
  } catch (const DTypeError& error) {
    if (failed_at.empty()) throw;
    throw DTypeError(message(failed_at, ": ", error.what()));
  }
}

Tensor Module::run(const std::function<Tensor()>& function) const { return call(function); }

void Module::to(DType dtype) {
  expects<DTypeError>(is_floating(dtype), "nn: ", describe(), " cannot compute in ", dtype,
                      "; convert to a floating dtype");
  const auto convert = [](const Tensor& tensor, DType to) {
    if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.dtype() == to) return;
    const Tensor converted = tensor.detach().to(to).contiguous();
    autograd::take_place(tensor, converted);
    autograd::Handle::replace(tensor, converted);
  };
  for (const NamedTensor& parameter : named_parameters()) convert(parameter.tensor, dtype);
  for (const NamedTensor& buffer : named_buffers()) convert(buffer.tensor, scalar_of(dtype));
}

Tensor Module::operator()(const Tensor& x) const {
  if (current_log != nullptr) [[unlikely]]
    current_log->calls(*this);
  Tensor y = call([&] { return forward(x); });
  if (current_log != nullptr) [[unlikely]]
    current_log->called(*this, x, y);
  return y;
}

// Runs in constructors, where describe() would use members that do not exist yet.
void Module::check_name(const char* what, const std::string& name) const {
  expects(!name.empty() && name.find('.') == std::string::npos, "nn: the name of ", what, " is '", name,
          "'; it must not be empty and has no dot");
  bool taken = false;
  for (const auto* list : {&body_->parameters, &body_->buffers})
    for (const NamedTensor& other : *list) taken |= other.name == name;
  for (const auto& other : body_->children) taken |= other.first == name;
  expects(!taken, "nn: a module has two parts named '", name, "'; give each its own name");
}

Parameter Module::parameter(const std::string& name, Tensor tensor) {
  check_name("a parameter", name);
  if (tensor.defined()) {
    expects<AutogradError>(tensor.is_leaf(), "nn: parameter '", name,
                           "' is the result of a recorded operator; register its detach()");
    tensor.set_requires_grad();
  }
  body_->parameters.push_back({name, tensor});
  return Parameter(std::move(tensor));
}

Tensor Module::buffer(const std::string& name, Tensor tensor) {
  check_name("a buffer", name);
  body_->buffers.push_back({name, tensor});
  return tensor;
}

void Module::ignore(const std::string& name) {
  check_name("an ignored tensor", name);
  body_->ignored.push_back(name);
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> child) {
  check_name("a child", name);
  child->visit([this, &name](const std::string&, const Module& below) {
    expects(!below.is(*this), "nn: a module cannot contain itself (child '", name, "')");
  });
  child->body_->registered = true;
  body_->children.emplace_back(name, std::move(child));
}

void Module::add_children(const Module& of, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) add_child(of.body_->children[i].first, of.body_->children[i].second);
}

void Module::visit(const std::string& path,
                   const std::function<void(const std::string&, const Module&)>& function) const {
  function(path, *this);
  for (const auto& [name, below] : body_->children) below->visit(join(path, name), function);
}

void Module::visit(const std::function<void(const std::string&, const Module&)>& function) const {
  visit("", function);
}

std::vector<NamedTensor> Module::collect(std::vector<NamedTensor> Body::*list, bool once) const {
  std::vector<NamedTensor> found;
  std::unordered_set<const void*> seen;
  visit([&](const std::string& path, const Module& module) {
    for (const NamedTensor& own : (*module.body_).*list)
      if (own.tensor.defined() && (seen.insert(own.tensor.body()).second || !once))
        found.push_back({join(path, own.name), own.tensor});
  });
  return found;
}

std::vector<NamedTensor> Module::named_parameters() const { return collect(&Body::parameters, true); }
std::vector<NamedTensor> Module::named_buffers() const { return collect(&Body::buffers, true); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (NamedTensor& named : named_parameters()) tensors.push_back(std::move(named.tensor));
  return tensors;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : parameters()) count += tensor.numel();
  return count;
}

void Module::train(bool on) {
  visit([on](const std::string&, const Module& module) {
    expects(Recording::current() == nullptr || module.body_->training == on,
            "nn: train() and eval() change a module while a Step is recorded, which a replay cannot repeat; call them "
            "between the steps");
    module.body_->training = on;
  });
}

void Module::zero_grad() {
  for (Tensor& tensor : parameters()) tensor.zero_grad();
}

State Module::state() const {
  State state;
  for (auto list : {&Body::parameters, &Body::buffers})
    for (const NamedTensor& named : collect(list, false)) state.emplace(named.name, named.tensor.detach());
  return state;
}

std::vector<std::string> Module::ignored_names() const {
  std::vector<std::string> names;
  visit([&names](const std::string& path, const Module& module) {
    for (const std::string& name : module.body_->ignored) names.push_back(join(path, name));
  });
  return names;
}

void Module::load_state(const State& state, const LoadOptions& options) {
  std::vector<NamedTensor> targets = collect(&Body::parameters, false);
  for (NamedTensor& named : collect(&Body::buffers, false)) targets.push_back(std::move(named));
  State known = state;
  for (const std::string& name : ignored_names()) known.erase(name);
  load_tensors("load_state: the state does not fit " + describe(), targets, known, options);
}

void load_tensors(const std::string& what, const std::vector<NamedTensor>& targets, const State& state,
                  const LoadOptions& options) {
  PlainStream problems;
  std::set<std::string> known;
  for (const auto& [name, tensor] : targets) {
    known.insert(name);
    const auto entry = state.find(name);
    if (entry == state.end()) {
      if (!options.allow_missing) problems << "\n  missing: " << name << ' ' << tensor.shape();
    } else if (!entry->second.defined()) {
      problems << "\n  undefined: " << name;
    } else if (!(entry->second.shape() == tensor.shape())) {
      problems << "\n  wrong shape: " << name << " is " << tensor.shape() << " here and " << entry->second.shape()
               << " in the state";
    } else if (is_floating(entry->second.dtype()) != is_floating(tensor.dtype())) {
      problems << "\n  wrong dtype: " << name << " is " << tensor.dtype() << " here and " << entry->second.dtype()
               << " in the state";
    }
  }
  if (!options.allow_unexpected)
    for (const auto& [name, tensor] : state)
      if (!known.contains(name)) problems << "\n  unexpected: " << name;
  expects(problems.str().empty(), what, problems.str());

  // A state may share elements with the targets (two names exchanged, for example): those are copied before any is
  // written.
  const NoGrad no_grad;
  std::unordered_set<const Storage*> written;
  for (const auto& [name, tensor] : targets) written.insert(tensor.shared_storage().get());
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, tensor] : targets)
    if (const auto entry = state.find(name); entry != state.end()) {
      const Tensor& source = entry->second;
      copies.emplace_back(tensor, written.contains(source.shared_storage().get()) ? source.clone() : source);
    }
  for (auto& [target, source] : copies) target.copy_(source);
}

}  // namespace tern::nn
