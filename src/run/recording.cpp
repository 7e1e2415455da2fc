#include "run/recording.hpp"

#include <algorithm>

#include "modes/aside.hpp"
#include "tensor/shard_streams.hpp"
#include "tern/autograd/tape.hpp"

namespace tern {

namespace {

constinit thread_local Recording* running_recording = nullptr;

// For storages from outside, their addresses; for others, a number.
std::uint64_t name_of(Recording::Part part, std::uint64_t number) {
  return (static_cast<std::uint64_t>(part) << 60) + number;
}

enum class Word : std::uint8_t { read, write, update, look_at_gradient, replace_gradient, draw, depend };

}  // namespace

Recording::Recording(const Mode& mode, const std::vector<Tensor>& inputs, bool captures)
    : memory_(mode.memory), capture_(mode.capture), inputs_(&inputs), captures_(captures) {
  running_recording = this;
  if (captures) marks_.emplace();
  begin();
}

Recording::~Recording() {
  end();
  running_recording = nullptr;
}

Recording* Recording::running() { return running_recording; }

void Recording::name(const Tensor& tensor, Part part, std::uint64_t number) {
  Used& known = used[&tensor.storage()];
  if (known.storage.expired()) known = {tensor.shared_storage(), part, name_of(part, number)};
}

Recording::Used& Recording::find(Storage& storage) {
  const auto [place, fresh] = used.try_emplace(&storage);
  // A new storage may have the address of an expired one.
  if (!fresh && !place->second.storage.expired()) return place->second;
  const bool made = storage.untouched();
  place->second = {storage.weak_from_this(), made ? Part::made : Part::outside,
                   made ? name_of(Part::made, made_++) : reinterpret_cast<std::uint64_t>(&storage)};
  return place->second;
}

void Recording::uses(Storage& storage, Memory& memory, bool reads, bool writes) {
  if (&memory != memory_) {
    if (!captures_) return;
    // Storages that the run itself created are gone with it; a replay would have to repeat anything else.
    const auto is = [&](const std::weak_ptr<Storage>& known) { return known.lock().get() == &storage; };
    if (std::ranges::any_of(elsewhere_, is)) return;
    expects(storage.untouched(), "Step: the function ", writes ? "writes" : "reads", " a tensor of ", storage.bytes(),
            " bytes in the memory ", memory.name(),
            ", which a replay cannot repeat; read values after the step, and write them before it");
    elsewhere_.push_back(storage.weak_from_this());
    return;
  }
  if (captures_) {
    WorkAside::uses(storage, writes);
    Marks::uses(storage);
  }
  Used& found = find(storage);
  if (found.part == Part::counter) return;
  expects(!captures_ || reads || found.part != Part::outside || storage.version() == 0 || storage.valid_in(memory),
          "Step: the function overwrites a tensor of ", storage.bytes(),
          " bytes that it did not use in the run before");
  found.written |= writes;
  found.changed |= writes && !Ahead::goes();
  order.push_back(found.name);
  order.push_back(static_cast<std::uint64_t>(!writes ? Word::read : reads ? Word::update : Word::write));
}

bool Recording::has_written(const Storage& storage) const noexcept {
  const auto found = used.find(&storage);
  return found != used.end() && found->second.changed;
}

void Recording::gradient(const Tensor& tensor, bool replaced) {
  const auto is = [&](const Tensor& other) { return other.is(tensor); };
  auto found = std::ranges::find_if(gradients, is, &Gradient::leaf);
  if (found == gradients.end()) {
    const auto input = std::ranges::find_if(*inputs_, is);
    const bool is_input = input != inputs_->end();
    const auto& before = tensor.body()->gradient;
    gradients.push_back(
        {tensor, is_input ? static_cast<int>(input - inputs_->begin()) : -1, before ? *before : Tensor(), !replaced});
    found = gradients.end() - 1;
    if (!replaced && before) name(*before, Part::gradient, gradients.size() - 1);
  }
  order.push_back(static_cast<std::uint64_t>(found - gradients.begin()));
  order.push_back(static_cast<std::uint64_t>(replaced ? Word::replace_gradient : Word::look_at_gradient));
}

namespace {

// The generator's position if shards of a batch had not set it back; all runs set it back alike.
std::uint64_t progress(const Generator& generator, bool of_thread) {
  return generator.position() + (of_thread ? ShardStreams::set_back() : 0);
}

}  // namespace

Recording::Random& Recording::find(Generator& generator) {
  const auto is = [&](const Random& known) { return known.generator == &generator && !known.life.expired(); };
  const auto found = std::ranges::find_if(random, is);
  if (found != random.end()) return *found;
  const bool of_thread = &generator == &default_generator();
  random.push_back({&generator,
                    generator.life(),
                    of_thread,
                    generator.seed(),
                    generator.position(),
                    progress(generator, of_thread),
                    {}});
  return random.back();
}

void Recording::expect(Generator& generator, Tensor counter) {
  find(generator).counter = counter;
  name(counter, Part::counter, random.size());
}

void Recording::draws(Generator& generator) {
  Random& known = find(generator);
  order.push_back(static_cast<std::uint64_t>(&known - random.data()));
  order.push_back(static_cast<std::uint64_t>(Word::draw));
  if (captures_ && known.counter.defined()) {
    expects(for_operator_,
            "Step: the function draws random numbers on the host, which a replay cannot repeat; draw "
            "them before the step and pass them to it");
    expects(generator.seed() == known.seed && progress(generator, known.of_thread) == known.next,
            "Step: the function sets the seed or the position of a random generator; do that between the steps");
  }
  known.next = progress(generator, known.of_thread) + 1;
}

bool Recording::draw(Generator& generator, random::Key& key) {
  for_operator_ = true;
  key = generator.next();
  for_operator_ = false;
  const Random& known = find(generator);
  if (known.counter.defined()) {
    key.offset -= known.start;
    key.base = static_cast<const std::uint64_t*>(known.counter.storage().read(current_scope()));
  }
  return true;
}

void Recording::begin_move(const Move& move) {
  expects(!captures_, "Step: ", move.bytes, " bytes would move from ", move.from.name(), " to ", move.to.name(),
          " while the step is recorded; a replay cannot repeat that. ",
          move.to.host_accessible() ? "Read values after the step, not inside it"
                                    : "Make the tensor once, outside the function");
}

void Recording::depends(const std::shared_ptr<const bool>& on) {
  order.push_back(reinterpret_cast<std::uint64_t>(on.get()));
  order.push_back(static_cast<std::uint64_t>(Word::depend));
  if (std::ranges::none_of(switches, [&](const Switch& known) { return known.on == on; }))
    switches.push_back({on, *on});
}

void Recording::check_generators() const {
  for (const Random& known : random) {
    if (known.life.expired()) continue;  // created by the run, and gone with it
    expects(known.counter.defined(),
            "Step: the function draws from a random generator that it did not draw from in the run before");
    expects(known.generator->seed() == known.seed && progress(*known.generator, known.of_thread) == known.next,
            "Step: the function sets the seed or the position of a random generator; do that between the steps");
  }
}

void Recording::restore() {
  end();
  for (Gradient& gradient : gradients) gradient.leaf.set_grad(gradient.before);
  for (Random& known : random)
    if (!known.life.expired()) {
      *known.generator = Generator(known.seed);
      known.generator->set_position(known.start);
    }
}

void Recording::joins(Ranks group) {
  if (std::ranges::find(ranks, group.group, &Ranks::group) == ranks.end()) ranks.push_back(std::move(group));
}

void Recording::drop_inner_leaves() {
  std::erase_if(gradients, [](const Gradient& gradient) { return gradient.leaf.handles() == 1; });
}

std::int64_t Recording::kept(const std::vector<const Storage*>& known) const {
  return std::ranges::count_if(used, [&](const auto& entry) {
    return entry.second.part == Part::made && !entry.second.storage.expired() &&
           std::ranges::find(known, entry.first) == known.end();
  });
}

}  // namespace tern
