#include "run/profiler.hpp"

#include <algorithm>
#include <iomanip>

#include "modes/ledger.hpp"
#include "modes/observed.hpp"
#include "run/operands.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

namespace {
constinit thread_local ProfileRecorder* innermost_recorder = nullptr;

// Every element read or written once: those of a dimension with stride 0 are one.
double bytes_of(const Operand& operand) {
  const Tensor& tensor = *operand.tensor;
  double count = 1;
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.strides()[i] != 0 || tensor.shape()[i] == 0) count *= static_cast<double>(tensor.shape()[i]);
  return count * static_cast<double>(operand.element) * operand.part * (operand.role == Role::inout ? 2 : 1);
}

}  // namespace

bool ProfileRecorder::measures() const { return innermost_recorder == this; }

ProfileRecorder::ProfileRecorder(const ProfileOptions& options)
    : options_(options), outer_(innermost_recorder), transfers_before_(all_transfers()) {
  innermost_recorder = this;
  begin();
}

ProfileRecorder::~ProfileRecorder() {
  stop();
  for (const Piece& piece : pieces_)
    for (const Mark mark : {piece.first, piece.last})
      if (mark != nullptr) piece.timer->destroy(mark);
  for (const Origin& origin : origins_) origin.mode->timer->destroy(origin.mark);
  for (const auto& [timer, mark] : spare_) timer->destroy(mark);
}

void ProfileRecorder::stop() {
  if (stopped_ >= 0) return;
  stopped_ = now();
  transfers_after_ = all_transfers();
  ProfileRecorder** place = &innermost_recorder;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  end();
}

double ProfileRecorder::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

const char* ProfileRecorder::intern(const std::string& name) { return names_.insert(name).first->c_str(); }

// Null if the device has failed: the operator will report that, and its piece has no time.
ProfileRecorder::Mark ProfileRecorder::set_mark(const Timer& timer, void* stream) noexcept {
  Mark mark = nullptr;
  try {
    const auto spare =
        std::find_if(spare_.begin(), spare_.end(), [&](const auto& candidate) { return candidate.first == &timer; });
    if (spare == spare_.end()) {
      mark = timer.make();
    } else {
      mark = spare->second;
      std::swap(*spare, spare_.back());
      spare_.pop_back();
    }
    timer.record(mark, stream);
    return mark;
  } catch (const std::exception&) {
    if (mark != nullptr) timer.destroy(mark);
    return nullptr;
  }
}

void ProfileRecorder::open(const char* name, Kind kind, bool on_host) {
  const Scope& scope = current_scope();
  const Timer* const timer = scope.mode->timer;
  const bool named = options_.ranges && timer != nullptr;
  if (named) timer->begin_range(RunningBackward::any() ? intern(message(name, " backward")) : name);
  open_.push_back({-1, named ? timer : nullptr});
  // Work that a Step records does not run now, and a mark inside a recording cannot be read.
  if (capturing() != nullptr) {
    recorded_ += kind == Kind::work;
    return;
  }
  if (!options_.times) return;
  const int parent = open_.size() > 1 ? open_[open_.size() - 2].piece : -1;
  open_.back().piece = static_cast<int>(pieces_.size());
  pieces_.push_back({.name = name,
                     .mode = scope.mode,
                     .timer = on_host ? nullptr : timer,
                     .parent = parent,
                     .kind = kind,
                     .backward = RunningBackward::any(),
                     .begin = now()});
  if (on_host || timer == nullptr) return;
  const auto known =
      std::find_if(origins_.begin(), origins_.end(), [&](const Origin& origin) { return origin.mode == scope.mode; });
  if (known == origins_.end()) {
    const Mark zero = set_mark(*timer, scope.context.stream);
    if (zero == nullptr) return;
    origins_.push_back({scope.mode, zero, now()});
  }
  pieces_.back().first = set_mark(*timer, scope.context.stream);
}

