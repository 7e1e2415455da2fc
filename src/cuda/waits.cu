#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <utility>

#include "cuda/waits.cuh"

namespace tern::cuda {
namespace {

/// What would come before the stream's next work in the graph. Empty if the stream does not record yet.
std::vector<cudaGraphNode_t> last_work(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count), "reading a recording");
  if (status != cudaStreamCaptureStatusActive) return {};
  return {nodes, nodes + count};
}

/// A graph's dependencies, by the numbers of its nodes.
class Order {
 public:
  explicit Order(cudaGraph_t graph) : graph_(graph) {
    std::size_t count = 0;
    check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), reading);
    std::vector<cudaGraphNode_t> from(count), to(count);
    std::vector<cudaGraphEdgeData> edges(count);
    check(cudaGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count), reading);
    for (std::size_t i = 0; i < count; ++i) {
      const int before = number_of(from[i]), node = number_of(to[i]);
      next_[static_cast<std::size_t>(before)].push_back({node, edges[i]});
    }
  }

  int number_of(cudaGraphNode_t node) {
    const auto [found, added] = numbers_.try_emplace(node, static_cast<int>(nodes_.size()));
    if (added) nodes_.push_back(node), next_.emplace_back();
    return found->second;
  }
  bool follows_at_once(int node, int before) const {
    return std::ranges::any_of(next_[static_cast<std::size_t>(before)],
                               [&](const Next& next) { return next.node == node; });
  }
  /// The one node that comes directly after `other` and one of `own`; -1 if there is none, or several.
  int after(int other, const std::vector<int>& own) const {
    int found = -1;
    for (const Next& next : next_[static_cast<std::size_t>(other)]) {
      if (!std::ranges::any_of(own, [&](int before) { return follows_at_once(next.node, before); })) continue;
      if (found >= 0) return -1;
      found = next.node;
    }
    return found;
  }
  /// Whether `node` is `before` or comes after it.
  bool follows(int node, int before) const {
    std::vector<bool> seen(nodes_.size());
    std::vector<int> open{before};
    seen[static_cast<std::size_t>(before)] = true;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at == node) return true;
      for (const Next& next : next_[static_cast<std::size_t>(at)])
        if (!seen[static_cast<std::size_t>(next.node)])
          seen[static_cast<std::size_t>(next.node)] = true, open.push_back(next.node);
    }
    return false;
  }
  void add(int before, int node) {
    if (follows_at_once(node, before)) return;
    const cudaGraphEdgeData whole{};
    change(cudaGraphAddDependencies, before, node, whole);
    next_[static_cast<std::size_t>(before)].push_back({node, whole});
  }
  void remove(int before, int node) {
    std::vector<Next>& all = next_[static_cast<std::size_t>(before)];
    const auto found = std::ranges::find_if(all, [&](const Next& next) { return next.node == node; });
    if (found == all.end()) return;  // two waits in a row
    change(cudaGraphRemoveDependencies, before, node, found->edge);
    all.erase(found);
  }

 private:
  static constexpr const char* reading = "reading a recording";
  struct Next {
    int node;
    cudaGraphEdgeData edge;
  };

  template <class Change>
  void change(Change call, int before, int node, const cudaGraphEdgeData& edge) {
    check(call(graph_, &nodes_[static_cast<std::size_t>(before)], &nodes_[static_cast<std::size_t>(node)], &edge, 1),
          "ordering a recording");
  }

  cudaGraph_t graph_;
  std::unordered_map<cudaGraphNode_t, int> numbers_;
  std::vector<cudaGraphNode_t> nodes_;
  std::vector<std::vector<Next>> next_;
};

/// A dependency: `node`, of the stream that waited, on `other`.
struct Dependency {
  int other, node;
};

/// Whether one dependency, of the first node on the last `other`, implies all of them without a circle.
bool join(const Order& order, const Dependency* first, const Dependency* last) {
  return !order.follows(last->other, first->node) &&
         std::all_of(first, last, [&](const Dependency& one) { return order.follows(last->other, one.other); }) &&
         std::all_of(first + 1, last + 1, [&](const Dependency& one) { return order.follows(one.node, first->node); });
}

}  // namespace

void wait_for(cudaStream_t stream, cudaStream_t other, cudaEvent_t event, Waits* waits) {
  Wait wait;
  if (waits != nullptr) wait = {last_work(stream), last_work(other)};
  check(cudaEventRecord(event, other), "recording an event");
  check(cudaStreamWaitEvent(stream, event), "ordering two streams");
  if (!wait.own.empty() && wait.other.size() == 1) waits->push_back(std::move(wait));
}

