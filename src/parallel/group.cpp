#include "tern/parallel/group.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "modes/branches.hpp"
#include "parallel/threads.hpp"
#include "parallel/transports.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

namespace {

std::size_t count_of(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

void check_reduction(const char* call, const Tensor& x, Reduction reduction) {
  expects<DTypeError>(reduction != Reduction::mean || is_floating(x.dtype()), call, ": ", x.dtype(),
                      " has no mean; use the sum, or convert it to a floating dtype");
  expects<DTypeError>(reduction != Reduction::sum || x.dtype() != DType::boolean, call,
                      ": bool has no sum; use the maximum (any) or the minimum (all)");
  expects<DTypeError>(reduction != Reduction::sum || x.dtype() != DType::int8, call,
                      ": int8 only stores; convert it to int32 for a sum");
}

}  // namespace

std::string machine_name() {
  char name[64] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "a machine without a name";
}

Group::Group() : transport_(std::move(thread_ranks(1, {})[0])) {}

/// The reduction that the transport performs: on the host a mean is a sum that is divided afterwards.
Reduction Group::carried(Reduction reduction) const {
  return on_host() && reduction == Reduction::mean ? Reduction::sum : reduction;
}

void* Group::stream() const {
  if (on_host()) return nullptr;
  leave_branches();
  return current_scope().context.stream;
}

void* Group::lend(const Tensor& x, bool reads, bool writes) const {
  Storage& storage = x.storage();
  const std::ptrdiff_t offset = x.offset() * static_cast<std::ptrdiff_t>(size_of(x.dtype()));
  void* first = nullptr;
  if (on_host()) {
    first = !writes ? const_cast<void*>(storage.read_host()) : reads ? storage.update_host() : storage.write_host();
  } else {
    Scope& scope = current_scope();
    expects<DeviceUnavailable>(scope.mode->memory == transport_->memory(), "this group works in the memory of ",
                               transport_->memory()->name(), ", the device of the scope is ", scope.mode->name,
                               "; open the Device that the group was made in");
    first = !writes ? const_cast<void*>(storage.read(scope)) : reads ? storage.update(scope) : storage.write(scope);
  }
  return first == nullptr ? nullptr : static_cast<std::byte*>(first) + offset;
}

std::vector<std::string> Group::places() const {
  return all_gather(message(machine_name(), ", process ", getpid(), ", ", current_scope().mode->name));
}

std::vector<std::string> Group::all_gather(const std::string& text) const {
  const auto length = static_cast<std::int64_t>(text.size());
  const std::vector<std::int64_t> lengths = all_gather(tensor(std::vector{length}, {1})).to_vector<std::int64_t>();
  const std::int64_t longest = std::ranges::max(lengths);
  if (longest == 0) return std::vector<std::string>(lengths.size());
  Tensor bytes = zeros({longest}, DType::uint8);
  std::ranges::copy(text, bytes.write<std::uint8_t>().begin());
  const std::vector<std::uint8_t> all = all_gather(bytes).to_vector<std::uint8_t>();
  std::vector<std::string> result;
  for (auto begin = all.begin(); const std::int64_t own : lengths) {
    result.emplace_back(begin, begin + own);
    begin += longest;
  }
  return result;
}

void Group::check_same(const std::string& what, const std::string& text) const {
  const std::vector<std::string> all = all_gather(text);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    std::string expected, found;
    for (bool more = true; more;) {
      const bool here = static_cast<bool>(std::getline(first, expected));
      const bool there = static_cast<bool>(std::getline(other, found));
      expects<ParallelError>(here == there && (!here || expected == found), what, ": rank 0 has ",
                             here ? expected : "no more", ", rank ", rank, " has ", there ? found : "no more",
                             "; all ranks need the same");
      more = here;
    }
  }
}

Group Group::split(int colour, int key) const {
  expects<ShapeError>(colour >= 0, "split: a colour is 0 or more, found ", colour);
  return Group(transport_->split(colour, key));
}

void Group::barrier() const { transport_->barrier(stream()); }

void Group::all_reduce(Tensor x, Reduction reduction) const {
  check_reduction("all_reduce", x, reduction);
  if (size() == 1) return;
  const NoGrad no_grad;
  Tensor whole = is_half(x.dtype()) ? x.detach().to(DType::float32) : x.detach().contiguous();
  transport_->all_reduce(lend(whole, true, true), count_of(whole), whole.dtype(), carried(reduction), stream());
  if (carried(reduction) != reduction) whole.copy_(whole / size());
  if (!x.is_contiguous() || whole.dtype() != x.dtype()) x.copy_(whole);
}

