#pragma once
// What the pool tells AddressSanitizer, which sees only system allocations: a free block, and the bytes of a block
// beyond the requested ones, must not be touched. Blocks that the pool holds are not leaks, although LeakSanitizer
// cannot follow the lists of free blocks, whose links are poisoned, too. Does nothing without the sanitizer.

#include <cstddef>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define TERN_ADDRESS_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define TERN_ADDRESS_SANITIZER
#endif

#ifdef TERN_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace tern {

inline void poison([[maybe_unused]] void* pointer, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef TERN_ADDRESS_SANITIZER
  __asan_poison_memory_region(pointer, bytes);
#endif
}
inline void unpoison([[maybe_unused]] void* pointer, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef TERN_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(pointer, bytes);
#endif
}

inline void keep([[maybe_unused]] void* pointer) noexcept {
#ifdef TERN_ADDRESS_SANITIZER
  __lsan_ignore_object(pointer);
#endif
}

}  // namespace tern
