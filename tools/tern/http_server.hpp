#pragma once
// Serves pages to a browser on this machine: as much HTTP as a dashboard needs, in one thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tern::tool {

/// GET requests on 127.0.0.1. Nobody can block it: a request has five seconds and 16 KiB, 64 connections are open at a
/// time, and one that does not accept data within ten seconds is closed. It answers only to its own name, so that no
/// web page can reach it under another (DNS rebinding). It accepts no connection that would leave the process too few
/// files to open.
class HttpServer {
 public:
  struct Request {
    std::string path;                            ///< without the query
    std::string query;                           ///< after the question mark
    std::map<std::string, std::string> headers;  ///< names in lower case
  };
  struct Response {
    int status = 200;
    std::string type = {}, body = {};
    /// A stream of events: called from number `next` on until `finish`, with the number of the next event for this
    /// reader. Appends new events.
    std::function<void(std::size_t& next, std::string& text)> stream = {};
    std::size_t next = 0;
  };
  using Answer = std::function<Response(const Request&)>;

  /// `port` 0 takes a free one. Throws Error if there is none.
  HttpServer(int port, Answer answer);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  int port() const { return port_; }
  /// Serves until `finish`; for a separate thread.
  void run();
  /// Notifies streams that there is something new. From any thread.
  void wake();
  /// Lets streams send what is left, for `patience` at most, and ends `run`. From any thread.
  void finish(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;

  void accept_new(std::vector<Connection>& connections);
  bool serve(Connection& connection, bool readable);
  void respond(Connection& connection);
  bool send(Connection& connection);

  Answer answer_;
  int port_ = 0, listening_ = -1;
  int wake_read_ = -1, wake_write_ = -1;
  Clock::time_point accept_from_ = {};
  std::int64_t finish_ = 0;  // when, in the clock's ticks; 0: not yet. Atomic through std::atomic_ref.
};

}  // namespace tern::tool
