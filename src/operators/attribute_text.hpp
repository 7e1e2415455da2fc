#pragma once
// Attributes as text and back. A value has no space in it: 3, 0.5, true, relu, float32, 2x2, [1,2], none, text as it
// is, and of a struct in a list (dim=0,before=1).

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "operators/traced.hpp"
#include "tern/core/convert.hpp"
#include "tern/io/number.hpp"
#include "tern/operators/resizing.hpp"

namespace tern::operators::attribute {

template <auto value>
constexpr std::string_view written_name() {
  // "... [with auto value = tern::kernels::Activation::relu; ...]", of a member with & or in brackets
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  if (text.ends_with(')')) text.remove_suffix(1);
  return text.substr(text.rfind(':') + 1);
}

/// The values of an enumeration from 0 on, each with its name; a number that has none begins with '('.
template <class E>
constexpr std::array<std::string_view, 8> names_of() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<std::string_view, 8>{written_name<static_cast<E>(i)>()...};
  }
  (std::make_index_sequence<8>{});
}
constexpr bool is_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') && text.find('(') == std::string_view::npos;
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept Struct = requires {
  typename T::Members;
};
template <class T>
concept List = requires(T list) {
  list.begin();
  list.push_back(*list.begin());
};

void write_number(std::string& text, double value);

template <class T>
void write(std::string& text, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, DType>) {
    text += name_of(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    for (const char c : value)  // an equation, in which spaces say nothing
      if (c != ' ') text += c;
  } else if constexpr (std::is_enum_v<T>) {
    text += names_of<T>()[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_integral_v<T>) {
    text += std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    write_number(text, value);
  } else if constexpr (std::is_same_v<T, Number>) {
    if (value.is_integer()) return write(text, value.template to<std::int64_t>());
    const std::size_t begin = text.size();
    write_number(text, value.template to<double>());
    if (text.find_first_of(".en", begin) == std::string::npos) text += ".0";
  } else if constexpr (std::is_same_v<T, Pair> || std::is_same_v<T, Scale>) {
    write(text, value.h);
    text += 'x';
    write(text, value.w);
  } else if constexpr (std::is_same_v<T, GeneratorOf>) {
    text += value.generator == nullptr ? "default" : "own";
  } else if constexpr (IsOptional<T>::value) {
    if (value)
      write(text, *value);
    else
      text += "none";
  } else if constexpr (List<T>) {
    text += '[';
    for (const auto& element : value) {
      if (text.back() != '[') text += ',';
      write(text, element);
    }
    text += ']';
  } else {
    static_assert(Struct<T>, "an attribute of this type has no text");
    text += '(';
    [&]<auto... members>(MemberList<members...>) {
      bool first = true;
      ((text += first ? "" : ",", first = false, text += written_name<members>(), text += '=',
        write(text, value.*members)),
       ...);
    }
    (typename T::Members{});
    text += ')';
  }
}

/// Reads values one after the other. Every function throws Error where the text is another.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  bool eat(std::string_view start) {
    if (!rest_.starts_with(start)) return false;
    rest_.remove_prefix(start.size());
    return true;
  }
  void need(std::string_view start) { expects(eat(start), "attributes: '", start, "' is missing at '", rest_, "'"); }
  std::string_view word() {
    std::size_t size = 0;
    while (size < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_')) ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  /// All up to the next space.
  std::string_view piece() {
    const std::string_view found = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(found.size());
    return found;
  }
  std::int64_t integer() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    expects(error == std::errc(), "attributes: a whole number is missing at '", rest_, "'");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  double real() {
    double value = 0;
    const auto [end, error] = io::read_number(rest_, value);
    expects(error == std::errc(), "attributes: a number is missing at '", rest_, "'");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  /// Whether the next number is written as a whole one.
  bool whole() const { return rest_.substr(0, rest_.find_first_of(",])")).find_first_of(".ein") == rest_.npos; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

template <class T>
T read(Reader& text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text.eat("true")) return true;
    text.need("false");
    return false;
  } else if constexpr (std::is_same_v<T, DType>) {
    const std::string_view name = text.word();
    for (const DTypeFacts& facts : dtype_facts)
      if (facts.name == name) return facts.dtype;
    throw Error(message("attributes: '", name, "' is no dtype"));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(text.piece());
  } else if constexpr (std::is_enum_v<T>) {
    const std::string_view name = text.word();
    constexpr auto names = names_of<T>();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (is_name(names[i]) && names[i] == name) return static_cast<T>(i);
    throw Error(message("attributes: '", name, "' is none of the values"));
  } else if constexpr (std::is_integral_v<T>) {
    const std::int64_t value = text.integer();
    expects(std::in_range<T>(value), "attributes: ", value, " is out of range");
    return static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(text.real());
  } else if constexpr (std::is_same_v<T, Number>) {
    return text.whole() ? Number(text.integer()) : Number(text.real());
  } else if constexpr (std::is_same_v<T, Pair> || std::is_same_v<T, Scale>) {
    const auto h = read<decltype(T::h)>(text);
    text.need("x");
    return T(h, read<decltype(T::w)>(text));
  } else if constexpr (std::is_same_v<T, GeneratorOf>) {
    if (!text.eat("own")) text.need("default");
    return {};
  } else if constexpr (IsOptional<T>::value) {
    if (text.eat("none")) return {};
    return read<typename T::value_type>(text);
  } else if constexpr (List<T>) {
    T list;
    text.need("[");
    while (!text.eat("]")) {
      if (list.begin() != list.end()) text.need(",");
      list.push_back(read<std::remove_cvref_t<decltype(*list.begin())>>(text));
    }
    return list;
  } else {
    T value;
    text.need("(");
    [&]<auto... members>(MemberList<members...>) {
      bool first = true;
      ((text.need(first ? "" : ","), first = false, text.need(written_name<members>()), text.need("="),
        value.*members = read<std::remove_cvref_t<decltype(value.*members)>>(text)),
       ...);
    }
    (typename T::Members{});
    text.need(")");
    return value;
  }
}

}  // namespace tern::operators::attribute
