#include "http_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "errors.hpp"

namespace tern::tool {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_request = std::size_t{16} << 10, most_connections = 64,
                      most_unsent = std::size_t{1} << 20;
constexpr auto time_to_ask = 5s, time_to_take = 10s, heartbeat = 1s, time_without_files = 1s;

// Files that the training can still open when all connections are open: it must be able to save.
bool leaves_files(int descriptor) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  const rlim_t reserve = std::clamp<rlim_t>(limit.rlim_cur / 4, 8, 64);
  return static_cast<rlim_t>(descriptor) + reserve < limit.rlim_cur;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Empty method: not HTTP.
struct Parsed {
  std::string method;
  HttpServer::Request request;
};

Parsed parse(std::string_view text) {
  Parsed parsed;
  const auto take_line = [&] {
    const std::size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    return line;
  };
  const std::string_view first = take_line();
  const std::size_t space = first.find(' '), last = first.rfind(" HTTP/1.");
  if (space == std::string_view::npos || last == std::string_view::npos || last <= space) return parsed;
  const std::string_view target = first.substr(space + 1, last - space - 1);
  const std::size_t mark = std::min(target.find('?'), target.size());
  parsed.request.path = target.substr(0, mark);
  parsed.request.query = target.substr(std::min(mark + 1, target.size()));
  for (std::string_view line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return parsed;
    parsed.request.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  parsed.method = first.substr(0, space);
  return parsed;
}

const char* words_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

struct HttpServer::Connection {
  int descriptor = -1;
  Clock::time_point since = Clock::now();    // of the connection, then of the last byte that was received
  Clock::time_point written = Clock::now();  // when a stream was last written to
  std::string text = {};                     // of the request
  std::string unsent = {};
  bool answered = false;
  Response response = {};
};

HttpServer::HttpServer(int port, Answer answer) : answer_(std::move(answer)) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t length = sizeof address;
  int ends[2]{-1, -1};
  const bool open = listening_ >= 0 && ::setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                    ::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    ::listen(listening_, SOMAXCONN) == 0 &&
                    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                    ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
  if (!open) {
    if (listening_ >= 0) ::close(listening_);
    throw Error("--dashboard: no port could be opened on 127.0.0.1; choose another --port");
  }
  wake_read_ = ends[0];
  wake_write_ = ends[1];
  port_ = ntohs(address.sin_port);
}

HttpServer::~HttpServer() {
  for (const int descriptor : {listening_, wake_read_, wake_write_}) ::close(descriptor);
}

void HttpServer::wake() {
  const char byte = 0;
  // A full pipe wakes as well.
  if (::write(wake_write_, &byte, 1) < 0) return;
}

void HttpServer::finish(std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  std::atomic_ref(finish_).store(end.time_since_epoch().count());
  wake();
}

void HttpServer::run() {
  std::vector<Connection> connections;
  for (;;) {
    const std::int64_t end = std::atomic_ref(finish_).load();
    const auto now = Clock::now();
    if (end != 0 &&
        (now.time_since_epoch().count() >= end ||
         std::none_of(connections.begin(), connections.end(), [](const Connection& c) { return c.answered; })))
      break;
    // A pending connection that cannot be accepted would end every wait at once; poll skips -1.
    const bool accepts = end == 0 && connections.size() < most_connections && now >= accept_from_;
    std::vector<pollfd> waits{{wake_read_, POLLIN, 0}, {accepts ? listening_ : -1, POLLIN, 0}};
    for (const Connection& c : connections)
      waits.push_back({c.descriptor, static_cast<short>(c.unsent.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    ::poll(waits.data(), waits.size(), end != 0 ? 20 : 200);
    char drained[256];
    while (::read(wake_read_, drained, sizeof drained) > 0) {
    }
    for (std::size_t i = connections.size(); i-- > 0;)
      if (!serve(connections[i], waits[i + 2].revents != 0)) {
        ::close(connections[i].descriptor);
        connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
      }
    if (accepts) accept_new(connections);
  }
  for (const Connection& connection : connections) ::close(connection.descriptor);
}

void HttpServer::accept_new(std::vector<Connection>& connections) {
  while (connections.size() < most_connections) {
    const int descriptor = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0 || !leaves_files(descriptor)) {
      if (descriptor >= 0) ::close(descriptor);
      // If files have run out, the connection keeps waiting.
      if (descriptor >= 0 || (errno != EAGAIN && errno != EINTR)) accept_from_ = Clock::now() + time_without_files;
      return;
    }
    connections.push_back({.descriptor = descriptor});
  }
}

// False when the connection should be closed.
bool HttpServer::serve(Connection& c, bool readable) {
  const auto now = Clock::now();
  if (readable) {
    char part[4096];
    for (;;) {
      const ssize_t count = ::recv(c.descriptor, part, sizeof part, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) return false;
      if (c.answered) continue;  // a body, or another request: ignored
      c.text.append(part, static_cast<std::size_t>(count));
      if (c.text.size() > longest_request) return false;
      if (c.text.find("\r\n\r\n") == std::string::npos) continue;
      respond(c);
      c.since = now;
    }
  }
  if (!c.answered) return now - c.since < time_to_ask;
  if (c.response.stream && c.unsent.size() < most_unsent) {
    c.response.stream(c.response.next, c.unsent);
    // A comment shows whether anyone still reads.
    if (c.unsent.empty() && now - c.written > heartbeat) c.unsent = ": waiting\n\n";
  }
  const bool waiting = !c.unsent.empty();
  if (waiting && !send(c)) return false;
  if (waiting && !c.unsent.empty() && now - c.since > time_to_take) return false;
  if (c.unsent.empty()) c.since = now;
  return c.response.stream ? std::atomic_ref(finish_).load() == 0 || !c.unsent.empty() : !c.unsent.empty();
}

void HttpServer::respond(Connection& c) {
  c.answered = true;
  const Parsed parsed = parse(c.text);
  c.text.clear();
  const auto host = parsed.request.headers.find("host");
  const std::string own = message(":", port_);
  if (parsed.method.empty())
    c.response.status = 400;
  else if (host == parsed.request.headers.end() ||
           (host->second != "127.0.0.1" + own && host->second != "localhost" + own))
    c.response.status = 403;
  else if (parsed.method != "GET")
    c.response.status = 405;
  else
    c.response = answer_(parsed.request);
  const Response& r = c.response;
  c.unsent = message("HTTP/1.1 ", r.status, " ", words_of(r.status),
                     "\r\nConnection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
                     "X-Content-Type-Options: nosniff\r\nContent-Type: ",
                     r.type.empty() ? "text/plain" : r.type, "\r\n");
  if (!r.stream) c.unsent += message("Content-Length: ", r.body.size(), "\r\n");
  c.unsent += "\r\n";
  c.unsent += r.body;
  c.response.body.clear();
}

bool HttpServer::send(Connection& c) {
  std::size_t sent = 0;
  int error = 0;
  while (sent < c.unsent.size() && error == 0) {
    const ssize_t count = ::send(c.descriptor, c.unsent.data() + sent, c.unsent.size() - sent, MSG_NOSIGNAL);
    if (count >= 0)
      sent += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      error = errno;
  }
  c.unsent.erase(0, sent);
  if (sent > 0) c.since = c.written = Clock::now();
  return error == 0 || error == EAGAIN;
}

}  // namespace tern::tool
