// The dashboard and its clients: strangers, slow ones, those that send too much and those that read nothing.

#include "dashboard.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "http_server.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Client {
 public:
  explicit Client(int port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(descriptor_); }

  bool connected() const { return connected_; }
  bool send(const std::string& text) const { return ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) > 0; }
  /// What comes until the other side closes or the time is up.
  std::string read(double seconds) const {
    std::string text;
    const double end = now() + seconds;
    while (now() < end) {
      pollfd ready{descriptor_, POLLIN, 0};
      if (::poll(&ready, 1, 20) <= 0) continue;
      char part[65536];
      const ssize_t count = ::recv(descriptor_, part, sizeof part, 0);
      if (count <= 0) break;
      text.append(part, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

struct Training {
  TemporaryFolder folder;
  std::unique_ptr<Process> process;
  std::string token;
  int port = 0;

  Training() {
    write_bytes(folder / "c.csv", clusters(60));
    process = std::make_unique<Process>(
        std::vector<std::string>{program_path, "train", "--dataset", "c.csv", "--epochs", "1000000", "--dashboard",
                                 "--mode", "vectorized", "--layers", "3,8,3"},
        ProcessOptions{.folder = folder.path()});
    std::string said;
    for (int i = 0; i < 4000 && process->running(); ++i) {
      said = process->err_so_far();
      const auto at = said.find("http://127.0.0.1:");
      if (at != std::string::npos && said.find('\n', at) != std::string::npos) {
        port = std::stoi(said.substr(at + 17));
        const auto slash = said.find('/', at + 17);
        token = said.substr(slash, said.find('/', slash + 1) + 1 - slash);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    INFO(said);
    REQUIRE(port > 0);
    REQUIRE(token.size() == 34);
    for (int i = 0; i < 200 && get(token).find("\"step\":3,") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string get(const std::string& path, const std::string& more = {}, double seconds = 5) const {
    const Client client(port);
    client.send("GET " + path + " HTTP/1.1\r\nHost: " + (more.empty() ? "127.0.0.1:" + std::to_string(port) : more) +
                "\r\n\r\n");
    return client.read(seconds);
  }
  double seconds_to_stop() const {
    const double began = now();
    process->signal(SIGTERM);
    CHECK(process->wait().code == 143);
    return now() - began;
  }
};

}  // namespace

TEST_CASE("dashboard: only its own name and its token open it", "[tools][dashboard]") {
  const Training training;
  const std::string page = training.get(training.token);
  CHECK_THAT(page, ContainsSubstring("HTTP/1.1 200 OK\r\n") &&
                       ContainsSubstring("Content-Type: text/html; charset=utf-8") &&
                       ContainsSubstring("\"event\":\"start\""));
  const std::string local = "localhost:" + std::to_string(training.port);
  CHECK_THAT(training.get(training.token, local), ContainsSubstring("200 OK"));
  // A name that somebody else made point here.
  for (const std::string& host : {std::string("attacker.example"), "attacker.example:" + std::to_string(training.port),
                                  std::string("127.0.0.1")}) {
    const std::string answer = training.get(training.token, host);
    CHECK_THAT(answer, ContainsSubstring("403 Forbidden"));
    CHECK(answer.find("start") == std::string::npos);
  }
  for (const char* path : {"/", "/events", "/00000000000000000000000000000000/", "//", "*"})
    CHECK_THAT(training.get(path), ContainsSubstring("404"));
  const std::string events = training.get(training.token + "events?from=1", {}, 1);
  CHECK_THAT(events, ContainsSubstring("text/event-stream") && ContainsSubstring("\nid: 2\ndata: {") &&
                         ContainsSubstring("\nid: 3\n"));
  CHECK(events.find("id: 1\n") == std::string::npos);
  const Client post(training.port);
  post.send("POST " + training.token + " HTTP/1.1\r\nHost: " + local + "\r\nContent-Length: 4\r\n\r\nbody");
  CHECK_THAT(post.read(5), ContainsSubstring("405"));
  const Client noise(training.port);
  noise.send("\r\n\r\n\r\n");
  CHECK_THAT(noise.read(5), ContainsSubstring("400"));
}

TEST_CASE("dashboard: who sends slowly or much does not hold the training up", "[tools][dashboard]") {
  const Training training;
  const Client slow(training.port);
  std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && slow.send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  {
    const Client flood(training.port);
    flood.send("POST / HTTP/1.1\r\nContent-Length: 10000000000\r\n\r\n");
    const std::string part(1 << 20, 'x');
    for (int i = 0; i < 200 && flood.send(part); ++i) {
    }
    const Client header(training.port);
    header.send("GET / HTTP/1.1\r\n");
    for (int i = 0; i < 200 && header.send("X-Header: " + std::string(1 << 16, 'x') + "\r\n"); ++i) {
    }
  }
  CHECK_THAT(training.get(training.token), ContainsSubstring("200 OK"));
  CHECK(training.seconds_to_stop() < 3);
  CHECK(training.process->wait().peak_bytes < (std::int64_t{300} << 20));
}

TEST_CASE("dashboard: readers that take nothing neither starve others nor delay the end", "[tools][dashboard]") {
  const Training training;
  std::vector<std::unique_ptr<Client>> stalled;
  for (int i = 0; i < 40; ++i) {
    stalled.push_back(std::make_unique<Client>(training.port));
    stalled.back()->send("GET " + training.token +
                         "events HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(training.port) + "\r\n\r\n");
  }
  CHECK_THAT(training.get(training.token), ContainsSubstring("200 OK"));
  CHECK(training.seconds_to_stop() < 5);
}

TEST_CASE("dashboard: a reader has the last event before the end", "[tools][dashboard]") {
  const Training training;
  const Client reader(training.port);
  reader.send("GET " + training.token + "events HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(training.port) +
              "\r\n\r\n");
  std::jthread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    training.process->signal(SIGINT);
  });
  CHECK_THAT(reader.read(10), ContainsSubstring("\"event\":\"interrupt\""));
  CHECK(training.process->wait().code == 130);
}

namespace {

/// A server of its own, and what its thread took of a processor.
class Served {
 public:
  Served()
      : server_(0, [](const tool::HttpServer::Request&) { return tool::HttpServer::Response{.body = "here"}; }),
        thread_([this] {
          server_.run();
          timespec time{};
          ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
          seconds_ = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
        }) {}
  int port() const { return server_.port(); }
  double stop() {
    server_.finish(std::chrono::milliseconds(0));
    thread_.join();
    return seconds_;
  }

 private:
  tool::HttpServer server_;
  double seconds_ = 0;
  std::thread thread_;
};

/// As many files may be open, while it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("dashboard: a thousand connections that say nothing cost nothing", "[tools][dashboard]") {
  Served served;
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(std::make_unique<Client>(served.port()));
  CHECK(idle.back()->connected());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  CHECK(served.stop() < 0.2);
}

TEST_CASE("dashboard: connections leave files to the training, and without files nothing spins", "[tools][dashboard]") {
  Served served;
  const int lowest = ::dup(STDERR_FILENO);
  ::close(lowest);
  const FileLimit limit(static_cast<rlim_t>(lowest) + 90);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 45; ++i) idle.push_back(std::make_unique<Client>(served.port()));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  {
    std::vector<std::unique_ptr<FILE, int (*)(FILE*)>> files;
    // The clients take files too: in the worst order of connecting 11 are left.
    for (int i = 0; i < 8; ++i) files.emplace_back(std::fopen("/dev/null", "r"), &std::fclose);
    for (const auto& file : files) CHECK(file != nullptr);
  }
  while (idle.size() < 200 && idle.back()->connected()) idle.push_back(std::make_unique<Client>(served.port()));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(served.stop() < 0.2);
}

TEST_CASE("dashboard: a reader that comes back says what it has, and hears that the run goes on",
          "[tools][dashboard]") {
  tool::Dashboard dashboard("a run", 0);
  for (int i = 0; i < 3; ++i) dashboard.push("{\"event\":\"step\"}\n");
  const std::string& address = dashboard.address();  // http://127.0.0.1:PORT/TOKEN/
  const auto slash = address.find('/', 17);
  const int port = std::stoi(address.substr(17));
  const std::string host = " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n";
  const std::string token = address.substr(slash);
  {
    const Client reader(port);
    reader.send("GET " + token + "events?from=0" + host + "Last-Event-ID: 2\r\n\r\n");
    const std::string events = reader.read(1.6);
    CHECK_THAT(events, ContainsSubstring("id: 3\n") && !ContainsSubstring("id: 2\n"));
    CHECK_THAT(events, ContainsSubstring(": waiting\n"));  // once a second
  }
  const Client other(port);
  other.send("POST " + token + host + "\r\n");
  CHECK_THAT(other.read(2), ContainsSubstring("405 Method Not Allowed"));
}

}  // namespace tern::testing
