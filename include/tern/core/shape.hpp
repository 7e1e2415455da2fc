#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "tern/core/error.hpp"

namespace tern {

/// Up to eight 64-bit sizes (or strides) without an allocation.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}
  Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.begin(), sizes.end()) {}
  template <class Iterator>
  Shape(Iterator begin, Iterator end) {
    for (; begin != end; ++begin) push_back(*begin);
  }
  /// `rank` sizes of `value`.
  static Shape filled(int rank, std::int64_t value) {
    Shape shape;
    for (int i = 0; i < rank; ++i) shape.push_back(value);
    return shape;
  }

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  /// Throws ShapeError outside [0, rank()).
  std::int64_t operator[](int i) const { return size_[checked(i)]; }
  std::int64_t& operator[](int i) { return size_[checked(i)]; }
  std::int64_t back() const { return size_[checked(rank_ - 1)]; }
  const std::int64_t* begin() const { return size_; }
  const std::int64_t* end() const { return size_ + rank_; }
  void push_back(std::int64_t size) {
    expects<ShapeError>(rank_ < max_rank, "shape: a tensor has at most ", max_rank, " dimensions");
    size_[rank_++] = size;
  }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (size_[i] != other.size_[i]) return false;
    return true;
  }

 private:
  int checked(int i) const {
    if (i < 0 || i >= rank_) [[unlikely]]
      throw_outside(i);
    return i;
  }
  [[noreturn, gnu::cold, gnu::noinline]] void throw_outside(int i) const;

  int rank_ = 0;
  std::int64_t size_[max_rank] = {};
};

/// "[32,3,28,28]".
std::ostream& operator<<(std::ostream& stream, const Shape& shape);
void append_text(std::string& text, const Shape& shape);

/// The number of elements. Throws ShapeError for a negative size or a product beyond 2^63.
std::int64_t element_count(const Shape& shape);
/// element_count times the element size, with the same checks. Throws OutOfMemory beyond what the machine can address.
std::size_t byte_count(const Shape& shape, std::size_t element);
/// Row-major strides in elements.
Shape contiguous_strides(const Shape& shape);
/// The shape that a and b broadcast to, aligned at the last dimension; sizes must be equal or 1. Throws ShapeError that
/// names `op`.
Shape broadcast(const char* op, const Shape& a, const Shape& b);
/// `dim`, counted from the end if negative. Throws ShapeError that names `op` when out of range.
int normalize_dim(const char* op, std::int64_t dim, int rank);

}  // namespace tern
