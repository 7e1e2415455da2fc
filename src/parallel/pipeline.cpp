#include "tern/parallel/pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "optim/sum_of_squares.hpp"
#include "parallel/cut.hpp"
#include "parallel/filled.hpp"
#include "parallel/holdings.hpp"
#include "parallel/streams.hpp"
#include "tensor/shard_streams.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::parallel {

namespace {

/// The description of a tensor that passes between ranks, and how many random streams a micro-batch has drawn up to
/// there.
struct Handed {
  DType dtype = DType::float32;
  Shape shape = {};
  std::uint64_t drawn = 0;
  bool operator==(const Handed&) const = default;
};

std::ostream& operator<<(std::ostream& stream, const Handed& handed) {
  return stream << handed.dtype << ' ' << handed.shape << " behind " << handed.drawn << " draws";
}

Tensor packed(const Handed& handed) {
  std::vector<std::int64_t> words(3 + Shape::max_rank);
  words[0] = static_cast<std::int64_t>(handed.dtype);
  words[1] = static_cast<std::int64_t>(handed.drawn);
  words[2] = handed.shape.rank();
  std::ranges::copy(handed.shape, words.begin() + 3);
  return tensor(words, {static_cast<std::int64_t>(words.size())});
}

Handed unpacked(const Tensor& packed) {
  const std::vector<std::int64_t> words = packed.to_vector<std::int64_t>();
  return {.dtype = static_cast<DType>(words[0]),
          .shape = Shape(words.begin() + 3, words.begin() + 3 + words[2]),
          .drawn = static_cast<std::uint64_t>(words[1])};
}

}  // namespace

struct Pipeline::Body {
  Group group;     // for texts
  Group elements;  // for tensors on devices
  PipelineOptions options;
  std::vector<std::size_t> cuts;
  nn::Sequential stage;
  std::shared_ptr<const Holding> holding;  // of its parameters
  /// By the rows of a micro-batch and whether the net trains: the description of the input, the output and the final
  /// figures. All ranks learn theirs in the first such batch, so no text is needed later.
  struct Known {
    std::optional<Handed> in = {}, out = {}, figures = {};
  };
  std::map<std::pair<std::int64_t, bool>, Known> known = {};

  Body(const Group& ranks, const nn::Sequential& net, PipelineOptions chosen)
      : group(ranks), elements(on_devices(ranks)), options(std::move(chosen)), cuts(cut(net)) {
    expects<ShapeError>(options.micro_batches >= 1 && options.micro_batches <= most_micro_batches,
                        "Pipeline: ", options.micro_batches, " micro-batches, expected 1 to ", most_micro_batches);
    stage = net.part(first(), last());
    holding = std::make_shared<const Holding>(Holding{.group = elements, .words = group, .stages = true});
    for (const Tensor& parameter : stage.parameters()) note_holding(parameter, holding);
  }

  std::size_t rank() const { return static_cast<std::size_t>(group.rank()); }
  std::size_t first() const { return cuts[rank()]; }
  std::size_t last() const { return cuts[rank() + 1]; }
  bool is_first() const { return group.rank() == 0; }
  bool is_last() const { return group.rank() + 1 == group.size(); }

  // As rank 0 divides, because measurements differ.
  std::vector<std::size_t> cut(const nn::Sequential& net) const {
    const std::vector<std::size_t> own = cut_stages(net, options.costs, static_cast<std::size_t>(group.size()));
    Tensor all = tensor(std::vector<std::int64_t>(own.begin(), own.end()), {group.size() + 1});
    group.broadcast(all);
    const std::vector<std::int64_t> firsts = all.to_vector<std::int64_t>();
    expects<ParallelError>(firsts.back() == static_cast<std::int64_t>(net.size()), "Pipeline: rank 0 has a net of ",
                           firsts.back(), " modules, rank ", group.rank(), " one of ", net.size());
    return {firsts.begin(), firsts.end()};
  }
};

/// One batch.
struct Pipeline::Pass {
  Body& body;
  const std::int64_t rows;  // of a micro-batch
  const std::function<Tensor(const data::Rows& rows)>& input;
  const std::function<ShardLoss(const Tensor& y, const data::Rows& rows)>& loss;
  Body::Known& known;
  const bool is_new_size;
  Generator& generator = default_generator();
  const std::uint64_t start = generator.position();
  std::vector<Tensor> inputs = {}, outputs = {};  // of the micro-batches in flight
  Tensor figures = {};                            // the loss and the sums so far

