#pragma once
// Weights of another training: load what fits, and freeze parameters.

#include <string>
#include <vector>

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Replaces the prefix `from` of a name by `to`: {"head.", "fc."}, {"module.", ""}.
struct Rename {
  std::string from = {}, to = {};
};

struct ImportOptions {
  std::string prefix = {};          ///< only names with this prefix are loaded, and it is removed: "model." in a
                                    ///< checkpoint
  std::vector<Rename> rename = {};  ///< applied afterwards; the first match counts for each name
  bool strict = true;               ///< anything that does not fit is an Error; otherwise it is skipped and reported
};

/// What `load` did, by the module's names; each list is sorted.
struct LoadReport {
  struct Differing {
    std::string name = {};
    Shape here = {}, there = {};
    DType dtype_here = DType::float32, dtype_there = DType::float32;
  };
  std::vector<std::string> taken = {};
  std::vector<std::string> missing = {};     ///< in the module, not in the file
  std::vector<std::string> unexpected = {};  ///< in the file, not in the module
  std::vector<Differing> differing = {};     ///< of another shape, or integers for floating-point numbers

  /// True if the file and the module have the same tensors.
  bool whole() const { return missing.empty() && unexpected.empty() && differing.empty(); }
  /// A sentence, and one line for each tensor that was not loaded.
  std::string text() const;
};

/// Copies the tensors of a safetensors file, or of a NumPy file whose name ends in .npz, into the parameters and
/// buffers of the same names. Throws FileError if the file cannot be read, does not fit (strict: listing all that is
/// missing, unexpected or different), or contains nothing that fits; then nothing was changed.
///
///     const nn::LoadReport report = nn::load(net, "resnet18.safetensors", {.strict = false});  // but the last layer
///
LoadReport load(Module& module, const std::string& file, const ImportOptions& options = {});
/// The same for tensors in memory; `name` is the file name in messages.
LoadReport load(Module& module, const State& state, const ImportOptions& options = {},
                const std::string& name = "the state");

/// Freezes the parameters whose names match one of the patterns, and returns their names: `*` matches any characters,
/// also dots, `?` one character. The statistics of BatchNorm2d still follow the batches until `eval` of their module.
/// Throws Error for a pattern that matches no parameter. Make the optimiser afterwards, from trained_parameters.
std::vector<std::string> freeze(Module& module, const std::vector<std::string>& patterns);
/// Re-enables the gradients of these parameters.
std::vector<std::string> unfreeze(Module& module, const std::vector<std::string>& patterns);
/// The parameters that are trained, that is, not frozen.
std::vector<Tensor> trained_parameters(const Module& module);

}  // namespace tern::nn