void join_waits(cudaGraph_t graph, const Waits& waits, int most) {
  if (waits.size() < 2) return;
  Order order(graph);
  std::vector<Dependency> all;
  for (const Wait& wait : waits) {
    const int other = order.number_of(wait.other.front());
    std::vector<int> own;
    for (const cudaGraphNode_t node : wait.own) own.push_back(order.number_of(node));
    if (const int node = order.after(other, own); node >= 0) all.push_back({other, node});
  }
  for (std::size_t begin = 0, wanted = 1; begin < all.size();) {
    const Dependency* const first = all.data() + begin;
    std::size_t count = std::min(wanted, (all.size() - begin + 1) / 2);
    while (count > 1 && !join(order, first, first + count - 1)) --count;
    const Dependency joined{first[count - 1].other, first->node};
    for (std::size_t i = 0; i < count; ++i)
      if (first[i].other != joined.other || first[i].node != joined.node) order.remove(first[i].other, first[i].node);
    order.add(joined.other, joined.node);
    begin += count;
    wanted = std::min(2 * wanted, static_cast<std::size_t>(most));
  }
}

namespace {
bool is_kernel(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
}
bool overlaps(cudaGraphNode_t node) {
  cudaLaunchAttributeValue value{};
  const bool read =
      cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeProgrammaticStreamSerialization, &value) == cudaSuccess;
  cudaGetLastError();
  return read && value.programmaticStreamSerializationAllowed != 0;
}
struct Edges {
  std::vector<cudaGraphNode_t> from, to;
  std::vector<cudaGraphEdgeData> data;
  explicit Edges(cudaGraph_t graph) {
    std::size_t count = 0;
    cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
    from.resize(count), to.resize(count), data.resize(count);
    cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count);
  }
};
}  // namespace

void print_order(cudaGraph_t graph, const char* when) {
  if (std::getenv("TERN_PRINT_ORDER") == nullptr) return;
  std::size_t count = 0;
  cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  cudaGraphGetNodes(graph, nodes.data(), &count);
  const Edges edges(graph);
  std::map<cudaGraphNode_t, int> before, after;
  std::map<cudaGraphNode_t, bool> programmatic;
  int of_type[2] = {}, joins = 0, forks = 0, kernels = 0, marked = 0, single_whole = 0, joins_programmatic = 0;
  for (std::size_t i = 0; i < edges.from.size(); ++i) {
    ++before[edges.to[i]], ++after[edges.from[i]];
    const bool early = edges.data[i].type == cudaGraphDependencyTypeProgrammatic;
    ++of_type[early ? 1 : 0];
    if (early) programmatic[edges.to[i]] = true;
  }
  for (const cudaGraphNode_t node : nodes) {
    joins += before[node] > 1, forks += after[node] > 1;
    joins_programmatic += before[node] > 1 && programmatic[node];
    if (!is_kernel(node)) continue;
    ++kernels;
    if (!overlaps(node)) continue;
    ++marked;
    single_whole += before[node] == 1 && !programmatic[node];
  }
  std::fprintf(stderr,
               "order %s: nodes %zu kernels %d with attribute %d; edges whole %d programmatic %d; nodes of several "
               "dependencies %d (some programmatic %d), with several dependents %d; single whole with attribute %d\n",
               when, count, kernels, marked, of_type[0], of_type[1], joins, joins_programmatic, forks, single_whole);
}

void overlap_single(cudaGraph_t graph) {
  const Edges edges(graph);
  std::map<cudaGraphNode_t, int> before;
  for (const cudaGraphNode_t node : edges.to) ++before[node];
  int changed = 0, failed = 0;
  for (std::size_t i = 0; i < edges.from.size(); ++i) {
    const cudaGraphNode_t from = edges.from[i], to = edges.to[i];
    if (before[to] != 1 || edges.data[i].type == cudaGraphDependencyTypeProgrammatic || !is_kernel(from) ||
        !is_kernel(to) || !overlaps(to))
      continue;
    cudaGraphEdgeData early{};
    early.from_port = cudaGraphKernelNodePortProgrammatic;
    early.type = cudaGraphDependencyTypeProgrammatic;
    check(cudaGraphRemoveDependencies(graph, &from, &to, &edges.data[i], 1), "ordering a recording");
    if (cudaGraphAddDependencies(graph, &from, &to, &early, 1) == cudaSuccess) {
      ++changed;
      continue;
    }
    cudaGetLastError();
    ++failed;
    check(cudaGraphAddDependencies(graph, &from, &to, &edges.data[i], 1), "ordering a recording");
  }
  if (std::getenv("TERN_PRINT_ORDER") != nullptr)
    std::fprintf(stderr, "overlap: %d changed, %d failed\n", changed, failed);
}

}  // namespace tern::cuda
