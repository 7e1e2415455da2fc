#include "ranks.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "errors.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

// The default number of shards per batch: enough for 2, 4 and 8 ranks to have the same bits.
constexpr std::int64_t usual_shards = 8;
constexpr std::int64_t most_shards = 4096;

}  // namespace

Options rank_options(Settings& settings) {
  Option shards{.name = "shards",
                .value = "N",
                .help = "shards per batch, whose sum is the same for any number of ranks; 0: one per rank"};
  shards.set = [&settings](const std::string& text) {
    settings.shards = parse_integer("shards", text, 0, most_shards);
  };
  shards.get = [&settings] { return settings.shards ? Json(*settings.shards) : Json(); };
  Options table{integer_option("ranks", "N", "threads that train together, each on a share of every batch",
                               settings.ranks, 1, 1024),
                choice_option("parallel", "threads, or mpi: the processes that mpirun started", {"threads", "mpi"},
                              settings.parallel),
                shards,
                integer_option("rank-limit", "SECONDS", "longest time that a rank waits for another; 0: no limit",
                               settings.rank_limit, 0, 1 << 20)};
  for (Option& option : restart_options(settings)) table.push_back(std::move(option));
  for (Option& option : table) option.group = "Ranks";
  return table;
}

Options restart_options(Settings& settings) {
  Option launcher = text_option("launcher", "WORDS",
                                "command that starts the processes of --restarts (mpirun -n RANKS)", settings.launcher);
  launcher.typed_only = true;
  return {integer_option("restarts", "N", "restart at most N times from the last checkpoint when a rank is lost",
                         settings.restarts, 0, 1 << 20),
          std::move(launcher)};
}

void complete_ranks(Settings& settings, int ranks) {
  if (!settings.shards) settings.shards = ranks > 1 ? std::max<std::int64_t>(usual_shards, ranks) : 1;
  expects<UsageError>(*settings.shards == 0 || *settings.shards >= ranks, "--shards ", *settings.shards, ": ", ranks,
                      " ranks need at least one shard each; a training that started with fewer shards continues with "
                      "as few ranks");
  expects<UsageError>(*settings.shards <= *settings.batch_size, "--shards ", *settings.shards, ": a batch has ",
                      *settings.batch_size, " examples (--batch-size, of all ranks)");
}

std::string device_of_rank(const Mode& mode, int rank) {
  const int count = mode.places == nullptr ? 1 : mode.places->count;
  return mode.index != 0 || rank % count == 0 ? mode.name : message(mode.name, ':', rank % count);
}

int agreed(const parallel::Group& group, int own) {
  if (group.size() == 1) return own;
  const Tensor word = scalar(static_cast<std::int32_t>(own));
  group.broadcast(word);
  return word.item<std::int32_t>();
}

namespace {

// The first sentence in rank order, in all ranks, in which a rank reports that it differs from rank 0.
std::string first_difference(const parallel::Group& group, const std::string& own) {
  constexpr std::size_t longest = 240;
  for (const std::string& found : group.all_gather(own.size() > longest ? own.substr(0, longest) + " ..." : own))
    if (!found.empty()) return found;
  return {};
}

}  // namespace

void check_same_options(const parallel::Group& group, const Options& options) {
  Json own = to_config(options);
  for (const char* name : {"quiet", "verbose", "dashboard", "port", "tensorboard"}) own.erase(name);
  const std::string first = group.broadcast(json_text(own));
  std::string difference;
  if (const Json there = parse_json(first, "rank 0"); first != json_text(own))
    for (const Option& option : options) {
      const Json here = own.value(option.name, Json()), wanted = there.value(option.name, Json());
      if (json_text(here) == json_text(wanted)) continue;
      const auto shown = [](const Json& value) { return value.is_null() ? "nothing" : json_text(value); };
      difference = message("--", option.name, " is ", shown(here), " in rank ", group.rank(), " and ", shown(wanted),
                           " in rank 0; give all ranks the same options");
      break;
    }
  difference = first_difference(group, difference);
  expects<UsageError>(difference.empty(), difference);
}

