#pragma once
// What the cases of integers share: their dtypes, and where the numbers lie.

#include <vector>

#include "support/catalogue.hpp"

namespace tern::testing {

inline const std::vector<DType> signed_dtypes{DType::int32, DType::int64};
inline const std::vector<DType> number_dtypes{DType::int32, DType::int64, DType::uint8};
inline const std::vector<DType> integer_dtypes{DType::int32, DType::int64, DType::uint8, DType::boolean};

/// Where the numbers of two inputs lie, and of which dtypes they are.
struct Numbers {
  std::vector<DType> dtypes;
  double a_low, a_high, b_low, b_high;
};
inline const Numbers of_signs{signed_dtypes, -50, 50, -50, 50};
inline const Numbers of_uint8{{DType::uint8}, 8, 15, 0, 7};
inline const Numbers of_bool{{DType::boolean}, 0, 1, 0, 1};

}  // namespace tern::testing
