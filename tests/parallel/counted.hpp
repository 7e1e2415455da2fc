#pragma once
// A group that counts what a rank sends.

#include "tern/parallel/group.hpp"

namespace tern::testing {

/// Counts the bytes that this rank sends through another group, where the best algorithm moves the fewest: rings.
class Counted final : public parallel::Collective {
 public:
  explicit Counted(const parallel::Group& group) : group_(group), inner_(group.collective()) {}

  std::size_t sent() const { return sent_; }

  std::string_view name() const override { return inner_.name(); }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Memory* memory() override { return inner_.memory(); }
  void barrier(void* stream) override { inner_.barrier(stream); }
  void all_reduce(void* data, std::size_t count, DType dtype, parallel::Reduction reduction, void* stream) override {
    sent_ += 2 * (others() * count * size_of(dtype)) / ranks();
    inner_.all_reduce(data, count, dtype, reduction, stream);
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root, void* stream) override {
    inner_.broadcast(data, count, dtype, root, stream);  // once, at the beginning
  }
  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, parallel::Reduction reduction,
                      void* stream) override {
    sent_ += others() * count * size_of(dtype);
    inner_.reduce_scatter(from, to, count, dtype, reduction, stream);
  }
  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    sent_ += others() * count * size_of(dtype);
    inner_.all_gather(from, to, count, dtype, stream);
  }
  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    sent_ += others() * count * size_of(dtype);
    inner_.all_to_all(from, to, count, dtype, stream);
  }
  void send(const void* from, std::size_t count, DType dtype, int to, void* stream) override {
    sent_ += count * size_of(dtype);
    inner_.send(from, count, dtype, to, stream);
  }
  void receive(void* to, std::size_t count, DType dtype, int from, void* stream) override {
    inner_.receive(to, count, dtype, from, stream);
  }
  std::unique_ptr<Collective> split(int colour, int key) override { return inner_.split(colour, key); }
  void abandon(const std::string& reason) noexcept override { inner_.abandon(reason); }
  void leave() override { inner_.leave(); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(inner_.size()); }
  std::size_t others() const { return ranks() - 1; }

  parallel::Group group_;
  parallel::Collective& inner_;
  std::size_t sent_ = 0;
};

}  // namespace tern::testing