void Group::begin_all_reduce(const std::vector<Tensor>& tensors, Reduction reduction) const {
  if (tensors.empty()) return;
  const DType dtype = tensors[0].dtype();
  const NoGrad no_grad;
  std::vector<Piece> pieces;
  for (const Tensor& x : tensors) {
    check_reduction("all_reduce", x, reduction);
    expects<DTypeError>(x.dtype() == dtype, "begin_all_reduce: tensors are ", dtype, " and ", x.dtype());
    // A sum that needs further work afterwards is not begun.
    if (is_half(dtype) || !x.is_contiguous())
      all_reduce(x, reduction);
    else if (size() > 1)
      pieces.push_back({lend(x, true, true), count_of(x)});
  }
  if (pieces.empty()) return;
  transport_->begin_all_reduce(pieces, dtype, carried(reduction), stream());
  if (carried(reduction) == reduction) return;
  for (const Tensor& x : tensors)
    if (x.is_contiguous()) Tensor(x).copy_(x.detach() / size());
}

void Group::join() const { transport_->join(stream()); }

void Group::broadcast(Tensor x, int root) const {
  expects<ShapeError>(root >= 0 && root < size(), "broadcast: rank ", root, " of ", size(), " ranks");
  if (size() == 1) return;
  const NoGrad no_grad;
  Tensor whole = x.detach().contiguous();
  const bool roots = rank() == root;
  transport_->broadcast(lend(whole, true, !roots), count_of(whole), whole.dtype(), root, stream());
  if (!roots && !x.is_contiguous()) x.copy_(whole);
}

Tensor Group::blocks(const char* call, const Tensor& x) const {
  expects<ShapeError>(x.rank() > 0 && x.size(0) % size() == 0, call, ": the first dimension of ", x.shape(),
                      " is not divided into blocks for ", size(), " ranks");
  return x.detach().contiguous();
}

Tensor Group::all_gather(const Tensor& x) const {
  const NoGrad no_grad;
  const Tensor whole = x.detach().contiguous();
  Shape shape = whole.rank() == 0 ? Shape{1} : whole.shape();
  shape[0] *= size();
  Tensor all(shape, x.dtype());
  void* const from = lend(whole, true, false);
  transport_->all_gather(from, lend(all, false, true), count_of(whole), x.dtype(), stream());
  return all;
}

Tensor Group::reduce_scatter(const Tensor& x, Reduction reduction) const {
  check_reduction("reduce_scatter", x, reduction);
  const NoGrad no_grad;
  const Tensor input = blocks("reduce_scatter", x), whole = is_half(x.dtype()) ? input.to(DType::float32) : input;
  Shape shape = whole.shape();
  shape[0] /= size();
  Tensor own(shape, whole.dtype());
  void* const from = lend(whole, true, false);
  transport_->reduce_scatter(from, lend(own, false, true), count_of(own), whole.dtype(), carried(reduction), stream());
  return (carried(reduction) != reduction ? own / size() : own).to(x.dtype());
}

Tensor Group::all_to_all(const Tensor& x) const {
  const NoGrad no_grad;
  const Tensor whole = blocks("all_to_all", x);
  Tensor all(whole.shape(), x.dtype());
  void* const from = lend(whole, true, false);
  transport_->all_to_all(from, lend(all, false, true), count_of(whole) / static_cast<std::size_t>(size()), x.dtype(),
                         stream());
  return all;
}

void Group::send(const Tensor& x, int to) const {
  expects<ShapeError>(to >= 0 && to < size() && to != rank(), "send: rank ", to, " of ", size(), " ranks, from rank ",
                      rank());
  const NoGrad no_grad;
  const Tensor whole = x.detach().contiguous();
  transport_->send(lend(whole, true, false), count_of(whole), x.dtype(), to, stream());
}

void Group::receive(Tensor x, int from) const {
  expects<ShapeError>(from >= 0 && from < size() && from != rank(), "receive: rank ", from, " of ", size(),
                      " ranks, in rank ", rank());
  const NoGrad no_grad;
  Tensor whole = x.detach().contiguous();
  transport_->receive(lend(whole, true, true), count_of(whole), x.dtype(), from, stream());
  if (!x.is_contiguous()) x.copy_(whole);
}

std::string Group::broadcast(const std::string& text, int root) const {
  Tensor length = scalar(static_cast<std::int64_t>(text.size()));
  broadcast(length, root);
  const auto size = length.item<std::int64_t>();
  Tensor bytes({size}, DType::uint8);
  const auto span = bytes.write<std::uint8_t>();
  if (rank() == root) std::ranges::copy(text, span.begin());
  broadcast(bytes, root);
  const auto all = bytes.read<std::uint8_t>();
  return {all.begin(), all.end()};
}

}  // namespace tern::parallel
