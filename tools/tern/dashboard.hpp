#pragma once

#include <memory>
#include <string>

namespace tern::tool {

/// Serves the page of a running training, on 127.0.0.1 only and under a random name, so that no other user and no web
/// page can find it.
class Dashboard {
 public:
  /// `port` 0 takes a free one. Throws Error if it cannot be served.
  Dashboard(const std::string& name, int port);
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;
  /// Lets the open pages receive the last events, for a moment at most.
  ~Dashboard();

  /// "http://127.0.0.1:PORT/TOKEN/".
  const std::string& address() const;
  /// Adds a line of the metrics; from any thread.
  void push(const std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern::tool
