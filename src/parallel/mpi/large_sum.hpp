#pragma once
// The sum of many elements over all processes. MPI_Iallreduce of Open MPI 4.1 takes two to four times as long between
// two of them (benchmarks/results/ranks.md).

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace tern::parallel {

/// MPI itself sums fewer bytes.
constexpr std::size_t least_large_bytes = std::size_t{1} << 20;

/// Sums the data [count] of all ranks in place. Each rank sums one shard of the elements, its own first and then the
/// others' in rank order, and sends it back to all. It works chunk by chunk, so that what is added and sent is still in
/// the cache, while the next chunk is in transit. `chunks` is memory that is kept between calls. `wait(requests)`
/// returns when all are done, or throws.
template <class T, class Wait>
void large_sum(MPI_Comm comm, T* data, std::size_t count, std::vector<T>& chunks, const Wait& wait) {
  constexpr std::size_t chunk = (std::size_t{256} << 10) / sizeof(T);
  constexpr int shares_tag = 3, sums_tag = 4;
  const MPI_Datatype type = std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
  int own = 0, ranks = 1;
  MPI_Comm_rank(comm, &own);
  MPI_Comm_size(comm, &ranks);
  const auto size = static_cast<std::size_t>(ranks);
  struct Chunk {
    T* data;
    int count;
  };
  const auto chunk_of = [&](int rank, std::size_t i) {
    const auto shard = static_cast<std::size_t>(rank);
    const std::size_t end = count * (shard + 1) / size, begin = std::min(count * shard / size + i * chunk, end);
    return Chunk{data + begin, static_cast<int>(std::min(chunk, end - begin))};
  };
  chunks.resize(2 * size * chunk);
  const auto share_of = [&](int rank, std::size_t i) {
    return chunks.data() + (i % 2 * size + static_cast<std::size_t>(rank)) * chunk;
  };
  std::array<std::vector<MPI_Request>, 2> shares, sums;
  // Posts receives first: messages that arrive before are copied twice.
  const auto exchange = [&](std::vector<MPI_Request>& requests, int tag, const auto& incoming, const auto& outgoing) {
    requests.assign(2 * size, MPI_REQUEST_NULL);
    for (int rank = 0; rank < ranks; ++rank)
      if (const Chunk in = incoming(rank); rank != own)
        MPI_Irecv(in.data, in.count, type, rank, tag, comm, &requests[2 * static_cast<std::size_t>(rank)]);
    for (int rank = 0; rank < ranks; ++rank)
      if (const Chunk out = outgoing(rank); rank != own)
        MPI_Isend(out.data, out.count, type, rank, tag, comm, &requests[2 * static_cast<std::size_t>(rank) + 1]);
  };
  const auto begin_shares = [&](std::size_t i) {
    exchange(
        shares[i % 2], shares_tag,
        [&](int rank) {
          return Chunk{share_of(rank, i), chunk_of(own, i).count};
        },
        [&](int rank) { return chunk_of(rank, i); });
  };
  const auto begin_sums = [&](std::size_t i) {
    exchange(
        sums[i % 2], sums_tag, [&](int rank) { return chunk_of(rank, i); }, [&](int) { return chunk_of(own, i); });
  };
  const std::size_t steps = (count / size + chunk) / chunk;  // of the longest shard
  begin_shares(0);
  for (std::size_t i = 0; i < steps; ++i) {
    if (i + 1 < steps) begin_shares(i + 1);
    wait(shares[i % 2]);
    const Chunk sum = chunk_of(own, i);
    for (int rank = 0; rank < ranks; ++rank)
      if (const T* const share = share_of(rank, i); rank != own)
        for (int j = 0; j < sum.count; ++j) sum.data[j] += share[j];
    if (i >= 2) wait(sums[i % 2]);
    begin_sums(i);
  }
  for (std::vector<MPI_Request>& requests : sums) wait(requests);
}

}  // namespace tern::parallel
