#include "debug/block.hpp"

#include "debug/pattern.hpp"
#include "tern/core/error.hpp"

namespace tern::debug {

std::string Block::description() const {
  const std::string last = writer.name == nullptr || !written ? "never written" : message("written by ", writer.name);
  return message("block ", number, " (", bytes(), " bytes, ", last, ')');
}

std::string Block::place(const std::byte* address) const {
  if (address < begin) return message("the place ", begin - address, " bytes before ", description());
  if (address >= end) return message("the place ", address - end, " bytes behind the end of ", description());
  return message("byte ", address - begin, " of ", description());
}

void Block::clear() {
  protect(Protection::writing);
  unwrite(pages, pages_end());
  protect(Protection::closed);
  written = false;
}

std::shared_ptr<Block> Blocks::make(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  const std::size_t page = arena().page();
  expects<OutOfMemory>(bytes < arena().size(), "debug: ", bytes, " bytes are more than the device has");
  auto block = std::make_shared<Block>();
  block->page_bytes = bytes / page * page + (bytes % page == 0 ? 0 : page);
  block->pages = arena().take(block->page_bytes);
  // At the end of its pages, so that an overrun soon meets a closed page.
  block->begin = block->pages + (block->page_bytes - (bytes + alignment - 1) / alignment * alignment);
  block->end = block->begin + bytes;
  block->number = ++count_;
  // Earlier blocks at these addresses are forgotten.
  const auto first = blocks_.lower_bound(block->pages), last = blocks_.lower_bound(block->pages_end());
  blocks_.erase(first, last);
  blocks_[block->pages] = block;
  return block;
}

void Blocks::bury(Block& block) noexcept {
  block.live = false;
  block.gone = true;
  arena().give(block.pages, block.page_bytes);
  dead_.push_back(block.pages);
  if (dead_.size() <= most_dead) return;
  const auto oldest = blocks_.find(dead_.front());
  if (oldest != blocks_.end() && oldest->second->gone) blocks_.erase(oldest);
  dead_.pop_front();
}

const std::shared_ptr<Block>* Blocks::find(const void* address) const {
  auto found = blocks_.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
  if (found == blocks_.begin()) return nullptr;
  const std::shared_ptr<Block>& block = (--found)->second;
  return address < block->pages_end() + arena().page() ? &block : nullptr;
}

Blocks& blocks() {
  static auto& blocks = *new Blocks;
  return blocks;
}

}  // namespace tern::debug
