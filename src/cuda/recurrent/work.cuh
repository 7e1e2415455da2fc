#pragma once
// What a recurrent layer computes for one unit of one sequence in one step. A round multiplies what the round before
// it made, [N, length], by the weights; an item then has its unit's `sums` of that product. Forward, round i is the
// i-th step; backward, it is the i-th from the end, and one more round reaches the state before the first step.
//
// load(): what other kernels wrote for an item. carried(): what the item's last round left for it, from memory, where
// keep() puts it; a kernel may hold it in registers instead. finish() stores results and returns what the next round
// multiplies, `made` numbers of a unit.

#include "cuda/sigmoid.cuh"
#include "cuda/support.cuh"
#include "tern/kernels/recurrent.hpp"

namespace tern::cuda::recurrence {

struct Sizes {
  std::int64_t steps, batch, width;
  bool reverse;

  explicit Sizes(const kernels::Sequence& p) : steps(p.steps), batch(p.batch), width(p.width), reverse(p.reverse) {}
  /// The number of the i-th step in memory.
  __host__ __device__ std::int64_t time(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  /// Where an item lies in an array [steps, N, H], and the first of its `gates` in one of [steps, N, gates H].
  __device__ std::int64_t at(std::int64_t i, std::int64_t n, std::int64_t u) const {
    return (time(i) * batch + n) * width + u;
  }
  __device__ std::int64_t gates_at(int gates, std::int64_t i, std::int64_t n, std::int64_t u) const {
    return (time(i) * batch + n) * gates * width + u;
  }
};

/// What an item makes for the next round.
template <int made>
struct Made {
  float values[made];
};

template <int gates>
struct Forward {
  static constexpr int sums = gates, made = 1;
  static constexpr bool backward = false;
  Sizes p;
  float* y;
  const float *entered, *hidden, *weight, *bias;

  std::int64_t rounds() const { return p.steps; }
  std::int64_t length() const { return p.width; }
  __device__ float factor(int sum, std::int64_t u, std::int64_t k) const {
    return weight[(sum * p.width + u) * p.width + k];
  }
  /// Null: zeros.
  __host__ __device__ const float* source(std::int64_t i) const {
    return i == 0 ? hidden : y + p.time(i - 1) * p.batch * p.width;
  }
  __host__ __device__ const float* first_source() const { return hidden; }
  const float* sources() const { return y; }

 protected:
  __device__ float bias_of(int gate, std::int64_t u) const { return bias == nullptr ? 0 : bias[gate * p.width + u]; }
};

struct LstmForward : Forward<4> {
  float *last_cell, *gates, *cells;
  const float* cell;

  struct Item {
    float entered[4];
  };
  __device__ Item load(std::int64_t i, std::int64_t n, std::int64_t u) const {
    Item item;
    const std::int64_t first = p.gates_at(4, i, n, u);
    for (int g = 0; g < 4; ++g) item.entered[g] = entered[first + g * p.width] + bias_of(g, u);
    return item;
  }
  __device__ float carried(std::int64_t i, std::int64_t n, std::int64_t u) const {
    return i > 0 ? last_cell[n * p.width + u] : cell == nullptr ? 0 : cell[n * p.width + u];
  }
  __device__ void keep(std::int64_t n, std::int64_t u, float carry) const { last_cell[n * p.width + u] = carry; }
  __device__ Made<1> finish(std::int64_t i, std::int64_t n, std::int64_t u, const Item& item, float& carry,
                            const float (&sums)[4]) const {
    const float in = sigmoid_of(item.entered[0] + sums[0]), kept = sigmoid_of(item.entered[1] + sums[1]);
    const float candidate = ::tanhf(item.entered[2] + sums[2]), out = sigmoid_of(item.entered[3] + sums[3]);
    carry = kept * carry + in * candidate;
    const std::int64_t at = p.at(i, n, u);
    const float state = out * ::tanhf(carry);
    y[at] = state;
    if (gates == nullptr) return {state};
    cells[at] = carry;
    float* const to = gates + p.gates_at(4, i, n, u);
    to[0] = in;
    to[p.width] = kept;
    to[2 * p.width] = candidate;
    to[3 * p.width] = out;
    return {state};
  }
};

struct GruForward : Forward<3> {
  float* gates;

  struct Item {
    float entered[3], bias;
  };
  __device__ Item load(std::int64_t i, std::int64_t n, std::int64_t u) const {
    Item item;
    const std::int64_t first = p.gates_at(3, i, n, u);
    for (int g = 0; g < 3; ++g) item.entered[g] = entered[first + g * p.width] + (g < 2 ? bias_of(g, u) : 0);
    item.bias = bias_of(2, u);
    return item;
  }
  /// The state itself, which is in memory anyway.
  __device__ float carried(std::int64_t i, std::int64_t n, std::int64_t u) const {
    return source(i) == nullptr ? 0 : source(i)[n * p.width + u];
  }
  __device__ void keep(std::int64_t, std::int64_t, float) const {}
  __device__ Made<1> finish(std::int64_t i, std::int64_t n, std::int64_t u, const Item& item, float& carry,
                            const float (&sums)[3]) const {
    const float reset = sigmoid_of(item.entered[0] + sums[0]), update = sigmoid_of(item.entered[1] + sums[1]);
    const float own = item.bias + sums[2], candidate = ::tanhf(item.entered[2] + reset * own);
    carry = candidate + update * (carry - candidate);
    y[p.at(i, n, u)] = carry;
    if (gates == nullptr) return {carry};
    float* const to = gates + p.gates_at(4, i, n, u);
    to[0] = reset;
    to[p.width] = update;
    to[2 * p.width] = candidate;
    to[3 * p.width] = own;
    return {carry};
  }
};

template <int gates_>
struct Backward {
  static constexpr int sums = 1, made = gates_;
  static constexpr bool backward = true;
  Sizes p;
  float* grad_sums;  ///< [T, N, gates H], of the products
  float* grad_hidden;
  const float *grad_y, *gates, *weight;