void ProfileRecorder::before(const OperatorCall& call) {
  if (!measures()) return;
  const char* const source = options_.times && call.source() != nullptr ? intern(text_of(*call.source())) : nullptr;
  open(call.name(), Kind::work, false);
  if (open_.back().piece >= 0) pieces_[open_.back().piece].source = source;
}

void ProfileRecorder::after(const OperatorCall& call) {
  if (!measures()) return;
  if (open_.back().piece >= 0) {
    Piece& piece = pieces_[open_.back().piece];
    piece.flops = call.flops();
    for (const Operand& operand : call.operands()) piece.bytes += bytes_of(operand);
    piece.algorithms = call.algorithms();
  }
  close();
}

void ProfileRecorder::failed(const OperatorCall&) noexcept {
  if (measures()) close();
}

void ProfileRecorder::begin_wait() {
  if (measures()) open("wait", Kind::wait, true);
}

void ProfileRecorder::end_wait() noexcept {
  if (measures()) close();
}

void ProfileRecorder::begin_move(const Move& move) {
  if (!measures()) return;
  // A copy to the host ends with a wait, so the host's clock measures all of it.
  const bool queued = current_scope().context.memory == &move.to;
  open(intern(message(move.from.name(), " to ", move.to.name())), Kind::transfer, !queued);
}

void ProfileRecorder::end_move(const Move&) noexcept {
  if (measures()) close();
}

void ProfileRecorder::close() noexcept {
  const Open open = open_.back();
  open_.pop_back();
  if (open.piece >= 0) {
    Piece& piece = pieces_[open.piece];
    if (piece.first != nullptr) piece.last = set_mark(*piece.timer, current_scope().context.stream);
    piece.end = now();
  }
  if (open.ranges != nullptr) open.ranges->end_range();
}

void ProfileRecorder::resolve() {
  for (; resolved_ < pieces_.size(); ++resolved_) {
    Piece& piece = pieces_[resolved_];
    if (piece.end < 0) break;  // still open
    if (piece.first == nullptr) continue;
    if (piece.last != nullptr) {
      const Timer& timer = *piece.timer;
      const auto origin = std::find_if(origins_.begin(), origins_.end(),
                                       [&](const Origin& candidate) { return candidate.mode == piece.mode; });
      const double length = timer.elapsed(piece.first, piece.last);
      piece.device_begin = timer.elapsed(origin->mark, piece.first);
      piece.device_end = piece.device_begin + length;
      spare_.emplace_back(&timer, std::exchange(piece.last, nullptr));
    }
    spare_.emplace_back(piece.timer, std::exchange(piece.first, nullptr));
  }
}

std::vector<double> ProfileRecorder::own_seconds() const {
  std::vector<double> seconds(resolved_);
  for (std::size_t i = 0; i < resolved_; ++i) {
    const Piece& piece = pieces_[i];
    const double length = piece.timer != nullptr ? piece.device_end - piece.device_begin : piece.end - piece.begin;
    seconds[i] += length;
    // The enclosing piece began earlier, so it has its place already.
    if (piece.parent >= 0 && (pieces_[piece.parent].timer != nullptr) == (piece.timer != nullptr))
      seconds[piece.parent] -= length;
  }
  for (double& own : seconds) own = std::max(own, 0.0);
  return seconds;
}

namespace {

/// "winograd", or "grad_x winograd" if the decision concerns a part of the operator.
std::string algorithm_of(std::string_view operator_name, std::string_view decision, std::string_view algorithm) {
  if (decision == operator_name) return std::string(algorithm);
  if (decision.starts_with(operator_name) && decision.substr(operator_name.size()).starts_with('_'))
    decision.remove_prefix(operator_name.size() + 1);
  return message(decision, ' ', algorithm);
}

/// Adds a word to a list without duplicates.
void add_word(std::string& list, const std::string& word) {
  if (message(", ", list, ',').find(message(", ", word, ',')) != std::string::npos) return;
  list += (list.empty() ? "" : ", ") + word;
}

}  // namespace

