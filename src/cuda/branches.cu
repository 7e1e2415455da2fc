// A launch by launch_shared() waits until the branches join. Equal launches of several branches then become one, whose
// grid counts the branches along z. Their arguments are in card memory, written once when the recording ends; a block
// copies its branch's arguments into shared memory while the previous kernel still runs. Anything else that a branch
// queues (a copy, a library call) first launches what waits; from there on that branch runs separately.
#include <algorithm>
#include <exception>

#include "cuda/aside.cuh"
#include "cuda/branches.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {
namespace {

thread_local Stream* branching = nullptr;  // has branches, and the thread queues on the last of them

cudaStream_t side_of(const Stream& stream, std::size_t branch) { return stream.sides[branch % Stream::most_sides]; }

bool same(const dim3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }
bool alike(const Waiting& a, const Waiting& b) {
  return a.kernel == b.kernel && same(a.grid.blocks, b.grid.blocks) && same(a.grid.threads, b.grid.threads) &&
         a.grid.shared == b.grid.shared && a.grid.cluster == b.grid.cluster;
}
bool alike(const Branch& a, const Branch& b) {
  return std::ranges::equal(a.waiting, b.waiting, [](const Waiting& x, const Waiting& y) { return alike(x, y); });
}

/// Queues the branch's waiting launch separately.
void launch_alone(cudaStream_t queue, Branch& branch) {
  for (const Waiting& waiting : branch.waiting) waiting.launch(queue, waiting, nullptr, 1);
  branch.waiting.clear();
}

/// Queues the waiting launch of the first of these branches together with the equal ones of the others. The arguments
/// reach the card when the recording ends.
void launch_together(Stream& stream, cudaStream_t queue, const std::vector<Branch*>& branches) {
  const std::vector<Waiting>& first = branches.front()->waiting;
  std::vector<std::byte> bytes;
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < first.size(); ++i) {
    begins.push_back(bytes.size());
    for (const Branch* const branch : branches)
      bytes.insert(bytes.end(), branch->waiting[i].arguments.begin(), branch->waiting[i].arguments.end());
  }
  const std::byte* const on_card = keep_on_card(stream, std::move(bytes));
  for (std::size_t i = 0; i < first.size(); ++i) first[i].launch(queue, first[i], on_card + begins[i], branches.size());
  for (Branch* const branch : branches) branch->waiting.clear();
}

/// Launches what waits in any branch, with its equals, on the side stream of the first of them.
void launch_all_waiting(Stream& stream) {
  for (std::size_t first = 0; first < stream.branches.size(); ++first) {
    Branch& branch = stream.branches[first];
    if (branch.waiting.empty()) continue;
    std::vector<Branch*> together{&branch};
    for (std::size_t other = first + 1; other < stream.branches.size(); ++other)
      if (alike(branch, stream.branches[other])) together.push_back(&stream.branches[other]);
    const cudaStream_t side = side_of(stream, first);
    together.size() == 1 ? launch_alone(side, branch) : launch_together(stream, side, together);
  }
}

}  // namespace

cudaStream_t queue_of(void* stream) {
  if (branching == nullptr || branching->handle != stream) [[likely]] {
    const cudaStream_t aside = all_aside(stream);
    return aside != nullptr ? aside : static_cast<cudaStream_t>(stream);
  }
  // The caller queues something that cannot wait: it comes after what waits.
  Branch& branch = branching->branches.back();
  const cudaStream_t side = side_of(*branching, branching->branches.size() - 1);
  branch.waits = false;
  launch_alone(side, branch);
  return side;
}

cudaStream_t stream_of(const Context& context) { return queue_of(context.stream); }

bool may_wait(const Context& context) {
  return branching != nullptr && branching->handle == context.stream && branching->branches.back().waits;
}

void keep_waiting(Waiting waiting) { branching->branches.back().waiting.push_back(std::move(waiting)); }

bool may_fork(const Context& context) {
  return branching == nullptr && all_aside(context.stream) == nullptr && recording(context);
}

cudaStream_t fork(const Context& context) {
  Stream& stream = stream_state(context.stream);
  check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
  check(cudaStreamWaitEvent(stream.sides[0], stream.forked), "ordering two streams");
  return stream.sides[0];
}

void join(const Context& context) {
  Stream& stream = stream_state(context.stream);
  check(cudaEventRecord(stream.joined[0], stream.sides[0]), "recording an event");
  check(cudaStreamWaitEvent(stream.handle, stream.joined[0]), "ordering two streams");
}

void next_branch(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  if (branching == nullptr) {
    check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
    branching = &stream;
    stream.branching = true;
  }
  const std::size_t before = stream.branches.size();
  stream.branches.emplace_back();
  if (before < Stream::most_sides)
    check(cudaStreamWaitEvent(stream.sides[before], stream.forked), "ordering two streams");
}

void join_branches(void* stream_handle) noexcept {
  if (branching == nullptr) return;
  Stream& stream = *branching;
  branching = nullptr;
  try {
    use_card(stream.device);  // a branch may have worked on another card
    launch_all_waiting(stream);
  } catch (...) {
    if (Recording* const recording = stream.recording.load()) recording->failure = std::current_exception();
  }
  const std::size_t used = std::min<std::size_t>(stream.branches.size(), Stream::most_sides);
  for (std::size_t i = 0; i < used; ++i) {
    // A failure leaves a branch without an end, which the end of the recording reports.
    cudaEventRecord(stream.joined[i], stream.sides[i]);
    cudaStreamWaitEvent(static_cast<cudaStream_t>(stream_handle), stream.joined[i]);
  }
  stream.branches.clear();
  stream.branching = false;
  reuse_released(stream);
}

}  // namespace tern::cuda
