#pragma once
// The entry point of a transport in its own shared library (libtern_mpi.so, libtern_nccl.so), so that the library runs
// without MPI and NCCL. As with a mode, both sides compare a number derived from the headers.

#include <string>

#include "tern/kernels/algorithms.hpp"
#include "tern/modes/contract.hpp"
#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// How a transport is opened.
struct Opening {
  std::int64_t limit = 0;                  ///< milliseconds that a rank waits for another; 0: forever
  Collective* over = nullptr;              ///< the same ranks on the host, for a transport that needs them to connect
  Memory* memory = nullptr;                ///< if so: where the elements are
  const Algorithms* algorithms = nullptr;  ///< how it learns which algorithm a call must take
};

/// The form of TransportPlugin itself.
inline constexpr std::uint32_t transport_form = 1;

constexpr std::uint64_t transport_number() {
  contract::Hash hash;
  hash.add(contract::layout_of<Memory>);
  hash.add(contract::layout_of_calls(
      MemberList<&Collective::name, &Collective::rank, &Collective::size, &Collective::memory, &Collective::barrier,
                 &Collective::all_reduce, &Collective::begin_all_reduce, &Collective::join, &Collective::broadcast,
                 &Collective::reduce_scatter, &Collective::all_gather, &Collective::all_to_all, &Collective::send,
                 &Collective::receive, &Collective::split, &Collective::abandon, &Collective::leave>{}));
  hash.add(contract::layout_of<Piece>);
  hash.add(contract::layout_of<Algorithms>);
  hash.add(
      contract::layout_of_calls(MemberList<&Opening::limit, &Opening::over, &Opening::memory, &Opening::algorithms>{}));
  hash.add(sizeof(Opening));
  hash.add(contract::layout_of<DType>);
  hash.add(contract::layout_of<Reduction>);
  hash.add(contract::standard_library());
  hash.add(contract::compiler());
  hash.add(sizeof(void*));
  return hash.value();
}
inline constexpr std::uint64_t transport_contract = transport_number();

/// What the entry point returns; it lives until the process ends.
struct TransportPlugin {
  std::uint32_t form = transport_form;
  std::uint64_t contract = transport_contract;
  /// This rank's end of all ranks. Throws DeviceUnavailable with the reason.
  std::unique_ptr<Collective> (*open)(const Opening& opening) = nullptr;
  /// For a transport over another one: a name of the memory's device that is unique on this machine; empty if it cannot
  /// be used.
  std::string (*suits)(Memory& memory) = nullptr;
};

/// `extern "C" const tern::parallel::TransportPlugin* tern_transport()` is what the library exports.
using TransportEntry = const TransportPlugin* (*)();
inline constexpr const char* transport_entry_name = "tern_transport";

}  // namespace tern::parallel
