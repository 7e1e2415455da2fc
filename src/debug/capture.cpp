#include "debug/capture.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "debug/card.hpp"

namespace tern::debug {

namespace {

bool writes_from(const Recording::Pieces& branch, const Use& use) {
  for (const auto& work : branch)
    for (const Use& each : work->uses)
      if (each.writes && each.start == use.start) return true;
  return false;
}

// Whether one branch may see what another one does. Two that write one block at different places write parts of it, and
// each may read its own.
bool may_conflict(const Recording::Pieces& branch, const Use& use, const Use& other) {
  if (use.block != other.block || !(use.writes || other.writes)) return false;
  if (use.start == other.start) return true;
  return !use.writes && !writes_from(branch, use);
}

void check_beside(Card& card, const Recording::Pieces& aside, const Work& work) {
  for (const auto& other : aside)
    for (const Use& beside : other->uses)
      for (const Use& use : work.uses)
        if (may_conflict(aside, beside, use))
          return card.report(message(work.name, use.writes ? " writes " : " reads ", use.block->description(),
                                     " in a step, and ", other->name, beside.writes ? " writes" : " reads",
                                     " it aside, which it does not await"));
}

}  // namespace

void Recording::add(Card& card, std::shared_ptr<const Work> work) {
  if (goes_aside) return aside.push_back(std::move(work));
  check_beside(card, aside, *work);
  sections.back().back().push_back(std::move(work));
}

void Recording::add_release(std::shared_ptr<const Work> work) {
  (aside.empty() ? sections.back().back() : aside).push_back(std::move(work));
}

namespace {

void begin(void* handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = Card::state(handle);
  expects(stream.recording == nullptr, "debug: this thread is already recording a step; steps do not nest");
  stream.recording = new Recording;
}

void destroy_locked(Recording* recording) noexcept {
  for (Stream* const stream : recording->launched_on) stream->card->settle(*stream);
  Card::disband(recording);
  delete recording;
}

void destroy(void* handle) {
  const std::lock_guard lock(device_mutex());
  destroy_locked(static_cast<Recording*>(handle));
}

void abandon(void* handle) {
  const std::lock_guard lock(device_mutex());
  if (Recording* const recording = std::exchange(Card::state(handle).recording, nullptr)) destroy_locked(recording);
}

void* end(void* handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = Card::state(handle);
  expects(stream.recording != nullptr, "debug: this thread is not recording a step");
  return std::exchange(stream.recording, nullptr);
}

// The pieces of branches in any order that keeps each branch's own.
Recording::Pieces mixed(Card& card, const Recording::Section& branches) {
  Recording::Pieces order;
  std::vector<std::size_t> next(branches.size());
  for (;;) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < branches.size(); ++i)
      if (next[i] < branches[i].size()) open.push_back(i);
    if (open.empty()) return order;
    const std::size_t chosen = open[card.choose(open.size())];
    order.push_back(branches[chosen][next[chosen]++]);
  }
}

void launch(void* handle, void* stream_handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = Card::state(stream_handle);
  expects(stream.recording == nullptr, "debug: a launch cannot be part of a recorded step");
  Card& card = *stream.card;
  auto& recording = *static_cast<Recording*>(handle);
  const auto for_each_use = [&](auto visit) {
    for (const auto& section : recording.sections)
      for (const auto& pieces : section)
        for (const auto& work : pieces)
          for (const Use& use : work->uses) visit(*work, use);
  };
  for_each_use([&](const Work& work, const Use& use) {
    card.check_live(work.name, use, &recording);
    card.check_order(stream, work.name, use);
  });
  recording.launched_on.insert(&stream);
  for (const auto& section : recording.sections)
    for (const auto& work : mixed(card, section)) card.push(stream, work);
  for_each_use([&](const Work& work, const Use& use) { Card::note_access(stream, work.name, use); });
}

// Separate work after each step.
void count_on(Stream& stream, const Capture::Loop::Counter& counter) {
  constexpr const char* name = "the counter of a loop";
  const auto run = [increment = counter.increment](const Work& work, Stream&) {
    const Use& use = work.uses[0];
    use.block->protect(Protection::writing);
    for (int view = 0; view < Arena::views; ++view) {
      std::uint64_t value = 0;
      std::memcpy(&value, in_view(use.start, view), sizeof value);
      value += increment;
      std::memcpy(in_view(use.start, view), &value, sizeof value);
    }
    use.block->protect(Protection::closed);
  };
  const std::lock_guard lock(device_mutex());
  Use use = stream.card->use(name, 0, counter.value, true);
  stream.card->submit(stream, std::make_shared<Work>(Work{name, {std::move(use)}, run}));
}

Stream& state_of(void* stream_handle) {
  const std::lock_guard lock(device_mutex());
  return Card::state(stream_handle);
}

void loop(void* handle, const Capture::Loop& loop, void* stream_handle) {
  Stream& stream = state_of(stream_handle);
  Card& card = *stream.card;
  for (std::int64_t step = 0; step < loop.count; ++step) {
    const auto row = [&](auto* first, std::size_t bytes) { return first + static_cast<std::size_t>(step) * bytes; };
    if (step > 0)
      for (const auto& [to, from, bytes] : loop.in)
        card.copy(to, row(static_cast<const std::byte*>(from), bytes), bytes, stream_handle);
    launch(handle, stream_handle);
    for (const auto& [to, from, bytes] : loop.out)
      card.copy(row(static_cast<std::byte*>(to), bytes), from, bytes, stream_handle);
    for (const Capture::Loop::Counter& counter : loop.counters) count_on(stream, counter);
  }
}

void branch(void* handle) {
  const std::lock_guard lock(device_mutex());
  Recording& recording = *Card::state(handle).recording;
  if (!std::exchange(recording.branching, true)) recording.sections.emplace_back();
  recording.sections.back().emplace_back();
}

void check_branches(Card& card, const Recording::Section& branches) {
  for (const auto& one : branches)
    for (const auto& another : branches) {
      if (&one == &another) continue;
      for (const auto& work : one)
        for (const auto& other : another)
          for (const Use& use : work->uses)
            for (const Use& beside : other->uses)
              if (may_conflict(one, use, beside))
                return card.report(message(work->name, use.writes ? " writes " : " reads ", use.block->description(),
                                           " in one branch of a step, and ", other->name,
                                           beside.writes ? " writes" : " reads",
                                           " it in another: branches run beside each other"));
    }
}

void join(void* handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = Card::state(handle);
  if (stream.recording == nullptr || !std::exchange(stream.recording->branching, false)) return;
  check_branches(*stream.card, stream.recording->sections.back());
  stream.recording->sections.emplace_back(1);
}

void set_aside(void* handle, Capture::Aside what) {
  const std::lock_guard lock(device_mutex());
  Card::state(handle).recording->goes_aside = what.everything;
}

void await(void* handle) {
  const std::lock_guard lock(device_mutex());
  Recording& recording = *Card::state(handle).recording;
  std::ranges::move(recording.aside, std::back_inserter(recording.sections.back().back()));
  recording.aside.clear();
}

}  // namespace

const Capture& capture() {
  static const Capture capture{.begin = begin,
                               .end = end,
                               .abandon = abandon,
                               .launch = launch,
                               .destroy = destroy,
                               .branch = branch,
                               .join = join,
                               .loop = loop,
                               .aside = set_aside,
                               .await = await};
  return capture;
}

}  // namespace tern::debug
