#pragma once
// An operator of the list, made of its public function.

#include <algorithm>
#include <array>

#include "kernels/families.hpp"
#include "operators/attribute_text.hpp"
#include "operators/op_list.hpp"

namespace tern::operators {

inline std::vector<Tensor> as_results(Tensor one) { return {std::move(one)}; }
inline std::vector<Tensor> as_results(std::vector<Tensor> all) { return all; }
template <class Two>
std::vector<Tensor> as_results(Two two) {
  return {std::move(two.values), std::move(two.indices)};
}

template <class T>
inline constexpr bool is_input = std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>;
/// The attribute that an argument is kept as.
template <class T>
using AttributeOf = std::conditional_t<std::is_same_v<T, Generator>, GeneratorOf, T>;

/// Hands the inputs and the attributes of a call out, in the order of the function's parameters. A list of tensors is
/// all that is left beside the others.
class Arguments {
 public:
  Arguments(const char* op, const std::vector<Tensor>& inputs, const Attributes& attributes, std::size_t tensors)
      : op_(op), inputs_(inputs), attributes_(attributes.values()), tensors_(tensors) {}
  template <class Parameter>
  decltype(auto) next() {
    using T = std::remove_cvref_t<Parameter>;
    if constexpr (std::is_same_v<T, Tensor>) {
      static const Tensor absent;
      return static_cast<const Tensor&>(input_ < inputs_.size() ? inputs_[input_++] : absent);
    } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
      const std::size_t count = inputs_.size() - std::min(inputs_.size(), tensors_);
      const auto begin = inputs_.begin() + static_cast<std::ptrdiff_t>(input_);
      input_ += count;
      return std::vector<Tensor>(begin, begin + static_cast<std::ptrdiff_t>(count));
    } else if constexpr (std::is_same_v<T, Generator>) {
      Generator* const own = attribute<GeneratorOf>().generator;
      return own == nullptr ? default_generator() : *own;
    } else {
      return attribute<T>();
    }
  }

 private:
  template <class T>
  const T& attribute() {
    const T* value = attribute_ < attributes_.size() ? std::any_cast<T>(&attributes_[attribute_]) : nullptr;
    expects(value != nullptr, op_, ": attribute ", attribute_, " is missing or of another type");
    ++attribute_;
    return *value;
  }

  const char* op_;
  const std::vector<Tensor>& inputs_;
  const std::vector<std::any>& attributes_;
  std::size_t tensors_, input_ = 0, attribute_ = 0;
};

/// What a call does, from its attributes.
using EffectOf = Effect (*)(const Attributes&);
template <Effect effect>
Effect always(const Attributes&) {
  return effect;
}

template <class Result, class... Parameters>
class FunctionOp final : public Op {
 public:
  using Function = Result (*)(Parameters...);
  FunctionOp(const char* name, Function function, std::vector<const char*> names, EffectOf effect_of, Mixed mixed)
      : Op(name, results_of(), mixed), function_(function), names_(std::move(names)), effect_(effect_of) {
    expects(names_.size() == (0 + ... + !is_input<std::remove_cvref_t<Parameters>>), name,
            ": the list has another number of attributes");
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Attributes& attributes) const override {
    Arguments arguments(name().c_str(), inputs, attributes,
                        (0 + ... + std::is_same_v<std::remove_cvref_t<Parameters>, Tensor>));
    // A braced list is evaluated from left to right.
    return std::apply(
        [&](auto&&... each) { return as_results(function_(each...)); },
        std::tuple<decltype(arguments.template next<Parameters>())...>{arguments.template next<Parameters>()...});
  }

  std::string write(const Attributes& attributes) const override {
    std::string text;
    std::size_t i = 0;
    (write_one<std::remove_cvref_t<Parameters>>(text, attributes, i), ...);
    return text;
  }

  Attributes read(std::string_view text) const override {
    std::vector<std::any> values;
    std::size_t i = 0;
    attribute::Reader reader(text);
    (read_one<std::remove_cvref_t<Parameters>>(reader, values, i), ...);
    expects(reader.done(), name(), ": attributes end before '", reader.rest(), "'");
    return Attributes(std::move(values));
  }

  Effect effect(const Attributes& attributes) const override {
    return effect_ == nullptr ? Effect::none : effect_(attributes);
  }

 private:
  static constexpr int results_of() {
    if constexpr (std::is_same_v<Result, Tensor>)
      return 1;
    else
      return std::is_same_v<Result, std::vector<Tensor>> ? -1 : 2;
  }
  static void separate(std::string& text) {
    if (!text.empty()) text += ' ';
  }

  template <class T>
  void write_one(std::string& text, const Attributes& attributes, std::size_t& i) const {
    if constexpr (!is_input<T>) {
      using A = AttributeOf<T>;
      const A& value = std::any_cast<const A&>(attributes.values().at(i));
      if constexpr (attribute::Struct<A>) {
        const auto member = [&]<auto pointer>(MemberList<pointer>) {
          std::string now, usual;
          attribute::write(now, value.*pointer);
          attribute::write(usual, A{}.*pointer);
          if (now == usual) return;
          separate(text);
          text.append(attribute::written_name<pointer>()).append("=").append(now);
        };
        [&]<auto... members>(MemberList<members...>) { (member(MemberList<members>{}), ...); }
        (typename A::Members{});
      } else {
        separate(text);
        text.append(names_[i]).append("=");
        attribute::write(text, value);
      }
      ++i;
    }
  }

  template <class T>
  void read_one(attribute::Reader& text, std::vector<std::any>& values, std::size_t& i) const {
    if constexpr (!is_input<T>) {
      using A = AttributeOf<T>;
      if constexpr (attribute::Struct<A>) {
        A value;
        const auto member = [&]<auto pointer>(MemberList<pointer>) {
          if (!text.eat(std::string(attribute::written_name<pointer>()) + "=")) return;
          value.*pointer = attribute::read<std::remove_cvref_t<decltype(value.*pointer)>>(text);
          text.eat(" ");
        };
        [&]<auto... members>(MemberList<members...>) { (member(MemberList<members>{}), ...); }
        (typename A::Members{});
        values.emplace_back(std::move(value));
      } else {
        text.need(std::string(names_[i]) + "=");
        values.emplace_back(attribute::read<A>(text));
        text.eat(" ");
      }
      ++i;
    }
  }

  Function function_;
  std::vector<const char*> names_;
  EffectOf effect_;
};

/// A name as a template's argument.
template <std::size_t size>
struct OpName {
  char text[size];
  consteval OpName(const char (&name)[size]) { std::copy_n(name, size, text); }
};

/// Adds the operator to the list, unless TERN_OPERATORS leaves it out: then nothing refers to its function.
template <OpName name, class Result, class... Parameters>
void append(OpList& ops, Result (*function)(Parameters...), std::vector<const char*> names = {},
            EffectOf effect = nullptr, Mixed mixed = Mixed::joins) {
  if constexpr (kernels::is_listed(name.text))
    ops.push_back(
        std::make_unique<FunctionOp<Result, Parameters...>>(name.text, function, std::move(names), effect, mixed));
}
template <OpName name, class Result, class... Parameters>
void append(OpList& ops, Result (*function)(Parameters...), std::vector<const char*> names, Mixed mixed) {
  append<name>(ops, function, std::move(names), nullptr, mixed);
}

}  // namespace tern::operators
