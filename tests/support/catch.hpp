#pragma once
// Catch2 2 (Debian 12) and 3 (elsewhere) under one include, with Approx and Catch::ContainsSubstring in both.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
namespace Catch {
using Matchers::ContainsSubstring;
}  // namespace Catch
using Catch::Approx;
#else
#include <catch2/catch.hpp>
namespace Catch {
inline auto ContainsSubstring(const std::string& text) { return Matchers::Contains(text); }
}  // namespace Catch
#endif
