#pragma once

namespace tern {

/// The members of a struct, in their order. A struct that the library and a mode in a library of its own both see ends
/// with one, `Members`; modes/contract.hpp does not compile where it lacks a member.
template <auto... members>
struct MemberList {};

}  // namespace tern
