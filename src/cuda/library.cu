#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "cuda/library.cuh"
#include "cuda/timing.cuh"

namespace tern::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr int candidates_asked = 16;

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

cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                              std::int64_t stride, std::int64_t pitch = 0) {
  cublasLtMatrixLayout_t made = nullptr;
  check_library(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), pitch == 0 ? rows : pitch),
                "describing a matrix");
  const auto count = static_cast<std::int32_t>(batch);
  check_library(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                "describing a matrix");
  check_library(
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
      "describing a matrix");
  return made;
}

void set_bias(cublasLtMatmulDesc_t operation, const float* bias) {
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                "describing a product");
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(address % 256 == 0 ? 256 : address & (~address + 1));
}

// A row-major product is the column-major product of the swapped factors: out^T = op(b)^T op(a)^T.
template <class T, class In>
std::unique_ptr<LibraryPlan> make_plan(Context& context, T* out, const In* a, const In* b, const kernels::Matmul& shape,
                                       Finish finish) {
  auto plan = std::make_unique<LibraryPlan>();
  cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
  if constexpr (std::is_same_v<T, float>)
    compute = context.precision != Precision::strict ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  if constexpr (std::is_same_v<In, bf16>) compute = CUBLAS_COMPUTE_32F;
  check_library(cublasLtMatmulDescCreate(&plan->operation, compute, element<T>), "describing a product");
  const cublasOperation_t left = shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_library(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
                "describing a product");
  check_library(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
                "describing a product");
  plan->left = layout(element<In>, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k,
                      shape.batch, shape.stride_b);
  plan->right = layout(element<In>, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m,
                       shape.batch, shape.stride_a);
  plan->out = layout(element<T>, shape.n, shape.m, shape.batch, shape.m * shape.n, finish.pitch);
  if (finish.bias != nullptr) {
    const cublasLtEpilogue_t epilogue = finish.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    check_library(
        cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
        "describing a product");
    set_bias(plan->operation, finish.bias);
  }

  cublasLtMatmulPreference_t preference = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&preference), "asking cuBLASLt for algorithms");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_library(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                  "asking cuBLASLt for algorithms");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(out));
  // Sums of split k through a workspace repeat bit for bit; in-place ones depend on which block comes first.
  const std::uint32_t reductions =
      context.deterministic ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);

  std::array<cublasLtMatmulHeuristicResult_t, candidates_asked> results{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library(), plan->operation, plan->left, plan->right, plan->out, plan->out,
                                     preference, candidates_asked, results.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (finish.bias != nullptr && (status != CUBLAS_STATUS_SUCCESS || found == 0)) {
    plan->exists = false;
    return plan;
  }
  check_library(status, "asking cuBLASLt for algorithms");
  expects(found > 0, "cuda: cuBLASLt knows no algorithm for a product of ", shape.m, " x ", shape.k, " x ", shape.n);

  const auto use = [&](const cublasLtMatmulHeuristicResult_t& result) {
    plan->algorithm = result.algo;
    plan->workspace = result.workspaceSize;
  };
  use(results[0]);
  if (!context.deterministic && !recording(context) && found > 1) {
    std::size_t largest = 0;
    for (int i = 0; i < found; ++i) largest = std::max(largest, results[i].workspaceSize);
    const Scratch workspace(context, largest);
    int best = 0;
    float best_time = 0;
    for (int i = 0; i < found; ++i) {
      use(results[i]);
      const float time = microseconds(
          context, [&] { library_product(*plan, stream_of(context), workspace.as<void>(), out, a, b, finish); });
      if (i == 0 || time < best_time) {
        best = i;
        best_time = time;
      }
    }
    use(results[best]);
  }
  return plan;
}

}  // namespace

template <class T, class In>
const LibraryPlan& library_plan(Context& context, T* out, const In* a, const In* b, const kernels::Matmul& shape,
                                Finish finish) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, int, std::uint32_t>;
  static std::mutex mutex;
  static auto* plans = new std::map<Key, std::unique_ptr<LibraryPlan>>;
  const int flags = (shape.transpose_a ? 1 : 0) | (shape.transpose_b ? 2 : 0) | (context.deterministic ? 4 : 0) |
                    (context.precision != Precision::strict ? 8 : 0) | (std::is_same_v<In, bf16> ? 16 : 0) |
                    (finish.bias != nullptr ? 32 : 0) | (finish.relu ? 64 : 0);
  const std::uint32_t alignment = std::min({alignment_of(out), alignment_of(a), alignment_of(b)});
  const Key key{shape.batch, shape.m, shape.n, shape.k, shape.stride_a, shape.stride_b, finish.pitch, flags, alignment};
  std::lock_guard lock(mutex);
  std::unique_ptr<LibraryPlan>& plan = (*plans)[key];
  if (plan == nullptr) plan = make_plan(context, out, a, b, shape, finish);
  return *plan;
}

template <class T, class In>
void library_product(const LibraryPlan& plan, cudaStream_t stream, void* workspace, T* out, const In* a, const In* b,
                     Finish finish) {
  const T one = 1, zero = 0;
  // Plans are shared by all threads, so a bias goes into a copy.
  cublasLtMatmulDescOpaque_t operation = *plan.operation;
  if (finish.bias != nullptr) set_bias(&operation, finish.bias);
  check_library(cublasLtMatmul(library(), &operation, &one, b, plan.left, a, plan.right, &zero, out, plan.out, out,
                               plan.out, &plan.algorithm, workspace, plan.workspace, stream),
                "a product by cuBLASLt");
}

template const LibraryPlan& library_plan(Context&, float*, const float*, const float*, const kernels::Matmul&, Finish);
template const LibraryPlan& library_plan(Context&, float*, const bf16*, const bf16*, const kernels::Matmul&, Finish);
template const LibraryPlan& library_plan(Context&, double*, const double*, const double*, const kernels::Matmul&,
                                         Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, float*, const float*, const float*, Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, float*, const bf16*, const bf16*, Finish);
template void library_product(const LibraryPlan&, cudaStream_t, void*, double*, const double*, const double*, Finish);

}  // namespace tern::cuda
