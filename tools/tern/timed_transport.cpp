#include "timed_transport.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "tern/tensor/create.hpp"

namespace tern::tool {

namespace {

using Clock = std::chrono::steady_clock;

class TimedTransport final : public parallel::Collective {
 public:
  explicit TimedTransport(parallel::Group group) : group_(std::move(group)), transport_(group_.collective()) {}

  Spent spent() override {
    Spent whole{in_calls(), in_calls()};
    if (!on_devices_.empty()) whole = before_;
    for (const std::weak_ptr<Collective>& each : on_devices_)
      if (const std::shared_ptr<Collective> transport = each.lock()) {
        const Spent own = transport->spent();
        whole.busy += own.busy;
        whole.waited += own.waited;
      }
    return whole;
  }
  void opened(const std::shared_ptr<Collective>& transport) override {
    if (on_devices_.empty()) before_ = {in_calls(), in_calls()};
    transport->measure();
    on_devices_.push_back(transport);
  }

  std::string_view name() const override { return transport_.name(); }
  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }
  Memory* memory() override { return transport_.memory(); }

  void barrier(void* stream) override {
    const Stretch stretch(*this);
    transport_.barrier(stream);
  }
  void all_reduce(void* data, std::size_t count, DType dtype, parallel::Reduction how, void* stream) override {
    const Stretch stretch(*this);
    transport_.all_reduce(data, count, dtype, how, stream);
  }
  void begin_all_reduce(std::span<const parallel::Piece> pieces, DType dtype, parallel::Reduction how,
                        void* stream) override {
    const Stretch stretch(*this);
    transport_.begin_all_reduce(pieces, dtype, how, stream);
  }
  void join(void* stream) override {
    const Stretch stretch(*this);
    transport_.join(stream);
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root, void* stream) override {
    const Stretch stretch(*this);
    transport_.broadcast(data, count, dtype, root, stream);
  }
  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, parallel::Reduction how,
                      void* stream) override {
    const Stretch stretch(*this);
    transport_.reduce_scatter(from, to, count, dtype, how, stream);
  }
  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const Stretch stretch(*this);
    transport_.all_gather(from, to, count, dtype, stream);
  }
  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const Stretch stretch(*this);
    transport_.all_to_all(from, to, count, dtype, stream);
  }
  void send(const void* from, std::size_t count, DType dtype, int to, void* stream) override {
    const Stretch stretch(*this);
    transport_.send(from, count, dtype, to, stream);
  }
  void receive(void* to, std::size_t count, DType dtype, int from, void* stream) override {
    const Stretch stretch(*this);
    transport_.receive(to, count, dtype, from, stream);
  }
  std::unique_ptr<Collective> split(int colour, int key) override { return transport_.split(colour, key); }
  void abandon(const std::string& reason) noexcept override { transport_.abandon(reason); }
  void leave() override { transport_.leave(); }

 private:
  /// From here to the end of the block.
  class Stretch {
   public:
    explicit Stretch(TimedTransport& transport) : transport_(transport) {}
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;
    ~Stretch() { transport_.spent_ += Clock::now() - began_; }

   private:
    TimedTransport& transport_;
    const Clock::time_point began_ = Clock::now();
  };

  double in_calls() const { return std::chrono::duration<double>(spent_).count(); }

  parallel::Group group_;  // keeps the transport alive
  Collective& transport_;
  Clock::duration spent_{};
  std::vector<std::weak_ptr<Collective>> on_devices_;
  Spent before_;  // the first of these
};

}  // namespace

parallel::Group timed(const parallel::Group& group) {
  return group.size() == 1 ? group : parallel::Group(std::make_shared<TimedTransport>(group));
}

parallel::Collective::Spent spent_in(const parallel::Group& group) { return group.collective().spent(); }

RankTimes share_times(const parallel::Group& group, double seconds, const parallel::Collective::Spent& spent) {
  const std::vector<double> all = group.all_gather(tensor({seconds, spent.busy, spent.waited})).values();
  RankTimes times;
  double whole = 0, busy = 0, waited = 0, longest = -1;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto i = 3 * static_cast<std::size_t>(rank);
    whole += all[i];
    busy += all[i + 1];
    waited += all[i + 2];
    if (const double work = all[i] - all[i + 2]; work > longest) {
      longest = work;
      times.slowest = rank;
    }
  }
  const double mean = (whole - waited) / group.size();
  times.communication = whole > 0 ? busy / whole : 0;
  times.hidden = busy > 0 ? 1 - waited / busy : 0;
  times.lag = mean > 0 ? longest / mean - 1 : 0;
  return times;
}

}  // namespace tern::tool
