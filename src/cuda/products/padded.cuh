#pragma once
// Products by the library whose rows are no whole 16 bytes: its tensor-core kernels for those are several times slower.
// Copies have whole rows, with zeros behind (padded.cu), in a backward pass once for both products
// (padded_backward.cu).

#include "cuda/products/slots.cuh"

namespace tern::cuda::products {

/// The copies pay: `first`; else `last`.
extern const Algorithm padded_first, padded_last;

/// Of a layer's backward pass.
bool fits_padded_backward(const Problem& layer);
bool prefers_padded_backward(const Problem& layer);
void padded_backward(Context& context, const Problem& layer, const Gradients& to);

// ---- the copies ----

/// Rounded up to 16 bytes.
std::int64_t whole(std::int64_t size, Element element);

/// Matrices one behind the other: `rows` by `columns` within whole ones, which have zeros around them.
struct Copied {
  std::int64_t count, rows, columns, whole_rows, whole_columns;
  bool is_whole() const { return rows == whole_rows && columns == whole_columns; }
  std::int64_t elements() const { return count * whole_rows * whole_columns; }
  /// Few enough for 32 bits.
  bool fits() const;
};

/// `to` has whole columns of 16 bytes.
void pad(const Context& context, Element element, void* to, const void* from, const Copied& sizes);
/// Back, with bias and activation. `from` is float32, or has the type of `to`.
void cut(const Context& context, Element to_element, void* to, Element from_element, const void* from, const void* bias,
         const Copied& sizes, Activation activation);

/// Whether whole sizes are faster: `operations` of `products` with them, and copies of that many elements, each once
/// read and once written.
bool pays_in_copies(const Problem& problem, double operations, int products, double elements, int copies);

}  // namespace tern::cuda::products
