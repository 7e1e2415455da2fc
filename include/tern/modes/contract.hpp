#pragma once
// The contract between the library and a mode in a shared library of its own, as a number taken at compile time: a hash
// over the name, type and place of every slot of the dispatch table and of every member of the structs that both sides
// see. A change of one of them changes the number; a member that is forgotten here does not compile.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <version>

#include "tern/modes/mode.hpp"

namespace tern::contract {

/// The members of a struct, in their order.
template <auto... members>
struct Of {};

template <class T>
struct Members;

// ---- what kernels get ----

template <>
struct Members<Context> {
  using S = Context;
  using List = Of<&S::memory, &S::stream, &S::threads, &S::precision, &S::deterministic, &S::ways>;
};
template <>
struct Members<MemoryStatistics> {
  using S = MemoryStatistics;
  using List = Of<&S::in_use, &S::reserved, &S::peak, &S::limit>;
};
template <>
struct Members<Decision> {
  using S = Decision;
  using List = Of<&S::name, &S::ways>;
};
template <>
struct Members<Ways> {
  using S = Ways;
  using List = Of<&S::watched, &S::forced, &S::took>;
};
template <>
struct Members<random::Key> {
  using S = random::Key;
  using List = Of<&S::seed, &S::offset, &S::base>;
};
template <>
struct Members<kernels::Axis> {
  using S = kernels::Axis;
  using List = Of<&S::outer, &S::length, &S::inner>;
};
template <>
struct Members<kernels::Broadcast> {
  using S = kernels::Broadcast;
  using List = Of<&S::rank, &S::size, &S::stride, &S::count>;
};
template <>
struct Members<kernels::Conv2d> {
  using S = kernels::Conv2d;
  using List =
      Of<&S::N, &S::C, &S::H, &S::W, &S::O, &S::KH, &S::KW, &S::OH, &S::OW, &S::stride_h, &S::stride_w, &S::pad_h,
         &S::pad_w, &S::dilation_h, &S::dilation_w, &S::groups, &S::activation, &S::y_channels, &S::layout>;
};
template <>
struct Members<kernels::Matmul> {
  using S = kernels::Matmul;
  using List = Of<&S::batch, &S::m, &S::n, &S::k, &S::transpose_a, &S::transpose_b, &S::stride_a, &S::stride_b>;
};
template <>
struct Members<kernels::Linear> {
  using S = kernels::Linear;
  using List = Of<&S::rows, &S::in, &S::out, &S::activation>;
};
template <>
struct Members<kernels::CrossEntropy> {
  using S = kernels::CrossEntropy;
  using List = Of<&S::rows, &S::classes, &S::ignore_index, &S::label_smoothing, &S::reduce>;
};
template <>
struct Members<kernels::Strided> {
  using S = kernels::Strided;
  using List = Of<&S::rank, &S::size, &S::out, &S::in, &S::count>;
};
template <>
struct Members<kernels::LocalResponseNorm> {
  using S = kernels::LocalResponseNorm;
  using List = Of<&S::N, &S::C, &S::area, &S::size, &S::alpha, &S::beta, &S::k, &S::layout>;
};
template <>
struct Members<kernels::BatchNorm> {
  using S = kernels::BatchNorm;
  using List = Of<&S::N, &S::C, &S::area, &S::epsilon, &S::momentum, &S::layout>;
};
template <>
struct Members<kernels::Pool2d> {
  using S = kernels::Pool2d;
  using List = Of<&S::planes, &S::H, &S::W, &S::OH, &S::OW, &S::KH, &S::KW, &S::stride_h, &S::stride_w, &S::pad_h,
                  &S::pad_w, &S::dilation_h, &S::dilation_w, &S::count_include_pad, &S::channels>;
};
template <>
struct Members<kernels::AdaptivePool2d> {
  using S = kernels::AdaptivePool2d;
  using List = Of<&S::planes, &S::H, &S::W, &S::OH, &S::OW, &S::channels>;
};
template <>
struct Members<kernels::Sgd> {
  using S = kernels::Sgd;
  using List = Of<&S::momentum, &S::dampening, &S::weight_decay, &S::nesterov, &S::first_step>;
};
template <>
struct Members<kernels::Adam> {
  using S = kernels::Adam;
  using List = Of<&S::beta1, &S::beta2, &S::epsilon, &S::weight_decay, &S::decoupled>;
};
template <class T>
struct Members<kernels::Parameters<T>> {
  using S = kernels::Parameters<T>;
  using List = Of<&S::count, &S::value, &S::gradient, &S::first, &S::second, &S::size>;
};

// ---- the dispatch table ----

template <class T>
struct Members<kernels::Arithmetic<T>> {
  using S = kernels::Arithmetic<T>;
  using List = Of<&S::add, &S::sub, &S::mul, &S::div, &S::maximum, &S::minimum, &S::equal, &S::not_equal, &S::less,
                  &S::less_equal, &S::greater, &S::greater_equal, &S::where, &S::neg, &S::exp, &S::log, &S::sqrt,
                  &S::abs, &S::pow, &S::clamp, &S::affine, &S::add_all, &S::sqrt_backward, &S::abs_backward,
                  &S::pow_backward, &S::clamp_backward, &S::maximum_backward, &S::minimum_backward>;
};
template <class T>
struct Members<kernels::Dot<T>> {
  using S = kernels::Dot<T>;
  using List = Of<&S::matmul, &S::linear, &S::linear_backward>;
};
template <class T>
struct Members<kernels::Conv<T>> {
  using S = kernels::Conv<T>;
  using List = Of<&S::layout, &S::conv2d, &S::conv2d_backward>;
};
template <class T>
struct Members<kernels::Activations<T>> {
  using S = kernels::Activations<T>;
  using List = Of<&S::relu, &S::relu_backward, &S::leaky_relu, &S::leaky_relu_backward, &S::sigmoid,
                  &S::sigmoid_backward, &S::tanh, &S::tanh_backward, &S::softplus, &S::softplus_backward, &S::gelu,
                  &S::gelu_backward, &S::softmax, &S::softmax_backward, &S::log_softmax, &S::log_softmax_backward>;
};
template <class T>
struct Members<kernels::Pooling<T>> {
  using S = kernels::Pooling<T>;
  using List = Of<&S::max_pool2d, &S::max_pool2d_backward, &S::avg_pool2d, &S::avg_pool2d_backward,
                  &S::adaptive_avg_pool2d, &S::adaptive_avg_pool2d_backward>;
};
template <class T>
struct Members<kernels::Reduction<T>> {
  using S = kernels::Reduction<T>;
  using List = Of<&S::sum, &S::mean, &S::var, &S::var_backward, &S::max, &S::min, &S::extreme_backward>;
};
template <class T>
struct Members<kernels::Loss<T>> {
  using S = kernels::Loss<T>;
  using List = Of<&S::cross_entropy, &S::cross_entropy_backward, &S::nll, &S::nll_backward, &S::mse, &S::mse_backward,
                  &S::mae, &S::mae_backward, &S::binary_cross_entropy_with_logits,
                  &S::binary_cross_entropy_with_logits_backward, &S::hinge, &S::hinge_backward>;
};
template <class T>
struct Members<kernels::Normalization<T>> {
  using S = kernels::Normalization<T>;
  using List = Of<&S::local_response_norm, &S::local_response_norm_backward, &S::batch_norm, &S::batch_norm_backward,
                  &S::batch_norm_inference>;
};
template <class T>
struct Members<kernels::Shape<T>> {
  using S = kernels::Shape<T>;
  using List = Of<&S::gather_backward, &S::one_hot, &S::dropout>;
};
template <class T>
struct Members<kernels::Update<T>> {
  using S = kernels::Update<T>;
  using List = Of<&S::sgd, &S::adam>;
};
template <class T>
struct Members<kernels::Operators<T>> {
  using S = kernels::Operators<T>;
  using List = Of<&S::arithmetic, &S::dot, &S::conv, &S::activation, &S::pooling, &S::reduction, &S::loss,
                  &S::normalization, &S::shape, &S::update, &S::channels_last>;
};
template <>
struct Members<kernels::Movement> {
  using S = kernels::Movement;
  using List = Of<&S::copy, &S::fill, &S::gather, &S::cast>;
};
template <>
struct Members<Capture> {
  using S = Capture;
  using List = Of<&S::begin, &S::end, &S::abandon, &S::launch, &S::destroy, &S::branch, &S::join>;
};
template <>
struct Members<Timer> {
  using S = Timer;
  using List = Of<&S::make, &S::record, &S::elapsed, &S::destroy, &S::begin_range, &S::end_range>;
};
template <>
struct Members<Places> {
  using S = Places;
  using List = Of<&S::count, &S::memory, &S::description>;
};
template <>
struct Members<Mode> {
  using S = Mode;
  using List = Of<&S::name, &S::description, &S::memory, &S::operators, &S::float64, &S::bfloat16, &S::float16,
                  &S::movement, &S::capture, &S::timer, &S::places, &S::index, &S::decisions, &S::inner, &S::own>;
};

/// The slots of Memory's virtual table, in their order.
using MemoryCalls =
    Of<&Memory::name, &Memory::host_accessible, &Memory::allocate, &Memory::release, &Memory::copy_in,
       &Memory::copy_out, &Memory::copy, &Memory::copy_from, &Memory::stream, &Memory::order, &Memory::finish,
       &Memory::synchronize, &Memory::statistics, &Memory::reset_peak, &Memory::trim, &Memory::set_limit>;

// ---- the number ----

class Hash {
 public:
  constexpr void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    step(0);
  }
  constexpr void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) step(number >> (8 * i) & 255);
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void step(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }  // FNV-1a
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// As the compiler writes them: both sides are of one compiler family.
template <class T>
constexpr std::string_view type_name() {
  return __PRETTY_FUNCTION__;
}
template <auto value>
constexpr std::string_view value_name() {
  return __PRETTY_FUNCTION__;
}