  int next() const { return body.group.rank() + 1; }
  int previous() const { return body.group.rank() - 1; }
  data::Rows rows_of(std::size_t i) const {
    const auto begin = static_cast<std::int64_t>(i) * rows;
    return {begin, begin + rows};
  }

  // Whether this rank's output has the same description as the first time.
  bool is_new(std::optional<Handed>& before, const Handed& now) const {
    const bool first = !before;
    expects<ShapeError>(first || *before == now, "Pipeline: with ", rows, " examples, stage ", body.group.rank(),
                        " handed on ", first ? now : *before, " and now ", now,
                        "; inputs of several sizes need a Pipeline each");
    before = now;
    return first;
  }

  void fetch(std::size_t i) {
    if (body.is_first()) {
      inputs[i] = input(rows_of(i));
      return;
    }
    if (!known.in) {
      Tensor words = packed({});
      body.group.receive(words, previous());
      known.in = unpacked(words);
    }
    inputs[i] = Tensor(known.in->shape, known.in->dtype);
    body.elements.receive(inputs[i], previous());
    if (is_floating(inputs[i].dtype())) inputs[i].set_requires_grad();
  }

  void forward(std::size_t i) {
    if (!inputs[i].defined()) fetch(i);
    const std::uint64_t before = known.in ? known.in->drawn : 0;
    ShardStreams::place(generator, start + before);
    {
      const ShardStreams apart(static_cast<std::uint64_t>(i) << micro_batch_streams);
      outputs[i] = body.stage(inputs[i]);
      if (body.is_last()) outputs[i] = weighed(loss(outputs[i], rows_of(i)));
    }
    if (body.is_last()) return;
    const Handed handed{outputs[i].dtype(), outputs[i].shape(), generator.position() - start};
    if (is_new(known.out, handed)) body.group.send(packed(handed), next());
    body.elements.send(outputs[i], next());
  }

  // Adds to the figures; returns the loss of the micro-batch.
  Tensor weighed(const ShardLoss& found) {
    expects<ShapeError>(found.loss.defined() && found.loss.numel() == 1,
                        "Pipeline: the loss of a micro-batch must be one number, the mean over its examples");
    Tensor numbers = found.loss.detach().reshape({1}).to(DType::float64) / body.options.micro_batches;
    if (found.sums.defined())
      numbers = operators::cat({numbers, found.sums.detach().reshape({found.sums.numel()}).to(DType::float64)}, 0);
    (void)is_new(known.figures, {found.loss.dtype(), numbers.shape(), generator.position() - start});
    figures = figures.defined() ? figures + numbers : numbers;
    return found.loss;
  }

  void backward(std::size_t i, std::optional<std::size_t> fetched) {
    Tensor& y = outputs[i];
    Tensor gradient;
    if (body.is_last()) {
      gradient = filled(y.shape(), 1.0 / body.options.micro_batches, y.dtype());
    } else {
      gradient = Tensor(y.shape(), y.dtype());
      body.elements.receive(gradient, next());
    }
    if (y.requires_grad()) y.backward(gradient);  // a first stage may have nothing to train
    // Receives before it sends its gradient, so that neighbours that send to each other do not deadlock.
    if (fetched && !body.is_first()) fetch(*fetched);
    if (!body.is_first()) {
      const Tensor& back = inputs[i].grad();
      body.elements.send(back.defined() ? back : filled(inputs[i].shape(), 0, inputs[i].dtype()), previous());
    }
    inputs[i] = outputs[i] = Tensor();
  }

  ShardLoss run() {
    const auto count = static_cast<std::size_t>(body.options.micro_batches);
    inputs.resize(count);
    outputs.resize(count);
    // The number of forward passes before the first backward.
    const std::size_t ahead = std::min(count, static_cast<std::size_t>(body.group.size() - next()));
    for (std::size_t i = 0; i < ahead; ++i) forward(i);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + ahead < count) forward(i + ahead);
      const std::size_t following = i + ahead + 1;
      backward(i, following < count ? std::optional(following) : std::nullopt);
    }
    return gathered();
  }

  // The figures of the last rank, in all ranks.
  ShardLoss gathered() {
    const int last = body.group.size() - 1;
    if (is_new_size) {
      Tensor words = packed(known.figures.value_or(Handed{}));
      body.group.broadcast(words, last);
      known.figures = unpacked(words);
    }
    const Handed& all = *known.figures;
    ShardStreams::place(generator, start + all.drawn);
    if (!figures.defined()) figures = Tensor(all.shape, DType::float64);
    body.elements.broadcast(figures, last);
    const std::int64_t count = figures.numel();
    return {figures.slice(0, 0, 1).reshape({}).to(all.dtype), count > 1 ? figures.slice(0, 1, count) : Tensor()};
  }
};

