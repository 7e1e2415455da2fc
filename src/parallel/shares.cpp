#include "tern/parallel/shares.hpp"

#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

Tensor gather_shares(const Group& group, const Tensor& own, std::int64_t count) {
  const NoGrad no_grad;
  const data::Rows rows = share_of(group, count);
  expects<ShapeError>(own.rank() == 2 && own.size(0) == rows.size(), "gather_shares: rank ", group.rank(), " has ",
                      rows.size(), " of ", count, " rows, came ", own.shape());
  if (group.size() == 1 || count == 0) return own;
  const std::int64_t most = (count + group.size() - 1) / group.size();
  Tensor padded = zeros({most, own.size(1)}, own.dtype());
  if (rows.size() > 0) padded.slice(0, 0, rows.size()).copy_(own);
  const Tensor all = group.all_gather(padded);
  std::vector<Tensor> pieces;
  for (int rank = 0; rank < group.size(); ++rank)
    pieces.push_back(
        all.slice(0, rank * most, rank * most + data::Share{.rank = rank, .ranks = group.size()}.rows(count).size()));
  return operators::cat(pieces, 0);
}

}  // namespace tern::parallel
