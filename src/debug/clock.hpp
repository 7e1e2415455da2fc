#pragma once
// Vector clocks: which work comes before which, by what streams and waits guarantee and never by luck.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::debug {

/// A piece of work: the `time`-th of a stream.
struct Moment {
  std::size_t stream = 0;
  std::uint64_t time = 0;
};

/// For each stream, up to which piece its work is done at this moment.
class Clock {
 public:
  bool includes(const Moment& moment) const {
    return moment.time == 0 || (moment.stream < times_.size() && moment.time <= times_[moment.stream]);
  }
  void add(const Moment& moment) {
    if (moment.stream >= times_.size()) times_.resize(moment.stream + 1);
    times_[moment.stream] = std::max(times_[moment.stream], moment.time);
  }
  void join(const Clock& other) {
    for (std::size_t stream = 0; stream < other.times_.size(); ++stream) add({stream, other.times_[stream]});
  }

 private:
  std::vector<std::uint64_t> times_;
};

}  // namespace tern::debug
