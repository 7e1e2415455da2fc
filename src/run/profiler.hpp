#pragma once
// The data that a Profile collects.

#include <chrono>
#include <set>

#include "tern/modes/observer.hpp"
#include "tern/run/profile.hpp"

namespace tern {

class ProfileRecorder final : public Observer {
 public:
  explicit ProfileRecorder(const ProfileOptions& options);
  ~ProfileRecorder() override;

  void before(const OperatorCall& call) override;
  void after(const OperatorCall& call) override;
  void failed(const OperatorCall& call) noexcept override;
  void begin_move(const Move& move) override;
  void end_move(const Move& move) noexcept override;
  void begin_wait() override;
  void end_wait() noexcept override;

  void stop();
  ProfileTable table(const Roofline& roofline);
  std::string trace();

 private:
  enum class Kind : std::uint8_t { work, transfer, wait };
  using Mark = void*;
  struct Piece {
    const char* name;
    const Mode* mode;
    const Timer* timer;  // null: the host's clock is used
    Mark first = nullptr, last = nullptr;
    int parent;  // -1: none
    Kind kind;
    bool backward;
    double begin, end = -1;                   // on the host, seconds after the start
    double device_begin = 0, device_end = 0;  // seconds after its origin's mark
    double flops = 0, bytes = 0;
    const char* source = nullptr;  // the public operator with its attributes; null: none
    std::vector<std::pair<const char*, const char*>> algorithms = {};  // decisions and the algorithms they took
  };
  // What is open: a piece (-1: not measured), and the mode whose profiler sees a range.
  struct Open {
    int piece;
    const Timer* ranges;
  };
  // The first mark in a mode: the zero of its device's time line, set at `begin` by the host's clock.
  struct Origin {
    const Mode* mode;
    Mark mark;
    double begin;
  };

  // False inside another Profile, which then measures instead.
  bool measures() const;
  // Begins and ends a piece of work. `name` must outlive the recorder. `on_host`: the host's clock times it, whatever
  // the scope's mode can do.
  void open(const char* name, Kind kind, bool on_host);
  void close() noexcept;

  double now() const;
  Mark set_mark(const Timer& timer, void* stream) noexcept;
  const char* intern(const std::string& name);
  void resolve();
  std::vector<double> own_seconds() const;

  ProfileOptions options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double stopped_ = -1;
  ProfileRecorder* outer_;
  std::vector<Transfer> transfers_before_, transfers_after_;
  std::vector<Piece> pieces_;
  std::size_t resolved_ = 0;  // the pieces whose marks have been read
  std::vector<Open> open_;
  std::vector<Origin> origins_;
  std::vector<std::pair<const Timer*, Mark>> spare_;  // marks for reuse
  std::set<std::string> names_;
  std::int64_t recorded_ = 0;
};

}  // namespace tern