template <class T, class Member>
std::type_identity<Member> member_type(Member T::*);

template <class T, auto... members>
constexpr void add_members(Hash& hash, Of<members...>) {
  std::size_t end = 0;
  const auto add = [&]<auto member>(Of<member>) {
    using Member = typename decltype(member_type(member))::type;
    hash.add(value_name<member>());
    hash.add(type_name<Member>());
    end = (end + alignof(Member) - 1) / alignof(Member) * alignof(Member);
    hash.add(end);
    end += sizeof(Member);
  };
  (add(Of<members>{}), ...);
  hash.add(sizeof(T));
  // A struct of another size has a member that Members does not list.
  if ((end + alignof(T) - 1) / alignof(T) * alignof(T) != sizeof(T)) throw "contract.hpp lacks a member";
}

template <class... Structs>
constexpr void add_structs(Hash& hash) {
  (add_members<Structs>(hash, typename Members<Structs>::List{}), ...);
}

template <class Enumeration>
constexpr void add_values(Hash& hash) {
  const auto add = [&]<std::size_t... i>(std::index_sequence<i...>) {
    (hash.add(value_name<static_cast<Enumeration>(i)>()), ...);
  };
  add(std::make_index_sequence<16>{});
}

template <class T>
constexpr void add_table(Hash& hash) {
  using namespace kernels;
  add_structs<Parameters<T>, Arithmetic<T>, Dot<T>, Conv<T>, Activations<T>, Pooling<T>, Reduction<T>, Loss<T>,
              Normalization<T>, kernels::Shape<T>, Update<T>, Operators<T>>(hash);
}

