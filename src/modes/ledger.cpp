#include "modes/ledger.hpp"

#include <atomic>
#include <mutex>

#include "tern/core/error.hpp"

namespace tern {

namespace {

std::atomic<void (*)(const std::string&)> log_handler{nullptr};

struct Ledger final : Observer {
  std::mutex mutex;
  std::vector<Transfer> transfers;  // since the process began
  std::vector<Transfer> forgotten;  // those before the last reset

  void begin_move(const Move& move) override {
    const Transfers allowed = current_scope().transfers;
    expects<TransferError>(allowed != Transfers::forbid, "transfer: ", move.bytes, " bytes would move from ",
                           move.from.name(), " to ", move.to.name(),
                           " inside a scope that forbids transfers; create the tensor in this mode, or use it once "
                           "outside");
    if (allowed == Transfers::log)
      if (auto* handler = log_handler.load())
        handler(message("transfer: ", move.bytes, " bytes from ", move.from.name(), " to ", move.to.name()));
  }

  void end_move(const Move& move) noexcept override {
    const std::lock_guard lock(mutex);
    Transfer* entry = nullptr;
    for (Transfer& known : transfers)
      if (known.from == move.from.name() && known.to == move.to.name()) entry = &known;
    if (entry == nullptr) {
      transfers.push_back({std::string(move.from.name()), std::string(move.to.name()), 0, 0});
      entry = &transfers.back();
    }
    entry->count += 1;
    entry->bytes += static_cast<std::int64_t>(move.bytes);
  }
};

Ledger& entries() {
  static Ledger* const ledger = new Ledger;  // never destroyed: storages may outlive static destructors
  return *ledger;
}

}  // namespace

Observer& ledger() { return entries(); }

std::vector<Transfer> all_transfers() {
  const std::lock_guard lock(entries().mutex);
  return entries().transfers;
}

std::vector<Transfer> since(std::vector<Transfer> now, const std::vector<Transfer>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {  // entries are only ever appended
    now[i].count -= before[i].count;
    now[i].bytes -= before[i].bytes;
  }
  std::erase_if(now, [](const Transfer& transfer) { return transfer.count == 0; });
  return now;
}

std::vector<Transfer> transfers() {
  const std::lock_guard lock(entries().mutex);
  return since(entries().transfers, entries().forgotten);
}

void reset_transfers() {
  const std::lock_guard lock(entries().mutex);
  entries().forgotten = entries().transfers;
}

void set_transfer_log(void (*handler)(const std::string& sentence)) { log_handler.store(handler); }

}  // namespace tern
