// LSTM and GRU over whole sequences: one kernel that keeps the weights, whose blocks may share sums in clusters or be
// one cluster, or a product and a kernel for each step.

#include <array>
#include <mutex>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/recurrent/one_cluster.cuh"
#include "cuda/recurrent/persistent.cuh"

namespace tern::cuda::recurrence {
namespace {

using kernels::Sequence;

struct Problem : Sequence {
  int gates = 0;
  bool backward = false, aligned = false;  ///< every row of the states starts at 16 bytes
  Precision precision = Precision::strict;
  bool deterministic = true;
  int device = 0;
  auto operator<=>(const Problem&) const = default;
};

std::string text_of(const Problem& p) {
  return message(p.gates == 4 ? "lstm" : "gru", p.backward ? " backward, " : ", ", p.steps, " steps of ", p.batch,
                 " with ", p.width, " units, ", name_of(p.precision), p.deterministic ? ", deterministic" : "");
}

// ---- a step at a time ----

template <class Work>
__global__ void step_kernel(Work work, std::int64_t round, const float* products) {
  begin_kernel();
  const std::int64_t width = work.p.width, count = work.p.batch * width;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += stride) {
    const std::int64_t n = at / width, u = at % width;
    float sums[Work::sums] = {};
    if (products != nullptr)
      for (int s = 0; s < Work::sums; ++s) sums[s] = products[(n * Work::sums + s) * width + u];
    float carry = work.carried(round, n, u);
    work.finish(round, n, u, work.load(round, n, u), carry, sums);
    work.keep(n, u, carry);
  }
}

template <class Work>
void run_steps(Context& context, const Problem& p, const Work& work, int, void* workspace) {
  static const kernels::Dot<float> dot = cuda::dot<float>();
  auto* const products = static_cast<float*>(workspace);
  for (std::int64_t round = 0; round < work.rounds(); ++round) {
    const float* const source = work.source(round);
    if (source != nullptr && Work::backward)
      dot.matmul(context, products, source, work.weight, {.m = p.batch, .n = p.width, .k = work.length()});
    else if (source != nullptr)
      dot.linear(context, products, source, work.weight, nullptr,
                 {.rows = p.batch, .in = p.width, .out = Work::sums * p.width});
    launch(context, Grid(blocks_for(p.batch * p.width, 128), 128), step_kernel<Work>, work, round,
           source == nullptr ? nullptr : products);
  }
}

/// Microseconds of a round, fitted to 60 forward passes on an H200: two short kernels, the product, its weights and the
/// states.
double cost_of_steps(const Problem& p) {
  const double rate = p.precision == Precision::strict ? 2.2e7 : 3.7e7;  // multiply-adds
  const auto states = static_cast<double>(p.batch * p.width),
             weights = static_cast<double>(p.width * p.width * p.gates);
  return 2.8 + static_cast<double>(p.batch) * weights / rate + weights / 1.4e6 + states / 2e4;
}

// ---- all steps at once ----

/// Of the current card.
const Room& room_of(int device) {
  static std::array<std::once_flag, most_cards> read;
  static std::array<Room, most_cards> rooms;
  const auto at = static_cast<std::size_t>(device);
  std::call_once(read[at], [&] { rooms[at] = room_of_card(); });
  return rooms[at];
}

Layer layer_of(const Problem& p) {
  return {.batch = p.batch,
          .width = p.width,
          .length = p.backward ? p.gates * p.width : p.width,
          .sums = p.backward ? 1 : p.gates,
          .made = p.backward ? p.gates : 1};
}

Plan plan_for(const Problem& p, bool clusters) {
  return plan_of(layer_of(p), clusters, p.precision != Precision::strict, room_of(p.device));
}

ClusterPlan cluster_plan_for(const Problem& p) { return cluster_plan_of(layer_of(p), room_of(p.device)); }

template <bool clusters>
bool fits_persistent(const Problem& p) {
  const Card& used = card(p.device);
  return (clusters ? used.overlap : used.code >= 80) && p.steps < (std::int64_t{1} << 30) &&
         plan_for(p, clusters).fits();
}

template <template <int> class Product, class Work>
auto launcher_of(int vectors) {
  return vectors == 1   ? launch_persistent<Product<1>, Work>
         : vectors == 2 ? launch_persistent<Product<2>, Work>
                        : launch_persistent<Product<4>, Work>;
}

template <class Work, bool clusters>
void run_persistent(Context& context, const Problem& p, const Work& work, int, void* workspace) {
  const Plan plan = plan_for(p, clusters);
  const auto launch_it =
      plan.tensor ? launcher_of<TensorTiles, Work>(plan.vectors) : launcher_of<Scalars, Work>(plan.vectors);
  launch_it(context, work, plan, p.aligned, static_cast<int*>(workspace));
}

bool fits_one_cluster(const Problem& p) {
  return p.steps < (1 << 30) && p.batch < (1 << 30) && cluster_plan_for(p).fits();
}

template <class Work>
void run_one_cluster(Context& context, const Problem& p, const Work& work, int, void*) {
  launch_one_cluster(context, work, cluster_plan_for(p));
}

// ---- the choice ----

template <class Work, bool clusters>
const Algorithm<Problem, Work> persistent{
    .name = clusters ? "clustered" : "persistent",
    .fits = fits_persistent<clusters>,
    .workspace = [](const Problem& p, int) { return static_cast<std::size_t>(card(p.device).multiprocessors) * 4; },
    .run = run_persistent<Work, clusters>,
    .cost = [](const Problem& p) { return plan_for(p, clusters).cost; }};
template <class Work>
const Algorithm<Problem, Work> one_cluster{
    .name = "one_cluster", .fits = fits_one_cluster, .run = run_one_cluster<Work>, .cost = [](const Problem& p) {
      return cluster_plan_for(p).cost;
    }};
template <class Work>
const Algorithm<Problem, Work> steps{
    .name = "steps",
    .workspace = [](const Problem& p,
                    int) { return static_cast<std::size_t>(p.batch * p.width * Work::sums) * sizeof(float); },
    .run = run_steps<Work>,
    .cost = cost_of_steps};

template <class Work>
void run(Context& context, const Work& work, int gates, const Sequence& sizes) {
  static const std::array algorithms{&one_cluster<Work>, &persistent<Work, false>, &persistent<Work, true>,
                                     &steps<Work>};
  Problem problem{sizes};
  problem.gates = gates;
  problem.backward = Work::backward;
  problem.aligned = work.length() % 4 == 0 && aligned<4>(work.first_source()) && aligned<4>(work.sources());
  problem.precision = context.precision;
  problem.deterministic = context.deterministic;
  problem.device = card().device;
  Prepared<Problem, Work>(context, Work::backward ? "recurrent_backward" : "recurrent", algorithms, problem, work)
      .run(context);
}

// ---- the slots ----

void lstm(Context& context, float* y, float* last_cell, float* gates, float* cells, const float* entered,
          const float* hidden, const float* cell, const float* weight, const float* bias, const Sequence& p) {
  const LstmForward work{{Sizes(p), y, entered, hidden, weight, bias}, last_cell, gates, cells, cell};
  run(context, work, 4, p);
}

void lstm_backward(Context& context, float* grad_entered, float* grad_hidden, float* grad_cell, const float* grad_y,
                   const float* grad_last_cell, const float* gates, const float* cells, const float* cell,
                   const float* weight, const Sequence& p) {
  const LstmBackward work{
      {Sizes(p), grad_entered, grad_hidden, grad_y, gates, weight}, grad_cell, grad_last_cell, cells, cell};
  run(context, work, 4, p);
}

void gru(Context& context, float* y, float* gates, const float* entered, const float* hidden, const float* weight,
         const float* bias, const Sequence& p) {
  run(context, GruForward{{Sizes(p), y, entered, hidden, weight, bias}, gates}, 3, p);
}

void gru_backward(Context& context, float* grad_entered, float* grad_sums, float* grad_hidden, const float* grad_y,
                  const float* gates, const float* y, const float* hidden, const float* weight, const Sequence& p) {
  const GruBackward work{{Sizes(p), grad_sums, grad_hidden, grad_y, gates, weight}, grad_entered, y, hidden};
  run(context, work, 3, p);
}

}  // namespace
}  // namespace tern::cuda::recurrence

namespace tern::cuda {

kernels::Recurrent recurrent() {
  using namespace recurrence;
  return {.lstm = lstm, .lstm_backward = lstm_backward, .gru = gru, .gru_backward = gru_backward};
}

}  // namespace tern::cuda
