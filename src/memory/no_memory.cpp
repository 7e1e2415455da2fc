#include "memory/no_memory.hpp"

namespace tern {

namespace {

class NoMemory final : public Memory {
 public:
  std::string_view name() const override { return "none"; }
  bool host_accessible() const override { return false; }
  void* allocate(std::size_t, void*) override { return block_; }
  void release(void*, std::size_t, void*) noexcept override {}
  // Storage asks for no copies: there is nothing to copy.
  void copy_in(void*, const void*, std::size_t, void*) override {}
  void copy_out(void*, const void*, std::size_t, void*) override {}
  void copy(void*, const void*, std::size_t, void*) override {}
  MemoryStatistics statistics() const override { return {}; }
  void reset_peak() override {}
  void trim() override {}
  void set_limit(std::size_t) override {}

 private:
  alignas(64) std::byte block_[64] = {};
};

}  // namespace

Memory& no_memory() {
  static NoMemory* const memory = new NoMemory;  // never destroyed: storages may outlive static destructors
  return *memory;
}

}  // namespace tern