void check_same_data(const parallel::Group& group, const std::string& what, const std::string& text) {
  const bool same = group.broadcast(text) == text;
  const std::string difference = first_difference(
      group,
      same ? std::string()
           : message(what, ": rank ", group.rank(), " has read other data than rank 0; all ranks need the same files"));
  expects<FileError>(difference.empty(), difference);
}

void share_settings(const parallel::Group& group, const Options& options) {
  const std::string text = group.broadcast(group.rank() == 0 ? json_text(to_config(options)) : std::string());
  if (group.rank() != 0) apply_config(options, parse_json(text, "rank 0"), "rank 0", {});
}

void share_checkpoint(const parallel::Group& group, io::Checkpoint& checkpoint) {
  const bool first = group.rank() == 0;
  Json words;
  if (first) {
    words = {{"step", checkpoint.step},
             {"epoch", checkpoint.epoch},
             {"batch", checkpoint.batch},
             {"seed", checkpoint.seed},
             {"random_position", checkpoint.random_position}};
    words["metadata"] = checkpoint.metadata;
    words["tensors"] = Json::array();
    for (const auto& [name, tensor] : checkpoint.tensors)
      words["tensors"].push_back({name, static_cast<int>(tensor.dtype()),
                                  std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())});
  }
  words = parse_json(group.broadcast(first ? json_text(words) : std::string()), "rank 0");
  if (!first) {
    checkpoint = {};
    checkpoint.metadata = words["metadata"].get<std::map<std::string, std::string>>();
    checkpoint.step = words["step"];
    checkpoint.epoch = words["epoch"];
    checkpoint.batch = words["batch"];
    checkpoint.seed = words["seed"];
    checkpoint.random_position = words["random_position"];
    for (const Json& entry : words["tensors"])
      checkpoint.tensors.emplace(
          entry[0], Tensor(Shape(entry[2].get<std::vector<std::int64_t>>()), static_cast<DType>(entry[1].get<int>())));
  }
  for (const auto& [name, tensor] : checkpoint.tensors) group.broadcast(tensor);
}

int run_processes(const parallel::LaunchOptions& options, const std::function<int(const parallel::Group&)>& program) {
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(options.limit);
  const auto words = [&](const char* what) { return message(what, " within ", limit.count(), " s (--rank-limit)"); };
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // without mpirun they would not end
  auto start = std::make_unique<Deadline>(limit, words("the ranks did not all start"));
  int code = failed;
  parallel::launch(options, [&](const parallel::Group& processes) {
    start.reset();
    code = program(processes);
    Deadline::of_the_end(limit, words("the other ranks did not end"));  // including the group's
  });
  return code;
}

struct Deadline::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool met = false;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

Deadline::Deadline(std::chrono::seconds limit, std::string words) : state_(std::make_shared<State>()) {
  if (limit.count() == 0) return;
  std::thread([state = state_, limit, words = std::move(words)] {
    std::unique_lock lock(state->mutex);
    while (std::chrono::steady_clock::now() < state->began + limit)
      if (state->changed.wait_until(lock, state->began + limit, [&] { return state->met; })) return;
    say("tern: " + words);
    std::_Exit(rank_lost);
  }).detach();
}

Deadline::~Deadline() {
  const std::lock_guard lock(state_->mutex);
  state_->met = true;
  state_->changed.notify_all();
}

// The watching thread checks when the first period is over, so that a renewal wakes no thread.
void Deadline::renew() {
  const std::lock_guard lock(state_->mutex);
  state_->began = std::chrono::steady_clock::now();
}

void Deadline::of_the_end(std::chrono::seconds limit, std::string words) {
  // Only the end of the process meets it.
  static const Deadline* const end = new Deadline(limit, std::move(words));
  (void)end;
}

}  // namespace tern::tool
