#include <array>
#include <compare>
#include <mutex>
#include <type_traits>

#include "cuda/choice.cuh"
#include "cuda/library.cuh"
#include "cuda/timing.cuh"

namespace tern::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr int candidates_asked = 16;

template <auto destroy>
struct Destroy {
  template <class Described>
  void operator()(Described* described) const {
    destroy(described);
  }
};
using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy<cublasLtMatmulDescDestroy>>;
using Matrix = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy<cublasLtMatmulPreferenceDestroy>>;

/// Everything that the library's proposals, and the choice among them, depend on.
struct Key {
  std::int64_t batch, m, n, k, stride_a, stride_b, pitch;
  bool transpose_a, transpose_b, deterministic, tensor_cores, with_bias, relu;
  cudaDataType_t in, out;
  std::array<std::uint32_t, 4> arrays;  // alignment_of out, a, b and bias
  auto operator<=>(const Key&) const = default;
};

}  // namespace

struct LibraryProduct {
  Operation operation;
  Matrix left, right, out;
  std::array<cublasLtMatmulHeuristicResult_t, candidates_asked> algorithms{};
  int count = 0;
};

bool LibraryPlan::exists() const { return product->count > 0; }
std::size_t LibraryPlan::workspace() const { return product->algorithms[algorithm].workspaceSize; }

namespace {

void check_library(cublasStatus_t status, const char* doing,
                   const std::source_location& where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw Error(message("cuda: ", doing, " failed: ", cublasLtGetStatusString(status), " (line ", where.line(), ")"));
}

cublasLtHandle_t library() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    check_library(cublasLtCreate(&made), "starting cuBLASLt");
    return made;
  }();
  return handle;
}

template <class T>
constexpr cudaDataType_t element = std::is_same_v<T, bf16>    ? CUDA_R_16BF
                                   : std::is_same_v<T, float> ? CUDA_R_32F
                                                              : CUDA_R_64F;

Matrix matrix(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch, std::int64_t stride,
              std::int64_t pitch = 0) {
  cublasLtMatrixLayout_t made = nullptr;
  check_library(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), pitch == 0 ? rows : pitch),
                "describing a matrix");
  Matrix owned(made);
  const auto count = static_cast<std::int32_t>(batch);
  check_library(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                "describing a matrix");
  check_library(
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
      "describing a matrix");
  return owned;
}

void set_bias(cublasLtMatmulDesc_t operation, const float* bias) {
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                "describing a product");
}

// A row-major product is the column-major product of the swapped factors: out^T = op(b)^T op(a)^T.
std::shared_ptr<const LibraryProduct> describe(const Key& key, const float* bias) {
  auto product = std::make_shared<LibraryProduct>();
  const cublasComputeType_t compute = key.out == CUDA_R_64F ? CUBLAS_COMPUTE_64F
                                      : key.tensor_cores    ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                            : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  check_library(cublasLtMatmulDescCreate(&operation, compute, key.out), "describing a product");
  product->operation.reset(operation);
  const cublasOperation_t left = key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
                "describing a product");
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
                "describing a product");
  product->left =
      matrix(key.in, key.transpose_b ? key.k : key.n, key.transpose_b ? key.n : key.k, key.batch, key.stride_b);
  product->right =
      matrix(key.in, key.transpose_a ? key.m : key.k, key.transpose_a ? key.k : key.m, key.batch, key.stride_a);
  product->out = matrix(key.out, key.n, key.m, key.batch, key.m * key.n, key.pitch);
  if (key.with_bias) {
    const cublasLtEpilogue_t epilogue = key.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
                  "describing a product");
    set_bias(operation, bias);
  }

  cublasLtMatmulPreference_t asked = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&asked), "asking cuBLASLt for algorithms");
  const Preference preference(asked);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_library(cublasLtMatmulPreferenceSetAttribute(asked, attribute, &value, sizeof value),
                  "asking cuBLASLt for algorithms");
  };
  const auto [out_alignment, a_alignment, b_alignment, bias_alignment] = key.arrays;
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment);
  // Sums of split k through a workspace repeat bit for bit; in-place ones depend on which block comes first.
  const std::uint32_t reductions =
      key.deterministic ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);

  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library(), operation, product->left.get(), product->right.get(), product->out.get(), product->out.get(), asked,
      candidates_asked, product->algorithms.data(), &product->count);
  if (key.with_bias && status != CUBLAS_STATUS_SUCCESS) {
    product->count = 0;
    return product;
  }
  check_library(status, "asking cuBLASLt for algorithms");
  expects(key.with_bias || product->count > 0, "cuda: cuBLASLt knows no algorithm for a product of ", key.m, " x ",
          key.k, " x ", key.n);
  return product;
}

