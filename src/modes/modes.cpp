// The registry of modes: the built-in ones from the list that CMake writes, cuda from its plug-in on first use, the
// user's by register_mode, and derived ones, which are made on request: debug devices and further devices of a mode.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>

#include "modes/registry.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/device.hpp"

// modes.inc holds one MODE(name) per built-in mode, slowest first.
#define MODE(name)       \
  namespace tern::name { \
  const Mode& mode();    \
  }
#include "modes.inc"
#undef MODE
namespace tern::debug {
Mode mode(const std::string& name, const Mode& kernels);
}

namespace tern {

namespace {

// A device that is made from a mode on request: "debug" with the reference's kernels, "debug:mine" with those of
// "mine". It is not listed and is never the fastest.
constexpr std::string_view debug_name = "debug";
bool is_debug(std::string_view name) {
  return name.starts_with(debug_name) && (name.size() == debug_name.size() || name[debug_name.size()] == ':');
}

struct Registry {
  std::mutex mutex;
  std::deque<Mode> modes;    // a deque, so that references stay valid
  std::size_t built_in = 0;  // the first of them, slowest first
  std::string cuda_reason;   // why cuda is missing, once tried
  std::deque<Mode> made;     // made from others: debug devices, and every device except the first
  bool cuda_tried = false;

