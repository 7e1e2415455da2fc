#include "dashboard.hpp"

#include "errors.hpp"

#if TERN_HTTP

#include <httplib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "page.hpp"

namespace tern::tool {

namespace {

using namespace std::chrono_literals;

constexpr auto heartbeat = 1s, farewell = 2s;

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 32; ++i) token += "0123456789abcdef"[device() & 15];
  return token;
}

std::size_t number_in(const std::string& text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

struct Dashboard::State {
  std::string name, address;
  httplib::Server server;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;
  bool finished = false;
  int readers = 0;

  // Sends what is new since event `next`; false when there will be no more.
  bool send(httplib::DataSink& sink, std::size_t& next) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, heartbeat, [&] { return finished || next < lines.size(); });
    std::string text;
    for (; next < lines.size(); ++next) text += "id: " + std::to_string(next + 1) + "\ndata: " + lines[next] + "\n";
    const bool last = finished;
    lock.unlock();
    // A comment tells whether anyone still reads.
    if (text.empty()) text = ": waiting\n\n";
    if (!sink.write(text.data(), text.size())) return false;
    if (last) sink.done();
    return true;
  }

  void serve(const std::string& token) {
    server.set_default_headers(
        {{"Cache-Control", "no-store"}, {"Referrer-Policy", "no-referrer"}, {"X-Content-Type-Options", "nosniff"}});
    server.Get("/" + token + "/", [this](const httplib::Request&, httplib::Response& response) {
      PageRun run{name, {}};
      {
        const std::lock_guard lock(mutex);
        run.lines = lines;
      }
      response.set_content(page({run}, "events"), "text/html; charset=utf-8");
    });
    server.Get("/" + token + "/events", [this](const httplib::Request& request, httplib::Response& response) {
      // A browser that reconnects says what it has.
      const std::string known = request.has_header("Last-Event-ID") ? request.get_header_value("Last-Event-ID")
                                                                    : request.get_param_value("from");
      {
        const std::lock_guard lock(mutex);
        ++readers;
      }
      response.set_chunked_content_provider(
          "text/event-stream",
          [this, next = number_in(known)](std::size_t, httplib::DataSink& sink) mutable { return send(sink, next); },
          [this](bool) {
            const std::lock_guard lock(mutex);
            --readers;
            changed.notify_all();
          });
    });
  }
};

Dashboard::Dashboard(const std::string& name, int port) : state_(std::make_unique<State>()) {
  const std::string token = random_token();
  state_->name = name;
  state_->serve(token);
  // Each open page holds a thread.
  state_->server.new_task_queue = [] { return new httplib::ThreadPool(16); };
  if (port == 0) {
    port = state_->server.bind_to_any_port("127.0.0.1");
  } else if (!state_->server.bind_to_port("127.0.0.1", port)) {
    port = -1;
  }
  expects<Error>(port > 0, "--dashboard: no port could be opened on 127.0.0.1; choose another --port");
  state_->address = message("http://127.0.0.1:", port, "/", token, "/");
  state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
}

Dashboard::~Dashboard() {
  {
    std::unique_lock lock(state_->mutex);
    state_->finished = true;
    state_->changed.notify_all();
    state_->changed.wait_for(lock, farewell, [&] { return state_->readers == 0; });
  }
  state_->server.stop();
  state_->thread.join();
}

const std::string& Dashboard::address() const { return state_->address; }

void Dashboard::push(const std::string& line) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->lines.push_back(line);
  }
  state_->changed.notify_all();
}

}  // namespace tern::tool

#else

namespace tern::tool {

struct Dashboard::State {
  std::string address;
};

Dashboard::Dashboard(const std::string&, int) {
  throw UsageError(
      "--dashboard: this program was built without cpp-httplib; install libcpp-httplib-dev, configure and build again");
}
Dashboard::~Dashboard() = default;
const std::string& Dashboard::address() const { return state_->address; }
void Dashboard::push(const std::string&) {}

}  // namespace tern::tool

#endif
