#pragma once
// Weights of another training: taking over what fits, and leaving some of them as they are.

#include <string>
#include <vector>

#include "tern/nn/module.hpp"

namespace tern::nn {

/// Names that begin with `from` begin with `to` instead: {"head.", "fc."}, {"module.", ""}.
struct Rename {
  std::string from = {}, to = {};
};

struct ImportOptions {
  std::string prefix = {};          ///< only names that begin so are looked at, without it: "model." of a checkpoint
  std::vector<Rename> rename = {};  ///< after that; for each name, the first that fits
  bool strict = true;               ///< whatever does not fit is an Error; else it is left alone and reported
};

/// What `load` did, by the module's names, each list in the order of the alphabet.
struct LoadReport {
  struct Differing {
    std::string name = {};
    Shape here = {}, there = {};
    DType dtype_here = DType::float32, dtype_there = DType::float32;
  };
  std::vector<std::string> taken = {};
  std::vector<std::string> missing = {};     ///< of the module, and not there
  std::vector<std::string> unexpected = {};  ///< there, and not of the module
  std::vector<Differing> differing = {};     ///< of another shape, or integers for numbers with a fraction

  /// True when the module has all of the file and the file all of the module.
  bool whole() const { return missing.empty() && unexpected.empty() && differing.empty(); }
  /// A sentence, and a line for each tensor that was not taken.
  std::string text() const;
};

/// Copies the tensors of a safetensors file, or of a NumPy file whose name ends in .npz, into the parameters and
/// buffers of the same names. Throws FileError for a file that cannot be read, for one that does not fit (strict: with
/// all that is missing, unexpected or different), and for one of which nothing fits; then nothing was changed.
///
///     const nn::LoadReport report = nn::load(net, "resnet18.safetensors", {.strict = false});  // but the last layer
///
LoadReport load(Module& module, const std::string& file, const ImportOptions& options = {});
/// The same from tensors in memory; `name` is the file name in messages.
LoadReport load(Module& module, const State& state, const ImportOptions& options = {},
                const std::string& name = "the state");

/// Turns off the gradients of the parameters whose names match one of the patterns, and returns the names: `*` stands
/// for any characters, also dots, `?` for one. Statistics of BatchNorm2d still follow the batches, until `eval` of
/// their module. Throws Error for a pattern that matches no parameter. Make the optimiser afterwards, from
/// trained_parameters.
std::vector<std::string> freeze(Module& module, const std::vector<std::string>& patterns);
/// Turns the gradients of these parameters on again.
std::vector<std::string> unfreeze(Module& module, const std::vector<std::string>& patterns);
/// The parameters that take a gradient.
std::vector<Tensor> trained_parameters(const Module& module);

}  // namespace tern::nn