/// The standard library whose strings and exceptions the two sides share.
constexpr std::string_view standard_library() {
#if defined(_LIBCPP_VERSION)
  return "libc++";
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
  return "libstdc++";
#else
  return "libstdc++ with its old strings";
#endif
}
constexpr std::string_view compiler() {
#if defined(__clang__)
  return "clang";
#else
  return "g++";
#endif
}

constexpr std::uint64_t number() {
  Hash hash;
  hash.add(standard_library());
  hash.add(compiler());
  hash.add(sizeof(void*));
  hash.add(sizeof(std::string));
  const auto add_calls = [&]<auto... calls>(Of<calls...>) {
    ((hash.add(value_name<calls>()), hash.add(type_name<decltype(calls)>())), ...);
  };
  add_calls(MemoryCalls{});
  hash.add(sizeof(Memory));
  add_values<DType>(hash);
  add_values<Precision>(hash);
  add_values<kernels::Activation>(hash);
  add_values<kernels::Layout>(hash);
  add_values<kernels::Reduce>(hash);
  using namespace kernels;
  add_structs<Context, MemoryStatistics, Decision, Ways, random::Key, Axis, Broadcast, Conv2d, Matmul, Linear,
              CrossEntropy, Strided, LocalResponseNorm, BatchNorm, Pool2d, AdaptivePool2d, Sgd, Adam, Movement, Capture,
              Timer, Places, Mode>(hash);
  for_each_compute_type([&]<class T>() { add_table<T>(hash); });
  return hash.value();
}

}  // namespace tern::contract
