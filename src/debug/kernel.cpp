// How a kernel runs on the debug device: twice, once in either view, with only its own blocks accessible. Unwritten
// bytes, and those around a block, differ between the views, so a differing result was computed from them.

#include <algorithm>
#include <cstring>

#include "debug/card.hpp"
#include "debug/pattern.hpp"
#include "debug/signals.hpp"

namespace tern::debug {
namespace {

using Kernel = std::function<void(std::ptrdiff_t distance)>;

struct Operand {
  Block* block = nullptr;
  bool writes = false;
  int argument = 0;
  std::vector<std::byte> before[Arena::views] = {};  // its pages before the kernel ran
};

std::vector<Operand> operands_of(const Work& work) {
  std::vector<Operand> operands;
  for (const Use& use : work.uses) {
    const auto known =
        std::ranges::find_if(operands, [&](const Operand& each) { return each.block == use.block.get(); });
    if (known == operands.end())
      operands.push_back({.block = use.block.get(), .writes = use.writes, .argument = use.argument});
    else
      known->writes |= use.writes;
  }
  return operands;
}

bool is_unwritten(std::byte first, std::byte second, std::byte pattern) {
  return first == std::byte{0xff} && second == pattern;
}

void keep(Operand& operand) {
  for (int view = 0; view < Arena::views; ++view)
    operand.before[view].assign(in_view(operand.block->pages, view), in_view(operand.block->pages_end(), view));
}

// Resets both views to the first one's bytes, except [begin, end), which differs as before.
void restore(const Operand& operand, const std::byte* begin, const std::byte* end) {
  const Block& block = *operand.block;
  for (int view = 0; view < Arena::views; ++view)
    std::memcpy(in_view(block.pages, view), operand.before[0].data(), block.page_bytes);
  std::memcpy(in_view(begin, 1), operand.before[1].data() + (begin - block.pages),
              static_cast<std::size_t>(end - begin));
}

// The first byte of [begin, end) that was written; `end` if none was.
std::byte* first_written(std::byte* begin, std::byte* end) {
  std::byte* expected = begin;
  for_each_difference(begin, end, [&](std::byte* at, std::byte first, std::byte second, std::byte pattern) {
    if (at != expected || !is_unwritten(first, second, pattern)) return false;
    ++expected;
    return true;
  });
  return expected;
}

// The first byte of the block that was computed from unwritten bytes; its end if there is none.
std::byte* first_tainted(Block& block) {
  std::byte* found = block.end;
  for_each_difference(block.begin, block.end, [&](std::byte* at, std::byte first, std::byte second, std::byte pattern) {
    if (is_unwritten(first, second, pattern)) return true;
    found = at;
    return false;
  });
  return found;
}

// From here on the first view's results count, so that a fault is reported once.
void settle(Block& block) {
  for_each_difference(block.begin, block.end, [](std::byte* at, std::byte first, std::byte second, std::byte pattern) {
    if (!is_unwritten(first, second, pattern)) *in_view(at, 1) = first;
    return true;
  });
}

class Run {
 public:
  Run(const Work& work, Stream& stream, const Kernel& kernel)
      : work_(work), stream_(stream), kernel_(kernel), operands_(operands_of(work)) {
    for (Operand& each : operands_) {
      each.block->protect(Protection::writing);
      if (each.writes && each.block->written) keep(each);
      if (!each.writes) each.block->protect(Protection::reading);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    try {
      for (const Operand& each : operands_) each.block->protect(Protection::closed);
    } catch (const std::exception& error) {
      stream_.card->report(error.what());
    }
  }

  void check() {
    try {
      for (int view = 0; view < Arena::views; ++view) {
        const auto address = call(view);
        if (!address) continue;
        report(closed(*address));
        break;
      }
    } catch (...) {  // its result does not count
      look();
      throw;
    }
    look();
  }

 private:
  void look() {
    bool tainted = false;
    for (Operand& each : operands_) {
      if (!each.writes) continue;
      check_around(each);
      tainted |= first_tainted(*each.block) != each.block->end;
    }
    if (tainted) report(cause());
    for (Operand& each : operands_) {
      if (!each.writes) continue;
      if (tainted) settle(*each.block);
      each.block->written = true;
    }
  }

  std::optional<std::byte*> call(int view) {
    return touched([&] { kernel_(arena().distance(view)); });
  }
  void report(const std::string& what) {
    stream_.card->report(message(work_.name, " on stream ", stream_.index, ' ', what));
  }
  static std::string argument(const Operand& operand) {
    return operand.argument == 0 ? "" : message(" (argument ", operand.argument, ')');
  }

  // Describes an access to a closed address.
  std::string closed(std::byte* address) const {
    if (!arena().holds(address))
      return message("touched the address ", static_cast<void*>(address), ", which is no memory of the device");
    const auto* const there = blocks().find(address);
    const Operand* nearest = nullptr;
    std::ptrdiff_t distance = 0;
    for (const Operand& each : operands_) {
      const Block& block = *each.block;
      const std::ptrdiff_t away = address < block.begin ? block.begin - address : address - block.end + 1;
      if (nearest == nullptr || away < distance) nearest = &each, distance = away;
    }
    const bool inside = there != nullptr && (*there)->begin <= address && address < (*there)->end;
    if (inside && nearest != nullptr && nearest->block == there->get())
      return message("wrote to ", (*there)->place(address), argument(*nearest), ", which it was given for reading");
    std::string text = "touched ";
    if (nearest != nullptr) text += nearest->block->place(address) + argument(*nearest);
    if (inside)
      text += message(nearest != nullptr ? ": " : "", (*there)->place(address), ", which it was not given",
                      (*there)->live ? "" : " and was released");
    return text;
  }

  void check_around(Operand& operand) {
    Block& block = *operand.block;
    const auto check = [&](std::byte* begin, std::byte* end) {
      std::byte* const written = first_written(begin, end);
      if (written == end) return;
      report(message("wrote to ", block.place(written), argument(operand)));
      unwrite(begin, end);
    };
    check(block.pages, block.begin);
    check(block.end, block.pages_end());
  }

  // Which bytes, when only they differ, make the results differ.
  std::string cause() {
    std::vector<std::vector<std::byte>> after[Arena::views];
    for (Operand& each : operands_) {
      each.block->protect(Protection::writing);
      for (int view = 0; view < Arena::views; ++view)
        after[view].emplace_back(in_view(each.block->pages, view), in_view(each.block->pages_end(), view));
      if (each.writes && each.block->written) continue;
      if (each.writes) unwrite(each.block->pages, each.block->pages_end());
      keep(each);
    }
    std::string text = "used what nothing wrote";
    for (const Operand& each : operands_) {
      const Block& block = *each.block;
      if (differs(each, block.begin, block.end)) {
        text = "used bytes that nothing wrote: " + unwritten(each) + argument(each);
        break;
      }
      const bool before = differs(each, block.pages, block.begin);
      if (!before && !differs(each, block.end, block.pages_end())) continue;
      text = message("used what lies ", before ? "before " : "behind the end of ", block.description(), argument(each));
      break;
    }
    for (std::size_t i = 0; i < operands_.size(); ++i)
      for (int view = 0; view < Arena::views; ++view)
        std::memcpy(in_view(operands_[i].block->pages, view), after[view][i].data(), after[view][i].size());
    return text;
  }

  bool differs(const Operand& operand, const std::byte* begin, const std::byte* end) {
    if (begin == end) return false;
    for (const Operand& each : operands_) {
      const std::byte* const none = each.block->begin;
      restore(each, &each == &operand ? begin : none, &each == &operand ? end : none);
    }
    if (call(0) || call(1)) return false;
    return std::ranges::any_of(
        operands_, [](const Operand& each) { return each.writes && first_tainted(*each.block) != each.block->end; });
  }

  // "bytes 4 to 7 of block 3 (...)", the first unwritten ones that the kernel read
  std::string unwritten(const Operand& operand) const {
    Block& block = *operand.block;
    restore(operand, block.begin, block.end);
    std::byte *first = nullptr, *last = nullptr;
    for_each_difference(block.begin, block.end, [&](std::byte* at, std::byte, std::byte, std::byte) {
      if (first == nullptr) first = last = at;
      if (at > last + 1) return false;
      last = at;
      return true;
    });
    if (first == nullptr) return block.description();
    return message("bytes ", first - block.begin, " to ", last - block.begin, " of ", block.description());
  }

  const Work& work_;
  Stream& stream_;
  const Kernel& kernel_;
  std::vector<Operand> operands_;
};

}  // namespace

void run_kernel(const Work& work, Stream& stream, const Kernel& kernel, const Kernel& inspect) {
  hear_signals();
  Run run(work, stream, kernel);
  run.check();
  if (inspect) inspect(arena().distance(0));
}

}  // namespace tern::debug