  std::int64_t rounds() const { return p.steps + 1; }
  std::int64_t length() const { return gates_ * p.width; }
  __device__ float factor(int, std::int64_t u, std::int64_t k) const { return weight[k * p.width + u]; }
  __host__ __device__ const float* source(std::int64_t round) const {
    return round == 0 ? nullptr : grad_sums + p.time(p.steps - round) * p.batch * gates_ * p.width;
  }
  __host__ __device__ const float* first_source() const { return nullptr; }
  const float* sources() const { return grad_sums; }

 protected:
  /// The step of a round; -1: what is before the first.
  __device__ std::int64_t step_of(std::int64_t round) const { return p.steps - 1 - round; }
};

struct LstmBackward : Backward<4> {
  float* grad_cell;  ///< on the way, what reaches the cell before the steps done so far
  const float *grad_last_cell, *cells, *cell;

  struct Item {
    float gates[4], now, before, grad;
  };
  __device__ Item load(std::int64_t round, std::int64_t n, std::int64_t u) const {
    Item item{};
    const std::int64_t i = step_of(round), state = n * p.width + u;
    if (i < 0) return item;
    const std::int64_t first = p.gates_at(4, i, n, u);
    for (int g = 0; g < 4; ++g) item.gates[g] = gates[first + g * p.width];
    item.now = cells[p.at(i, n, u)];
    item.before = i > 0 ? cells[p.at(i - 1, n, u)] : cell == nullptr ? 0 : cell[state];
    item.grad = grad_y[p.at(i, n, u)];
    return item;
  }
  __device__ float carried(std::int64_t round, std::int64_t n, std::int64_t u) const {
    const std::int64_t state = n * p.width + u;
    return round > 0 ? grad_cell[state] : grad_last_cell == nullptr ? 0 : grad_last_cell[state];
  }
  __device__ void keep(std::int64_t n, std::int64_t u, float carry) const { grad_cell[n * p.width + u] = carry; }
  __device__ Made<4> finish(std::int64_t round, std::int64_t n, std::int64_t u, const Item& item, float& carry,
                            const float (&sums)[1]) const {
    const std::int64_t i = step_of(round);
    if (i < 0) {
      grad_hidden[n * p.width + u] = sums[0];
      return {};
    }
    const float in = item.gates[0], kept = item.gates[1], candidate = item.gates[2], out = item.gates[3];
    const float grad = item.grad + sums[0], shown = ::tanhf(item.now);
    carry += grad * out * (1 - shown * shown);
    const Made<4> made{{carry * candidate * in * (1 - in), carry * item.before * kept * (1 - kept),
                        carry * in * (1 - candidate * candidate), grad * shown * out * (1 - out)}};
    float* const to = grad_sums + p.gates_at(4, i, n, u);
    for (int g = 0; g < 4; ++g) to[g * p.width] = made.values[g];
    carry *= kept;
    return made;
  }
};

struct GruBackward : Backward<3> {
  float* grad_entered;
  const float *y, *hidden;

  struct Item {
    float gates[4], before, grad;
  };
  __device__ Item load(std::int64_t round, std::int64_t n, std::int64_t u) const {
    Item item{};
    const std::int64_t i = step_of(round), state = n * p.width + u;
    if (i < 0) return item;
    const std::int64_t first = p.gates_at(4, i, n, u);
    for (int g = 0; g < 4; ++g) item.gates[g] = gates[first + g * p.width];
    item.before = i > 0 ? y[p.at(i - 1, n, u)] : hidden == nullptr ? 0 : hidden[state];
    item.grad = grad_y[p.at(i, n, u)];
    return item;
  }
  /// What reaches the state before the steps done so far without a product.
  __device__ float carried(std::int64_t round, std::int64_t n, std::int64_t u) const {
    return round > 0 ? grad_hidden[n * p.width + u] : 0;
  }
  __device__ void keep(std::int64_t n, std::int64_t u, float carry) const { grad_hidden[n * p.width + u] = carry; }
  __device__ Made<3> finish(std::int64_t round, std::int64_t n, std::int64_t u, const Item& item, float& carry,
                            const float (&sums)[1]) const {
    const std::int64_t i = step_of(round);
    const float grad = carry + item.grad + sums[0];
    if (i < 0) {
      carry = grad;
      return {};
    }
    const float reset = item.gates[0], update = item.gates[1], candidate = item.gates[2], own = item.gates[3];
    const float to_candidate = grad * (1 - update) * (1 - candidate * candidate);
    const float to_reset = to_candidate * own * reset * (1 - reset);
    const float to_update = grad * (item.before - candidate) * update * (1 - update);
    const std::int64_t first = p.gates_at(3, i, n, u);
    grad_entered[first] = grad_sums[first] = to_reset;
    grad_entered[first + p.width] = grad_sums[first + p.width] = to_update;
    grad_entered[first + 2 * p.width] = to_candidate;
    grad_sums[first + 2 * p.width] = to_candidate * reset;
    carry = grad * update;
    return {{to_reset, to_update, to_candidate * reset}};
  }
};

}  // namespace tern::cuda::recurrence
