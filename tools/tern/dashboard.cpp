#include "dashboard.hpp"

#include <charconv>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "http_server.hpp"
#include "page.hpp"

namespace tern::tool {

namespace {

using namespace std::chrono_literals;

constexpr auto farewell = 2s;

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 32; ++i) token += "0123456789abcdef"[device() & 15];
  return token;
}

std::size_t number_in(std::string_view text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

struct Dashboard::State {
  std::string name, token = random_token(), address;
  std::mutex mutex;
  std::vector<std::string> lines;
  HttpServer server;
  std::thread thread;

  State(std::string shown, int port)
      : name(std::move(shown)), server(port, [this](const HttpServer::Request& request) { return answer(request); }) {
    address = message("http://127.0.0.1:", server.port(), "/", token, "/");
    thread = std::thread([this] { server.run(); });
  }

  HttpServer::Response answer(const HttpServer::Request& request) {
    if (request.path == "/" + token + "/") {
      PageRun run{name, {}};
      {
        const std::lock_guard lock(mutex);
        run.lines = lines;
      }
      return {.type = "text/html; charset=utf-8", .body = page({run}, "events")};
    }
    if (request.path != "/" + token + "/events") return {.status = 404, .body = "nothing is here\n"};
    // A reconnecting browser says what it has.
    const auto known = request.headers.find("last-event-id");
    const std::string_view from =
        std::string_view(request.query).starts_with("from=") ? std::string_view(request.query).substr(5) : "";
    return {.type = "text/event-stream",
            .stream = [this](std::size_t& next, std::string& text) { append(next, text); },
            .next = number_in(known != request.headers.end() ? std::string_view(known->second) : from)};
  }

  void append(std::size_t& next, std::string& text) {
    const std::lock_guard lock(mutex);
    for (; next < lines.size(); ++next) text += message("id: ", next + 1, "\ndata: ", lines[next], "\n");
  }
};

Dashboard::Dashboard(const std::string& name, int port) : state_(std::make_unique<State>(name, port)) {}

Dashboard::~Dashboard() {
  state_->server.finish(farewell);
  state_->thread.join();
}

const std::string& Dashboard::address() const { return state_->address; }

void Dashboard::push(const std::string& line) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->lines.push_back(line);
  }
  state_->server.wake();
}

}  // namespace tern::tool