  Registry() {
#define MODE(name) modes.push_back(::tern::name::mode());
#include "modes.inc"
#undef MODE
    built_in = modes.size();
  }
  const Mode* find(std::string_view name) const {
    for (const Mode& mode : modes)
      if (mode.name == name) return &mode;
    for (const Mode& mode : made)
      if (mode.name == name) return &mode;
    return nullptr;
  }
};

Registry& registry() {
  static Registry* const registry = new Registry;
  return *registry;
}

// Call with the registry locked.
const Mode* find_cuda(Registry& modes) {
  if (const Mode* known = modes.find("cuda")) return known;
  if (modes.cuda_tried) return nullptr;
  modes.cuda_tried = true;
  const std::string file = find_plugin("libtern_cuda.so");
  if (file.empty()) {
    modes.cuda_reason = TERN_CUDA_BUILT ? message("its plug-in libtern_cuda.so was not found (", plugin_places(), ")")
                                        : std::string("this library was built without it (no nvcc, or TERN_CUDA=OFF)");
    return nullptr;
  }
  const Mode* mode = open_plugin(file, modes.cuda_reason);
  if (mode == nullptr) return nullptr;
  modes.modes.push_back(*mode);
  return &modes.modes.back();
}

const Mode* find(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  return registry().find(name);
}

// Two threads may have made the same one.
const Mode& keep(Mode made) {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  if (const Mode* known = modes.find(made.name)) return *known;
  return modes.made.emplace_back(std::move(made));
}

const Mode& debug_kernels(std::string_view name) {
  return name == debug_name ? reference_mode() : mode(name.substr(debug_name.size() + 1));
}

bool is_number(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 9 && std::ranges::all_of(text, is_digit);
}

int count_of(const Mode& mode) { return mode.places == nullptr ? 1 : mode.places->count; }

// For messages: "cuda has 2, cuda:0 to cuda:1".
std::string places_of(const Mode& mode) {
  const std::string& name = mode.name;
  if (mode.index != 0) return message(name, " is one device");
  if (is_debug(name)) return message(name, " makes devices on request, ", name, ":0 and so on");
  const std::string last = count_of(mode) == 1 ? "" : message(" to ", name, ":", count_of(mode) - 1);
  return message(name, " has ", count_of(mode), ", ", name, ":0", last);
}

// A debug mode makes each device on request; another mode has a fixed number.
const Mode& place(const Mode& first, std::string_view number) {
  const auto wrong = [&](auto... what) {
    return DeviceUnavailable(message("device \"", first.name, ":", number, "\": ", what..., places_of(first)));
  };
  if (!is_number(number)) throw wrong("\"", number, "\" is not a device number; ");
  const int index = std::stoi(std::string(number));
  if (first.index != 0 || (index >= count_of(first) && !is_debug(first.name))) throw wrong("there is no such device; ");
  if (index == 0) return first;
  const std::string name = message(first.name, ":", index);
  if (const Mode* known = find(name)) return *known;
  if (is_debug(name)) {
    Mode made = debug::mode(name, debug_kernels(first.name));
    made.index = index;
    return keep(std::move(made));
  }
  Mode made = first;
  made.name = name;
  made.memory = &first.places->memory(index);
  made.description = first.places->description(index);
  made.places = nullptr;
  made.index = index;
  return keep(std::move(made));
}

}  // namespace

const Mode& mode(std::string_view name) {
  if (const auto colon = name.rfind(':'); colon != std::string_view::npos) {
    if (const Mode* known = find(std::string(name))) return *known;
    const std::string_view number = name.substr(colon + 1);
    // A mode may follow "debug:".
    if (!is_debug(name) || is_number(number)) return place(mode(name.substr(0, colon)), number);
  }
  if (is_debug(name)) {
    const Mode* known = find(std::string(name));
    return known != nullptr ? *known : keep(debug::mode(std::string(name), debug_kernels(name)));
  }
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  if (const Mode* known = modes.find(name)) return *known;
  if (name == "cuda") {
    if (const Mode* cuda = find_cuda(modes)) return *cuda;
    throw DeviceUnavailable(message("cuda is not available: ", modes.cuda_reason));
  }
  std::string known;
  for (const Mode& mode : modes.modes) known += (known.empty() ? "" : ", ") + mode.name;
  if (modes.find("cuda") == nullptr) known += ", cuda";
  known += ", debug";
  throw DeviceUnavailable(message("mode \"", name, "\" is unknown; there are ", known));
}

std::string_view name_without_index(const Mode& mode) {
  const std::string_view name = mode.name;
  return mode.index == 0 ? name : name.substr(0, name.rfind(':'));
}

const Mode& reference_mode() { return registry().modes.front(); }
const Mode& fastest_built_in() { return registry().modes[registry().built_in - 1]; }

std::vector<const Mode*> usual_modes() {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  std::vector<const Mode*> result;
  for (std::size_t i = 0; i < modes.built_in; ++i) result.push_back(&modes.modes[i]);
  if (const Mode* cuda = find_cuda(modes)) result.push_back(cuda);
  return result;
}

bool is_registered(const Mode& mode) {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  const auto is_it = [&](const Mode& known) { return &known == &mode; };
  return std::ranges::any_of(modes.modes, is_it) || std::ranges::any_of(modes.made, is_it);
}

namespace {

/// A copied table still says that its kernels write wide gradients. One that replaced such a kernel would get an array
/// of float32 and write 16 bits into it.
template <class T>
void check_wide(kernels::Operators<T>& table, const kernels::Operators<T>& original) {
  const auto same = [&](auto family, auto slot) {
    const auto kernel = [&](const kernels::Operators<T>& of) {
      return std::bit_cast<std::uintptr_t>(of.*family.*slot);
    };
    return kernel(table) == kernel(original);
  };
  using kernels::Arithmetic, kernels::Conv, kernels::Dot;
  constexpr auto arithmetic = &kernels::Operators<T>::arithmetic;
  constexpr auto dot = &kernels::Operators<T>::dot;
  constexpr auto conv = &kernels::Operators<T>::conv;
  const bool linear = same(dot, &Dot<T>::linear_backward), conv2d = same(conv, &Conv<T>::conv2d_backward);
  const bool copied = linear || conv2d || same(dot, &Dot<T>::matmul) || same(dot, &Dot<T>::linear) ||
                      same(conv, &Conv<T>::conv2d) || same(arithmetic, &Arithmetic<T>::add);
  if (original.wide_parameters && copied && !(linear && conv2d)) table.wide_parameters = false;
}

}  // namespace

const Mode& register_mode(std::string name, Mode mode) {
  expects(!name.empty() && name != "auto" && name != "fastest" && !is_debug(name), "register_mode: \"", name,
          "\" cannot be a mode's name");
  expects(name.find(':') == std::string::npos, "register_mode: \"", name,
          "\" cannot be a mode's name: a colon precedes a device number");
  expects(mode.memory != nullptr, "register_mode: mode \"", name, "\" has no memory");
  expects(mode.places == nullptr || (mode.places->count > 0 && &mode.places->memory(0) == mode.memory),
          "register_mode: mode \"", name,
          "\" has another memory than the first of its places; replace Mode::places too, "
          "or set it to null");
  if (mode.inner != nullptr) {
    const Mode& fallback = tern::mode(mode.inner);
    expects(fallback.inner == nullptr, "register_mode: mode \"", name, "\" borrows from \"", mode.inner,
            "\", which has a fallback itself");
  } else {
    expects(mode.own.empty(), "register_mode: mode \"", name, "\" names operators of its own and no inner mode");
  }
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  expects(modes.find(name) == nullptr && name != "cuda", "register_mode: there is a mode \"", name,
          "\" already; choose another name");
  for (const Mode& other : modes.modes)
    kernels::for_each_compute_type([&]<class T>() {
      auto* const table = mode.table<T>();
      const auto* const original = other.table<T>();
      if (table != nullptr && original != nullptr) check_wide(*table, *original);
    });
  mode.name = std::move(name);
  mode.index = 0;  // a copy of a further device is a mode of one device
  modes.modes.push_back(std::move(mode));
  return modes.modes.back();
}

const Mode& load_mode(const std::string& file) {
  std::string reason;
  const Mode* mode = open_plugin(file, reason);
  if (mode == nullptr) throw DeviceUnavailable(message("load_mode: ", reason));
  return register_mode(mode->name, *mode);
}

std::vector<ModeStatus> modes() {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  const Mode* cuda = find_cuda(modes);
  std::vector<ModeStatus> result;
  for (const Mode& mode : modes.modes) result.push_back({mode.name, true, mode.description});
  if (cuda == nullptr) {
    const auto place = result.begin() + static_cast<std::ptrdiff_t>(modes.built_in);
    result.insert(place, {"cuda", false, modes.cuda_reason});
  }
  return result;
}

std::vector<Place> devices() {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  find_cuda(modes);
  std::vector<Place> result;
  for (const Mode& mode : modes.modes) {
    result.push_back({mode.name, mode.name, 0, mode.description});
    for (int index = 1; index < count_of(mode); ++index) try {
        result.push_back({message(mode.name, ":", index), mode.name, index, mode.places->description(index)});
      } catch (const DeviceUnavailable&) {
      }
  }
  return result;
}

std::string fastest_mode() {
  Registry& modes = registry();
  const std::lock_guard lock(modes.mutex);
  return find_cuda(modes) ? "cuda" : modes.modes[modes.built_in - 1].name;
}

}  // namespace tern
