#pragma once
// Convolutions in cuDNN's graph interface.

#include <cudnn.h>

#include <source_location>
#include <utility>
#include <vector>

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// What the arrays of a graph are called.
inline constexpr std::int64_t id_x = 'x', id_weight = 'w', id_y = 'y', id_bias = 'b', id_product = 'p', id_sum = 's';

inline void check_library(cudnnStatus_t status, const char* doing,
                          const std::source_location& where = std::source_location::current()) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    throw Error(message("cuda: ", doing, " failed: ", cudnnGetErrorString(status), " (line ", where.line(), ")"));
}

/// A descriptor of cuDNN's graph interface.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check_library(cudnnBackendCreateDescriptor(type, &handle_), "describing a convolution");
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values) {
    check_library(cudnnBackendSetAttribute(handle_, name, type, count, values), "describing a convolution");
    return *this;
  }
  template <class T, std::size_t n>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T (&values)[n]) {
    return set(name, type, static_cast<std::int64_t>(n), values);
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    const T values[1] = {value};
    return set(name, type, values);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.handle_);
  }
  Descriptor& finalize() {
    check_library(cudnnBackendFinalize(handle_), "describing a convolution");
    return *this;
  }
  bool try_finalize() { return cudnnBackendFinalize(handle_) == CUDNN_STATUS_SUCCESS; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// An operation graph and what it refers to.
struct Graph {
  std::vector<Descriptor> parts;
  Descriptor graph;
};

/// Of the tensor that this pass computes.
inline Element element_of(const Problem& problem, Pass computed) {
  return problem.float_out && problem.pass == computed ? Element::float32 : problem.element;
}

/// A convolution, or with an epilogue, and the bias and activation behind it.
Graph graph_of(cudnnHandle_t library, const Problem& problem);

}  // namespace tern::cuda::convolution
