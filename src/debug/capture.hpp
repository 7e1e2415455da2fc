#pragma once
// What a stream of the debug device queues while a Step is recorded.

#include <memory>
#include <set>
#include <vector>

#include "debug/stream.hpp"
#include "tern/modes/mode.hpp"

namespace tern::debug {

struct Recording {
  using Pieces = std::vector<std::shared_ptr<const Work>>;

  using Section = std::vector<Pieces>;  ///< parallel branches; a single one if there are none

  std::vector<Section> sections = std::vector<Section>(1, Section(1));  ///< one after the other
  std::vector<std::shared_ptr<Block>> blocks;                           ///< used by replays only
  bool branching = false;                                               ///< the last section is not joined yet
  Pieces aside;                                                         ///< runs as late as it may: when awaited
  bool goes_aside = false;                                              ///< what is queued
  std::set<Stream*> launched_on;

  void add(Card& card, std::shared_ptr<const Work> work);
  /// The end of a block that nothing uses from here on.
  void add_release(std::shared_ptr<const Work> work);
  void keep(const std::shared_ptr<Block>& block) {
    block->recording = this;
    blocks.push_back(block);
  }
};

const Capture& capture();

}  // namespace tern::debug
