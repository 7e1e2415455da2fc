#include <utility>

#include "cuda/branches.cuh"
#include "cuda/chains.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {

thread_local bool chained = false;

namespace {

struct Pending {
  Context context;
  Chain::Launch launch = nullptr;
  std::vector<std::byte> table;
  int links = 0, waits = 0;
  std::vector<Touched> read, written;  // since the last wait
  std::function<void()> alone;
};
thread_local Pending pending;

bool overlap(const Touched& a, const Touched& b) {
  if (a.begin == nullptr || b.begin == nullptr) return false;
  const auto place = [](const Touched& t) {
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(t.begin));
  };
  const auto end = [&](const Touched& t) { return place(t) + (t.lines - 1) * t.pitch + t.line; };
  if (end(a) <= place(b) || end(b) <= place(a)) return false;
  if (a.pitch != b.pitch) return true;
  // Parts of the same lines, such as channels of a concatenation.
  const std::int64_t shift = ((place(b) - place(a)) % a.pitch + a.pitch) % a.pitch;
  return shift < a.line || shift + b.line > a.pitch;
}
bool overlap(const std::vector<Touched>& some, const Touched& one) {
  for (const Touched& each : some)
    if (overlap(each, one)) return true;
  return false;
}

}  // namespace

bool chains(const Context& context) { return card().overlap && recording(context) && may_fork(context); }

bool next_link(const Context& context, Chain::Launch launch, const std::vector<Touched>& reads, const Touched& writes) {
  if (chained && (pending.launch != launch || pending.context.stream != context.stream))
    end_chain(pending.context.stream);
  if (!chained) {
    pending.context = context, pending.launch = launch;
    pending.table.assign(Chain::counter_bytes, std::byte{});
    chained = true;
  }
  bool waits = overlap(pending.written, writes) || overlap(pending.read, writes);
  for (const Touched& each : reads) waits |= overlap(pending.written, each);
  if (waits) pending.read.clear(), pending.written.clear(), ++pending.waits;
  pending.read.insert(pending.read.end(), reads.begin(), reads.end());
  pending.written.push_back(writes);
  return waits;
}

void add_link(const std::byte* link, std::size_t bytes, std::function<void()> alone) {
  pending.table.insert(pending.table.end(), link, link + bytes);
  if (++pending.links == 1) pending.alone = std::move(alone);
}

void end_chain(void* stream) {
  if (!chained || pending.context.stream != stream) return;
  const Pending ended = std::exchange(pending, {});
  chained = false;
  if (ended.links == 1) return ended.alone();
  const std::byte* const table = keep_on_card(stream_state(stream), ended.table);
  ended.launch(ended.context, const_cast<std::byte*>(table), ended.links, ended.waits);
}

void drop_chain() noexcept {
  pending = {};
  chained = false;
}

void launch_link(Context& context, Chain::Launch launch, const std::byte* link, std::size_t bytes) {
  std::vector<std::byte> table(Chain::counter_bytes, std::byte{});
  table.insert(table.end(), link, link + bytes);
  if (recording(context))
    return launch(context, const_cast<std::byte*>(keep_on_card(stream_state(context.stream), std::move(table))), 1, 0);
  const Scratch on_card(context, table.size());
  context.memory->copy_in(on_card.as<void>(), table.data(), table.size(), context.stream);
  launch(context, on_card.as<std::byte>(), 1, 0);
}

}  // namespace tern::cuda
