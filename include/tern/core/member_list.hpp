#pragma once

namespace tern {

/// The members of a struct, in order. Every struct that the library shares with a plug-in mode ends with a `Members`;
/// modes/contract.hpp does not compile if a member is missing.
template <auto... members>
struct MemberList {};

}  // namespace tern
