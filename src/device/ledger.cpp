#include "device/ledger.hpp"

#include <atomic>
#include <mutex>

#include "device/recording.hpp"

namespace tern {

namespace {

struct Ledger {
  std::mutex mutex;
  std::vector<Transfer> transfers;  // since the process began
  std::vector<Transfer> forgotten;  // of these, before the last reset
};
Ledger& ledger() {
  static Ledger* const ledger = new Ledger;  // never destroyed: storages may outlive static destructors
  return *ledger;
}
std::atomic<void (*)(const std::string&)> log_handler{nullptr};

}  // namespace

void count_transfer(const Scope& scope, const Memory& from, const Memory& to, std::size_t bytes) {
  expects<TransferError>(
      scope.transfers != Transfers::forbid, "transfer: ", bytes, " bytes would move from ", from.name(), " to ",
      to.name(), " inside a scope that forbids transfers; create the tensor in this mode, or use it once outside");
  expects(Recording::current() == nullptr, "Step: ", bytes, " bytes would move from ", from.name(), " to ", to.name(),
          " while the step is recorded; a replay cannot repeat that. ",
          to.host_accessible() ? "Read values after the step, not inside it"
                               : "Make the tensor once, outside the function");
  {
    const std::lock_guard lock(ledger().mutex);
    Transfer* entry = nullptr;
    for (Transfer& known : ledger().transfers)
      if (known.from == from.name() && known.to == to.name()) entry = &known;
    if (entry == nullptr) {
      ledger().transfers.push_back({std::string(from.name()), std::string(to.name()), 0, 0});
      entry = &ledger().transfers.back();
    }
    entry->count += 1;
    entry->bytes += static_cast<std::int64_t>(bytes);
  }
  if (scope.transfers == Transfers::log)
    if (auto* handler = log_handler.load())
      handler(message("transfer: ", bytes, " bytes from ", from.name(), " to ", to.name()));
}

std::vector<Transfer> all_transfers() {
  const std::lock_guard lock(ledger().mutex);
  return ledger().transfers;
}

std::vector<Transfer> since(std::vector<Transfer> now, const std::vector<Transfer>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {  // entries are only ever added, at the end
    now[i].count -= before[i].count;
    now[i].bytes -= before[i].bytes;
  }
  std::erase_if(now, [](const Transfer& transfer) { return transfer.count == 0; });
  return now;
}

std::vector<Transfer> transfers() {
  const std::lock_guard lock(ledger().mutex);
  return since(ledger().transfers, ledger().forgotten);
}

void reset_transfers() {
  const std::lock_guard lock(ledger().mutex);
  ledger().forgotten = ledger().transfers;
}

void set_transfer_log(void (*handler)(const std::string& sentence)) { log_handler.store(handler); }

}  // namespace tern
