#pragma once
// A group whose elements are in the memory of a device that is acted on the host's.

#include "tern/modes/device.hpp"
#include "tern/parallel/group.hpp"

namespace tern::testing {

/// Carries between acted devices as NCCL does between GPUs, for a check without any. What is begun happens at `join`.
class Acted final : public parallel::Collective {
 public:
  Acted(const parallel::Group& group, Memory& memory) : group_(group), inner_(group.collective()), memory_(memory) {}

  std::string_view name() const override { return "acted"; }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Memory* memory() override { return &memory_; }
  void barrier(void* stream) override {
    memory_.synchronize(stream);
    inner_.barrier(nullptr);
  }
  void all_reduce(void* data, std::size_t count, DType dtype, parallel::Reduction reduction, void* stream) override {
    Bytes bytes = fetched(data, count * size_of(dtype), stream);
    const bool mean = reduction == parallel::Reduction::mean;
    inner_.all_reduce(bytes.data(), count, dtype, mean ? parallel::Reduction::sum : reduction, nullptr);
    const auto divide = [&](auto* elements) {
      for (std::size_t i = 0; i < count; ++i) elements[i] /= static_cast<float>(size());
    };
    if (mean && dtype == DType::float64) divide(reinterpret_cast<double*>(bytes.data()));
    if (mean && dtype == DType::float32) divide(reinterpret_cast<float*>(bytes.data()));
    store(data, bytes, stream);
  }
  void begin_all_reduce(std::span<const parallel::Piece> pieces, DType dtype, parallel::Reduction reduction,
                        void*) override {
    for (const parallel::Piece& piece : pieces) begun_.push_back({piece, dtype, reduction});
  }
  void join(void* stream) override {
    for (const Begun& begun : begun_) all_reduce(begun.piece.data, begun.piece.count, begun.dtype, begun.how, stream);
    begun_.clear();
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root, void* stream) override {
    Bytes bytes = fetched(data, count * size_of(dtype), stream);
    inner_.broadcast(bytes.data(), count, dtype, root, nullptr);
    store(data, bytes, stream);
  }
  void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, parallel::Reduction reduction,
                      void* stream) override {
    Bytes all = fetched(from, ranks() * count * size_of(dtype), stream), own(count * size_of(dtype));
    inner_.reduce_scatter(all.data(), own.data(), count, dtype, reduction, nullptr);
    store(to, own, stream);
  }
  void all_gather(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const Bytes own = fetched(from, count * size_of(dtype), stream);
    Bytes all(ranks() * own.size());
    inner_.all_gather(own.data(), all.data(), count, dtype, nullptr);
    store(to, all, stream);
  }
  void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void* stream) override {
    const Bytes input = fetched(from, ranks() * count * size_of(dtype), stream);
    Bytes taken(input.size());
    inner_.all_to_all(input.data(), taken.data(), count, dtype, nullptr);
    store(to, taken, stream);
  }
  void send(const void* from, std::size_t count, DType dtype, int to, void* stream) override {
    inner_.send(fetched(from, count * size_of(dtype), stream).data(), count, dtype, to, nullptr);
  }
  void receive(void* to, std::size_t count, DType dtype, int from, void* stream) override {
    Bytes bytes(count * size_of(dtype));
    inner_.receive(bytes.data(), count, dtype, from, nullptr);
    store(to, bytes, stream);
  }
  std::unique_ptr<Collective> split(int colour, int key) override { return inner_.split(colour, key); }
  void abandon(const std::string& reason) noexcept override { inner_.abandon(reason); }
  void leave() override { inner_.leave(); }

 private:
  using Bytes = std::vector<std::byte>;
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  Bytes fetched(const void* data, std::size_t count, void* stream) {
    Bytes bytes(count);
    memory_.copy_out(bytes.data(), data, count, stream);
    memory_.synchronize(stream);
    return bytes;
  }
  void store(void* data, const Bytes& bytes, void* stream) {
    memory_.copy_in(data, bytes.data(), bytes.size(), stream);
    memory_.synchronize(stream);
  }

  struct Begun {
    parallel::Piece piece;
    DType dtype;
    parallel::Reduction how;
  };
  parallel::Group group_;
  parallel::Collective& inner_;
  Memory& memory_;
  std::vector<Begun> begun_;
};

}  // namespace tern::testing
