#include <cublasLt.h>

#include <array>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "cuda/products/library.cuh"

namespace tern::cuda::products {
namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr int requested_candidates = kernels::most_plans;

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

/// A product as the library sees it, and the algorithms that it proposes.
struct Description {
  Operation operation;
  Matrix left, right, out;
  std::array<cublasLtMatmulHeuristicResult_t, requested_candidates> algorithms{};
  int count = 0;  ///< 0: the library has no algorithm with this epilogue, or for 16-bit rows of these alignments
};

void check_library(cublasStatus_t status, const char* doing,
                   const std::source_location& where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw Error(message("cuda: ", doing, " failed: ", cublasLtGetStatusString(status), " (line ", where.line(), ")"));
}

// For the thread's current card.
cublasLtHandle_t library() {
  struct Entry {
    std::once_flag started;
    cublasLtHandle_t handle = nullptr;
  };
  static auto& entries = *new std::vector<Entry>(static_cast<std::size_t>(card_count()));
  Entry& entry = entries[static_cast<std::size_t>(card().device)];
  std::call_once(entry.started, [&] { check_library(cublasLtCreate(&entry.handle), "starting cuBLASLt"); });
  return entry.handle;
}

cudaDataType_t type_of(Element element) {
  return element == Element::bfloat16  ? CUDA_R_16BF
         : element == Element::float16 ? CUDA_R_16F
         : element == Element::float32 ? CUDA_R_32F
                                       : CUDA_R_64F;
}

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

void set_bias(cublasLtMatmulDesc_t operation, const void* bias) {
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                "describing a product");
}

// A row-major product is the column-major product of the swapped factors: out^T = op(b)^T op(a)^T.
std::shared_ptr<const Description> describe(const Problem& p) {
  auto product = std::make_shared<Description>();
  const bool tensor_cores = p.in == Element::float32 && p.precision != Precision::strict, adds = p.inputs.bias != 0,
             clips = p.activation == Activation::relu, epilogue = adds || clips;
  const cublasComputeType_t compute = p.out == Element::float64 ? CUBLAS_COMPUTE_64F
                                      : tensor_cores            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  const cudaDataType_t scale = p.out == Element::float64 ? CUDA_R_64F : CUDA_R_32F;
  check_library(cublasLtMatmulDescCreate(&operation, compute, scale), "describing a product");
  product->operation.reset(operation);
  const cublasOperation_t left = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
                "describing a product");
  check_library(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
                "describing a product");
  const cudaDataType_t in = type_of(p.in);
  product->left = matrix(in, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.batch, p.stride_b);
  product->right = matrix(in, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.batch, p.stride_a);
  product->out = matrix(type_of(p.out), p.n, p.m, p.batch, p.m * p.n, p.pitch);
  if (epilogue) {
    const cublasLtEpilogue_t of_library = !adds   ? CUBLASLT_EPILOGUE_RELU
                                          : clips ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                  : CUBLASLT_EPILOGUE_BIAS;
    check_library(
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &of_library, sizeof of_library),
        "describing a product");
    if (adds) set_bias(operation, reinterpret_cast<const void*>(std::uintptr_t{p.inputs.bias}));  // for its alignment
  }

  cublasLtMatmulPreference_t requested = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&requested), "asking cuBLASLt for algorithms");
  const Preference preference(requested);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_library(cublasLtMatmulPreferenceSetAttribute(requested, attribute, &value, sizeof value),
                  "asking cuBLASLt for algorithms");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.inputs.b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.inputs.a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.inputs.out);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.inputs.out);
  // Sums of split k through a workspace are reproducible; in-place ones depend on which block comes first.
  const std::uint32_t reductions =
      p.deterministic ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);

  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library(), operation, product->left.get(), product->right.get(), product->out.get(), product->out.get(),
      requested, requested_candidates, product->algorithms.data(), &product->count);
  if (status != CUBLAS_STATUS_SUCCESS) product->count = 0;
  if (!epilogue && bytes_of(p.in) > 2) check_library(status, "asking cuBLASLt for algorithms");
  return product;
}

std::shared_ptr<const Description> described(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] { return describe(problem); });
}

}  // namespace

int next_algorithm(const Problem& problem, int plan) { return plan + 1 < described(problem)->count ? plan + 1 : -1; }

std::size_t algorithm_workspace(const Problem& problem, int plan) {
  return described(problem)->algorithms[static_cast<std::size_t>(plan)].workspaceSize;
}

void run_algorithm(const Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace) {
  const auto product = described(problem);
  const double one = 1, zero = 0;
  const float one_float = 1, zero_float = 0;
  const bool wide = problem.out == Element::float64;
  cublasLtMatmulDescOpaque_t operation = *product->operation;
  if (problem.inputs.bias != 0) set_bias(&operation, arrays.bias);
  const auto& algorithm = product->algorithms[static_cast<std::size_t>(plan)];
  check_library(
      cublasLtMatmul(library(), &operation, wide ? static_cast<const void*>(&one) : &one_float, arrays.b,
                     product->left.get(), arrays.a, product->right.get(),
                     wide ? static_cast<const void*>(&zero) : &zero_float, arrays.out, product->out.get(), arrays.out,
                     product->out.get(), &algorithm.algo, workspace, algorithm.workspaceSize, stream_of(context)),
      "a product by cuBLASLt");
}

const Algorithm library_algorithm{.name = "library",
                                  .workspace = algorithm_workspace,
                                  .run = [](Context& context, const Problem& p, const Arrays& arrays, int plan,
                                            void* workspace) { run_algorithm(context, p, arrays, plan, workspace); },
                                  .next_plan = next_algorithm};

}  // namespace tern::cuda::products
