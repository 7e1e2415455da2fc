#pragma once

#include <memory>

#include "tern/graph/graph.hpp"

namespace tern::graph {

struct ProgramOptions {
  bool fold = true;  ///< for_inference; else only what leaves every bit as it is
};

/// A graph made ready to answer in one mode: the one of the scope in which it is made. On the host its kernels are
/// recorded in the third call of each batch size, with all intermediate results in one block of memory that is planned
/// by their lifetimes in the second; a later call copies the inputs in, runs the kernels and copies the results out. In
/// a mode that captures it is a Step; elsewhere, and where the host has to look at values, the graph runs operator by
/// operator. Results have the graph's bits. Any number of threads may call one Program: each finds or makes a recording
/// of its own.
class Program {
 public:
  explicit Program(const Graph& graph, const ProgramOptions& options = {});
  /// Traces the module first, in evaluation.
  Program(const nn::Module& module, const std::vector<Tensor>& examples, const ProgramOptions& options = {});
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;
  Tensor operator()(const Tensor& x) const;
  /// The same into `results`: where those of an earlier call are passed, a recorded call allocates no memory. A tensor
  /// of another shape, dtype or layout is replaced by a new one.
  void run(const std::vector<Tensor>& inputs, std::vector<Tensor>& results) const;

  const Graph& graph() const;
  /// Why calls run operator by operator; empty where they are recorded.
  const std::string& unrecorded() const;
  /// Bytes of the block of one recording of this batch, which is made if there is none; 0 where calls are not recorded.
  std::size_t planned_bytes(std::int64_t batch) const;

  /// One file; load makes the program in the mode of the scope. The file is not trusted.
  void save(const std::string& file) const;
  static Program load(const std::string& file);

 private:
  struct State;
  explicit Program(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tern::graph
