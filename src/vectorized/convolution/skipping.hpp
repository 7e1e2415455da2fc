#pragma once
// Plans that skip the taps over the padding, where the image lies (inside.hpp).

#include <algorithm>
#include <atomic>

#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/convolution/finite.hpp"
#include "vectorized/convolution/inside.hpp"

namespace tern::vectorized::convolution {

/// First the weights are packed, then multiplied. Zeros times infinity or NaN would be NaN, so weights that are not
/// finite are left to another algorithm wherever there is padding; what the team found out about them is kept behind
/// the packed ones.
template <class T>
class Skipping : public Plan<T> {
 public:
  Skipping(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays), inside_(problem) {}
  int phases() const override { return 2; }
  std::int64_t shared() const override { return packed() + parts; }
  bool first_prepares_weights() const override { return true; }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    T* const finite = shared + packed();
    if (phase == 0) {
      pack(team, shared, scratch);
      const std::int64_t count = weights();
      for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part)
        finite[part] = are_finite(arrays_.weight, count * part / parts, count * (part + 1) / parts) ? T{1} : T{0};
    } else if (problem_.plain() || std::all_of(finite, finite + parts, [](T each) { return each == T{1}; })) {
      multiply(team, shared);
    } else {
      done_.store(false, std::memory_order_relaxed);
    }
  }
  bool done() const override { return done_.load(std::memory_order_relaxed); }

 protected:
  virtual std::int64_t packed() const = 0;  ///< elements
  virtual void pack(const Team& team, T* packed, T* scratch) const = 0;
  virtual void multiply(const Team& team, const T* packed) const = 0;

  std::int64_t weights() const { return problem_.groups * problem_.O * problem_.K(); }

  /// A product's rows: these positions, from the first output of their group on.
  template <class Product>
  void place(Product& product, const Run* runs, std::int64_t count, const Positions& at) const {
    product.runs = runs;
    product.run_count = count;
    product.a = arrays_.in + at.in;
    product.a_row = at.in_step;
    product.c = arrays_.out + at.out;
    product.c_row = at.out_step;
    product.m = at.count;
  }

  Problem problem_;
  Arrays<T> arrays_;
  Inside inside_;

 private:
  static constexpr std::int64_t parts = 64;  ///< of the weights, one element each

  mutable std::atomic<bool> done_{true};
};

}  // namespace tern::vectorized::convolution
