#pragma once

#include <map>
#include <memory>

#include "tern/nn/init.hpp"
#include "tern/nn/module.hpp"
#include "tern/nn/shape.hpp"
#include "tern/operators/dot.hpp"
#include "tern/parallel/layout.hpp"

namespace tern::parallel {

struct Holding;
struct SplitShard;

/// A module whose parameters the ranks of a group hold together. All ranks call it alike. A DataParallel over the same
/// ranks leaves each rank's shard alone; one over ranks that hold the same shard averages it.
class SplitModule : public nn::Module {
 public:
  const Group& group() const { return group_; }
  /// How the ranks hold the parameter or buffer of this name: whole, rows or features.
  virtual Layout layout(const std::string& name) const = 0;

 protected:
  /// Runs on the device of the scope, as on_devices.
  explicit SplitModule(const Group& group);
  using nn::Module::parameter;
  /// Registers a parameter with this layout, which `layout` also returns. Functions that see parameters without their
  /// module, such as optim::clip_grad_norm, learn from it that this is a shard.
  nn::Parameter parameter(const std::string& name, Tensor tensor, Layout held);

 private:
  friend std::map<std::string, SplitShard> split_shards(const nn::Module& module);
  Group group_;
  std::shared_ptr<const Holding> holding_;
};

struct ColumnLinearOptions {
  bool bias = true;
  DType dtype = DType::float32;
  nn::Start start = nn::Start::torch;
  Layout input = Layout::whole;      ///< of x: whole, rows or features
  Layout output = Layout::features;  ///< of the result: features, whole or rows
};

/// nn::Linear with its outputs divided among the ranks: x [..., in] -> [..., out]. The initial values are those of the
/// whole layer, of which each rank keeps its rows; names are the same: weight [out / ranks, in], bias [out / ranks].
/// Throws ShapeError unless the outputs are a multiple of the ranks.
class ColumnLinear : public SplitModule {
 public:
  ColumnLinear(const Group& group, std::int64_t in, std::int64_t out, const ColumnLinearOptions& options = {},
               Generator& generator = default_generator());

  Tensor forward(const Tensor& x) const override;
  Layout layout(const std::string& /*name*/) const override { return Layout::rows; }
  std::string describe() const override;

 private:
  Layout input_, output_;
  nn::Parameter weight_, bias_;
};

struct RowLinearOptions {
  bool bias = true;
  DType dtype = DType::float32;
  nn::Start start = nn::Start::torch;
  Layout input = Layout::features;  ///< of x: features, whole or rows
  Layout output = Layout::whole;    ///< of the result: whole, rows or features
};

/// nn::Linear with its inputs divided among the ranks: x [..., in] -> [..., out]. The ranks' products are summed and
/// the bias added. The initial values are those of the whole layer: weight [out, in / ranks] and, in every rank, bias
/// [out]. With the output layout `rows`, the bias gradient covers a rank's rows, and DataParallel over the same ranks
/// sums it. Throws ShapeError unless the inputs are a multiple of the ranks.
class RowLinear : public SplitModule {
 public:
  RowLinear(const Group& group, std::int64_t in, std::int64_t out, const RowLinearOptions& options = {},
            Generator& generator = default_generator());

  Tensor forward(const Tensor& x) const override;
  Layout layout(const std::string& name) const override { return name == "weight" ? Layout::features : Layout::whole; }
  std::string describe() const override;

 private:
  Layout input_, output_;
  nn::Parameter weight_, bias_;
};

/// nn::Dropout for elements that the ranks hold in shards, rows or features: each rank draws separately.
class Dropout : public nn::Dropout {
 public:
  explicit Dropout(const Group& group, double probability = 0.5) : nn::Dropout(probability), rank_(group.rank()) {}
  Tensor forward(const Tensor& x) const override;

 private:
  int rank_;
};

/// The state of a module with all shards of its SplitModules joined, under the names of the whole module, for saving. A
/// collective call over the groups of these modules; every rank gets all of it.
nn::State whole_state(const nn::Module& module);
/// load_state for a whole state: each rank takes its shards.
void load_whole_state(nn::Module& module, const nn::State& state, const nn::LoadOptions& options = {});

}  // namespace tern::parallel