Pipeline::Pipeline(const Group& group, const nn::Sequential& net, const PipelineOptions& options)
    : body_(std::make_shared<Body>(group, net, options)) {}

const nn::Sequential& Pipeline::stage() const { return body_->stage; }
nn::Sequential& Pipeline::stage() { return body_->stage; }
std::size_t Pipeline::first() const { return body_->first(); }
std::size_t Pipeline::last() const { return body_->last(); }

ShardLoss Pipeline::backward(std::int64_t batch, const std::function<Tensor(const data::Rows& rows)>& input,
                             const std::function<ShardLoss(const Tensor& y, const data::Rows& rows)>& loss) {
  Body& body = *body_;
  const int micro_batches = body.options.micro_batches;
  expects<ShapeError>(batch >= 1 && batch % micro_batches == 0, "Pipeline: a batch of ", batch,
                      " examples is not cut into ", micro_batches, " equal micro-batches");
  const std::int64_t rows = batch / micro_batches;
  const auto [known, is_new_size] = body.known.try_emplace({rows, body.stage.training()});
  return Pass{body, rows, input, loss, known->second, is_new_size}.run();
}

Tensor Pipeline::clip_grad_norm(double max_norm) {
  const Body& body = *body_;
  return optim::clip_by_sum(body.stage.parameters(), max_norm,
                            [&](const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares) {
                              return sum_over_parameters(parameters, squares,
                                                         body.group.size() == 1 ? nullptr : body.holding);
                            });
}

nn::State Pipeline::whole_state() const {
  const Body& body = *body_;
  const NoGrad no_grad;
  nn::State whole;
  for (int rank = 0; rank < body.group.size(); ++rank) {
    const bool own = rank == body.group.rank();
    const nn::State state = own ? body.stage.state() : nn::State();
    PlainStream names;
    for (const auto& [name, tensor] : state) names << name << '\n';
    std::istringstream all(body.group.broadcast(names.str(), rank));
    for (std::string name; std::getline(all, name);) {
      Tensor words = packed(own ? Handed{state.at(name).dtype(), state.at(name).shape()} : Handed{});
      body.group.broadcast(words, rank);
      const Handed handed = unpacked(words);
      const Tensor tensor = own ? state.at(name) : Tensor(handed.shape, handed.dtype);
      body.elements.broadcast(tensor, rank);
      whole.emplace(name, tensor);
    }
  }
  return whole;
}

std::vector<double> measured_costs(const nn::Sequential& net, const Tensor& x) {
  using Clock = std::chrono::steady_clock;
  Generator& generator = default_generator();
  const std::uint64_t position = generator.position();
  std::vector<std::pair<Tensor, Tensor>> before;  // buffers and gradients
  for (const nn::NamedTensor& named : net.named_buffers()) before.emplace_back(named.tensor, named.tensor.clone());
  std::vector<Tensor> parameters = net.parameters(), gradients;
  for (Tensor& tensor : parameters) {
    gradients.push_back(tensor.grad());
    tensor.zero_grad();
  }

  std::vector<double> costs(net.size());
  for (int run = 0; run < 3; ++run) {
    Tensor y = x.detach();
    for (std::size_t i = 0; i < net.size(); ++i) {
      const auto begin = Clock::now();
      Tensor in = y.clone();
      if (is_floating(in.dtype())) in.set_requires_grad();
      const Tensor out = net[i](in);
      if (out.requires_grad()) operators::sum(out).backward();
      y = out.detach();
      (void)operators::sum(y).item();  // waits for the device
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      costs[i] = run == 0 ? seconds : std::min(costs[i], seconds);
    }
  }
  const NoGrad no_grad;
  for (auto& [buffer, values] : before) buffer.copy_(values);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    gradients[i].defined() ? parameters[i].set_grad(gradients[i]) : parameters[i].zero_grad();
  generator.set_position(position);
  return costs;
}

}  // namespace tern::parallel