ProfileTable ProfileRecorder::table(const Roofline& roofline) {
  resolve();
  ProfileTable table;
  table.wall_seconds = stopped_ >= 0 ? stopped_ : now();
  table.recorded = recorded_;
  table.transfers = since(stopped_ >= 0 ? transfers_after_ : all_transfers(), transfers_before_);
  const std::vector<double> own = own_seconds();
  std::vector<double> best;  // of each row, at the roofline
  for (std::size_t i = 0; i < resolved_; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.kind == Kind::wait) {
      table.wait_seconds += own[i];
      continue;
    }
    auto row = std::find_if(table.rows.begin(), table.rows.end(), [&](const ProfileRow& known) {
      return known.backward == piece.backward && known.name == piece.name && known.mode == piece.mode->name;
    });
    if (row == table.rows.end()) {
      row = table.rows.insert(row, {.name = piece.name,
                                    .mode = piece.mode->name,
                                    .backward = piece.backward,
                                    .transfer = piece.kind == Kind::transfer});
    }
    ++row->calls;
    row->seconds += own[i];
    row->flops += piece.flops;
    row->bytes += piece.bytes;
    for (const auto& [decision, algorithm] : piece.algorithms)
      add_word(row->algorithm, algorithm_of(piece.name, decision, algorithm));
    table.seconds += own[i];
    const double compute = roofline.flops_per_second > 0 ? piece.flops / roofline.flops_per_second : 0;
    const double move = roofline.bytes_per_second > 0 ? piece.bytes / roofline.bytes_per_second : 0;
    if (!row->transfer) row->roofline += std::max(compute, move);
  }
  for (ProfileRow& row : table.rows) {
    row.share = table.seconds > 0 ? row.seconds / table.seconds : 0;
    row.roofline = row.seconds > 0 ? row.roofline / row.seconds : 0;
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return table;
}

namespace {

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

std::string microseconds(double seconds) {
  PlainStream text;
  text << std::fixed << std::setprecision(3) << seconds * 1e6;
  return text.str();
}

}  // namespace

std::string ProfileRecorder::trace() {
  resolve();
  // Nothing runs on a device before the host has queued it: that aligns the device's time line with the host's.
  std::vector<double> zero;
  for (const Origin& origin : origins_) {
    zero.push_back(origin.begin);
    for (std::size_t i = 0; i < resolved_; ++i)
      if (pieces_[i].timer != nullptr && pieces_[i].mode == origin.mode)
        zero.back() = std::max(zero.back(), pieces_[i].begin - pieces_[i].device_begin);
  }
  std::string json = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  json += R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "host"}})";
  for (std::size_t i = 0; i < origins_.size(); ++i)
    json += message(",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": ", i + 2,
                    ", \"args\": {\"name\": ", json_text(origins_[i].mode->name), "}}");
  static constexpr const char* categories[] = {"operator", "transfer", "wait"};
  const auto event = [&](const Piece& piece, std::size_t thread, double begin, double end) {
    json += message(
        ",\n{\"ph\": \"X\", \"name\": ", json_text(piece.backward ? std::string(piece.name) + " backward" : piece.name),
        ", \"cat\": \"", categories[static_cast<int>(piece.kind)], "\", \"pid\": 1, \"tid\": ", thread,
        ", \"ts\": ", microseconds(begin), ", \"dur\": ", microseconds(end - begin),
        ", \"args\": {\"mode\": ", json_text(piece.mode->name), ", \"flops\": ", static_cast<std::int64_t>(piece.flops),
        ", \"bytes\": ", static_cast<std::int64_t>(piece.bytes),
        piece.source == nullptr ? "" : ", \"operator\": " + json_text(piece.source), "}}");
  };
  for (std::size_t i = 0; i < resolved_; ++i) {
    const Piece& piece = pieces_[i];
    event(piece, 1, piece.begin, piece.end);
    for (std::size_t k = 0; k < origins_.size() && piece.timer != nullptr; ++k)
      if (origins_[k].mode == piece.mode) event(piece, k + 2, zero[k] + piece.device_begin, zero[k] + piece.device_end);
  }
  return json + "\n]}\n";
}

}  // namespace tern
