#include "cuda/convolution/engine_graph.cuh"

// The handle of an operation graph is marked deprecated by the newest cuDNN and required by the older ones.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace tern::cuda::convolution {
namespace {

Descriptor tensor(std::int64_t id, cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                  std::int64_t pitch, bool in_memory = true) {
  const std::int64_t size[] = {n, c, h, w}, stride[] = {h * w * pitch, 1, w * pitch, pitch};
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, size)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, stride)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, !in_memory)
      .finalize();
  return made;
}

struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, convolution, alpha, beta;
};
Names names_of(Pass pass) {
  switch (pass) {
    case Pass::grad_x:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::grad_weight:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& in, const Descriptor* added, const Descriptor& out,
                     Activation activation = Activation::none) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  if (activation == Activation::relu6) function.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 6.0);
  function.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
  if (added != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *added);
  operation.finalize();
  return operation;
}

}  // namespace

Graph graph_of(cudnnHandle_t library, const Problem& p) {
  const auto type = [&](Pass computed) {
    const Element element = element_of(p, computed);
    return element == Element::float32   ? CUDNN_DATA_FLOAT
           : element == Element::float16 ? CUDNN_DATA_HALF
                                         : CUDNN_DATA_BFLOAT16;
  };
  Descriptor x = tensor(id_x, type(Pass::grad_x), p.N, p.C, p.H, p.W, p.x_channels),
             weight = tensor(id_weight, type(Pass::grad_weight), p.O, p.C / p.groups, p.KH, p.KW, p.C / p.groups),
             y = tensor(id_y, type(Pass::forward), p.N, p.O, p.OH, p.OW, p.y_channels);
  const std::int64_t stride[] = {p.stride_h, p.stride_w}, pad[] = {p.pad_h, p.pad_w},
                     dilation[] = {p.dilation_h, p.dilation_w};
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilation)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pad)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pad)
      .finalize();
  const auto between = [&](std::int64_t id) {
    return tensor(id, CUDNN_DATA_FLOAT, p.N, p.O, p.OH, p.OW, p.y_channels, false);
  };
  std::vector<Descriptor> parts, operations;
  const Names names = names_of(p.pass);
  Descriptor product = p.epilogue ? between(id_product) : std::move(y);
  operations.emplace_back(names.operation);
  operations[0]
      .set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.weight, weight)
      .set(names.y, product)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .finalize();
  if (p.epilogue) {
    const bool relu = p.activation != Activation::none;
    Descriptor bias = tensor(id_bias, type(Pass::forward), 1, p.O, 1, 1, p.O);
    Descriptor sum = relu ? between(id_sum) : std::move(y);
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, product, &bias, sum));
    if (relu) {
      operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y, p.activation));
      parts.push_back(std::move(y));
    }
    parts.push_back(std::move(bias));
    parts.push_back(std::move(sum));
  }
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
            handles.data());
  graph.finalize();
  for (Descriptor* part : {&x, &weight, &product, &convolution}) parts.push_back(std::move(*part));
  for (Descriptor& operation : operations) parts.push_back(std::move(operation));
  return {std::move(parts), std::move(graph)};
}

}  // namespace tern::cuda::convolution