// Descriptions are read by all threads.
std::shared_ptr<const LibraryProduct> described(const Key& key, const float* bias) {
  static std::mutex mutex;
  static auto* products = new Memo<std::pair<int, Key>, std::shared_ptr<const LibraryProduct>>;
  const std::pair whole{card().device, key};
  {
    const std::scoped_lock lock(mutex);
    if (const auto* known = products->find(whole)) return *known;
  }
  auto made = describe(key, bias);
  const std::scoped_lock lock(mutex);
  return products->keep(whole, std::move(made));
}

}  // namespace

template <class T, class In>
LibraryPlan library_plan(Context& context, T* out, const In* a, const In* b, const kernels::Matmul& shape,
                         Finish finish) {
  const auto& [batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b] = shape;
  const bool tensor_cores = std::is_same_v<In, float> && context.precision != Precision::strict;
  const Key key{batch,
                m,
                n,
                k,
                stride_a,
                stride_b,
                finish.pitch,
                transpose_a,
                transpose_b,
                context.deterministic,
                tensor_cores,
                finish.bias != nullptr,
                finish.relu,
                element<In>,
                element<T>,
                {alignment_of(out), alignment_of(a), alignment_of(b), alignment_of(finish.bias)}};
  LibraryPlan plan{described(key, finish.bias)};
  if (plan.product->count < 2) return plan;
  struct Algorithm;
  const LibraryPlan first = plan;
  plan.algorithm = fastest<Algorithm>(
      context, key, static_cast<std::size_t>(plan.product->count), [&](std::size_t i) -> std::optional<float> {
        const LibraryPlan candidate{first.product, i};
        const Scratch workspace(context, candidate.workspace());
        return microseconds(
            context, [&] { library_product(candidate, stream_of(context), workspace.as<void>(), out, a, b, finish); });
      });
  return plan;
}

template <class T, class In>
void library_product(const LibraryPlan& plan, cudaStream_t stream, void* workspace, T* out, const In* a, const In* b,
                     Finish finish) {
  const T one = 1, zero = 0;
  const LibraryProduct& product = *plan.product;
  // Descriptions are shared by all threads, so a bias goes into a copy.
  cublasLtMatmulDescOpaque_t operation = *product.operation;
  if (finish.bias != nullptr) set_bias(&operation, finish.bias);
  check_library(cublasLtMatmul(library(), &operation, &one, b, product.left.get(), a, product.right.get(), &zero, out,
                               product.out.get(), out, product.out.get(), &product.algorithms[plan.algorithm].algo,
                               workspace, plan.workspace(), stream),
                "a product by cuBLASLt");
}

template LibraryPlan library_plan(Context&, float*, const float*, const float*, const kernels::Matmul&, Finish);
template LibraryPlan library_plan(Context&, float*, const bf16*, const bf16*, const kernels::Matmul&, Finish);
template LibraryPlan library_plan(Context&, double*, const double*, const double*, const kernels::Matmul&, Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, float*, const float*, const float*, Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, float*, const bf16*, const bf16*, Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, double*, const double*, const double*, Finish);

}  // namespace tern::cuda
