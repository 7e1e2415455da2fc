#include "tern/nn/load.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tern/core/error.hpp"
#include "tern/io/npy.hpp"
#include "tern/io/safetensors.hpp"

namespace tern::nn {

namespace {

constexpr std::size_t most_names = 3;  // that a message lists as examples

std::string renamed(std::string name, const std::vector<Rename>& rename) {
  const auto found = std::ranges::find_if(rename, [&](const Rename& one) { return name.starts_with(one.from); });
  return found == rename.end() ? name : found->to + name.substr(found->from.size());
}

// The tensors under the names that the module may have for them.
State translated(const State& state, const ImportOptions& options, const std::string& source) {
  State result;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(options.prefix)) continue;
    const std::string own = renamed(name.substr(options.prefix.size()), options.rename);
    expects<FileError>(result.emplace(own, tensor).second, source, ": ", name,
                       " and another tensor would both be called ", own, "; change the renaming");
  }
  return result;
}

std::string examples(const State& state) {
  std::string text;
  std::size_t count = 0;
  for (const auto& entry : state) {
    if (++count > most_names) return text + ", ...";
    text += (count == 1 ? "" : ", ") + entry.first;
  }
  return text.empty() ? "no tensors" : text;
}

// If a later character does not match, the last star takes one more.
bool fits(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, wanted = 0, after_star = std::string_view::npos, star_ends = 0;
  while (at < name.size()) {
    if (wanted < pattern.size() && pattern[wanted] == '*') {
      after_star = ++wanted;
      star_ends = at;
    } else if (wanted < pattern.size() && (pattern[wanted] == '?' || pattern[wanted] == name[at])) {
      ++at;
      ++wanted;
    } else if (after_star != std::string_view::npos) {
      wanted = after_star;
      at = ++star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', wanted) == std::string_view::npos;
}

std::vector<std::string> set_trained(Module& module, const std::vector<std::string>& patterns, bool on) {
  std::vector<NamedTensor> parameters = module.named_parameters();
  std::vector<NamedTensor> found;
  for (const std::string& pattern : patterns) {
    const std::size_t before = found.size();
    for (const NamedTensor& named : parameters)
      if (fits(named.name, pattern)) found.push_back(named);
    if (found.size() > before) continue;
    State all;
    for (const NamedTensor& named : parameters) all.emplace(named.name, named.tensor);
    throw Error(message("no parameter of ", module.describe(), " is called '", pattern, "'; there are ", examples(all),
                        "; * stands for any characters"));
  }
  std::vector<std::string> names;
  for (NamedTensor& named : found) {
    named.tensor.set_requires_grad(on);
    if (std::ranges::find(names, named.name) == names.end()) names.push_back(named.name);
  }
  return names;
}

}  // namespace

std::string LoadReport::text() const {
  PlainStream text;
  text << taken.size() << " of " << taken.size() + missing.size() + differing.size() << " tensors were taken";
  for (const Differing& one : differing) {
    text << "\n  different: " << one.name << " is " << one.here << " here and " << one.there << " there";
    if (one.here == one.there) text << ", " << one.dtype_here << " and " << one.dtype_there;
  }
  for (const std::string& name : missing) text << "\n  missing: " << name;
  for (const std::string& name : unexpected) text << "\n  left over: " << name;
  return text.str();
}

LoadReport load(Module& module, const State& state, const ImportOptions& options, const std::string& name) {
  State there = translated(state, options, name);
  for (const std::string& ignored : module.ignored_names()) there.erase(ignored);
  LoadReport report;
  State fitting;
  const State here = module.state();
  for (const auto& [own, tensor] : here) {
    const auto found = there.find(own);
    if (found == there.end()) {
      report.missing.push_back(own);
      continue;
    }
    const Tensor& other = found->second;
    expects<FileError>(other.defined(), name, ": ", own, " is undefined");
    if (other.shape() == tensor.shape() && is_floating(other.dtype()) == is_floating(tensor.dtype())) {
      report.taken.push_back(own);
      fitting.emplace(own, other);
    } else {
      report.differing.push_back({own, tensor.shape(), other.shape(), tensor.dtype(), other.dtype()});
    }
  }
  for (const auto& entry : there)
    if (!here.contains(entry.first)) report.unexpected.push_back(entry.first);
  expects<FileError>(!options.strict || report.whole(), name, ": does not fit ", module.describe(),
                     "; strict = false takes what does: ", report.text());
  if (report.taken.empty() && !report.differing.empty()) {
    const LoadReport::Differing& one = report.differing.front();
    throw FileError(message(name, ": nothing in there fits ", module.describe(), ": ", one.name, " is ", one.dtype_here,
                            ' ', one.here, " here and ", one.dtype_there, ' ', one.there, " there"));
  }
  expects<FileError>(!report.taken.empty() || here.empty(), name, ": nothing in there fits ", module.describe(),
                     ": it has ", examples(there), ", and the module ", examples(here),
                     "; the prefix and rename of ImportOptions bring names together");
  module.load_state(fitting, {.allow_missing = true});
  return report;
}

LoadReport load(Module& module, const std::string& file, const ImportOptions& options) {
  return load(module, file.ends_with(".npz") ? io::load_npz(file) : io::load_safetensors(file).tensors, options, file);
}

std::vector<std::string> freeze(Module& module, const std::vector<std::string>& patterns) {
  return set_trained(module, patterns, false);
}

std::vector<std::string> unfreeze(Module& module, const std::vector<std::string>& patterns) {
  return set_trained(module, patterns, true);
}

std::vector<Tensor> trained_parameters(const Module& module) {
  std::vector<Tensor> trained;
  for (Tensor& tensor : module.parameters())
    if (tensor.requires_grad()) trained.push_back(std::move(tensor));
  return trained;
}

}  // namespace tern::nn
