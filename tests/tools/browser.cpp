#include "browser.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tern/core/error.hpp"

namespace tern::testing {

namespace {

using Json = nlohmann::json;

std::string program() {
  for (const char* name : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (std::filesystem::exists(name)) return name;
  return {};
}

}  // namespace

bool Browser::available() { return !program().empty(); }

Browser::Browser(const std::string& address) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tern-browser-XXXXXX").string();
  expects<Error>(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
  profile_ = pattern;
  int in[2]{}, out[2]{};
  expects<Error>(::pipe(in) == 0 && ::pipe(out) == 0, "no pipe");
  pid_ = ::fork();
  expects<Error>(pid_ >= 0, "no process");
  if (pid_ == 0) {
    // Chromium reads commands from descriptor 3 and writes to 4.
    const int read_end = ::fcntl(in[0], F_DUPFD, 10), write_end = ::fcntl(out[1], F_DUPFD, 10);
    ::dup2(read_end, 3);
    ::dup2(write_end, 4);
    for (int descriptor = 5; descriptor < 256; ++descriptor) ::close(descriptor);
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::setpgid(0, 0);
    const std::string profile = "--user-data-dir=" + profile_, name = program();
    ::execl(name.c_str(), name.c_str(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--remote-debugging-pipe", "--window-size=1200,1600", profile.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  const Json target = call("Target.createTarget", {{"url", "about:blank"}}, false);
  session_ = call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}}, false)["sessionId"];
  call("Runtime.enable", Json::object(), true);
  call("Page.enable", Json::object(), true);
  call("Page.navigate", {{"url", address}}, true);
}

Browser::~Browser() {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(to_);
  ::close(from_);
  std::error_code ignored;
  std::filesystem::remove_all(profile_, ignored);
}

Json Browser::receive() {
  for (;;) {
    if (const auto end = buffer_.find('\0'); end != std::string::npos) {
      const Json message = Json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    expects<Error>(::poll(&ready, 1, 30000) == 1, "the browser does not answer");
    char part[65536];
    const ssize_t count = ::read(from_, part, sizeof part);
    expects<Error>(count > 0, "the browser is gone");
    buffer_.append(part, static_cast<std::size_t>(count));
  }
}

Json Browser::call(const std::string& method, Json parameters, bool of_page) {
  Json request{{"id", ++number_}, {"method", method}, {"params", std::move(parameters)}};
  if (of_page) request["sessionId"] = session_;
  const std::string text = request.dump() + '\0';
  expects<Error>(::write(to_, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "the browser is gone");
  for (;;) {
    const Json answer = receive();
    const std::string event = answer.value("method", "");
    if (event == "Runtime.exceptionThrown" ||
        (event == "Runtime.consoleAPICalled" && answer["params"]["type"] == "error"))
      complaints_ += answer["params"].dump() + "\n";
    if (answer.value("id", 0) != number_) continue;
    expects<Error>(answer.contains("result"), method, ": ", answer.dump());
    return answer["result"];
  }
}

Json Browser::evaluate(const std::string& expression) {
  const Json answer = call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}}, true);
  expects<Error>(!answer.contains("exceptionDetails"), expression, ": ", answer.dump());
  return answer["result"].value("value", Json());
}

void Browser::resize(int width) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", 1600}, {"deviceScaleFactor", 1}, {"mobile", false}}, true);
}

void Browser::show_as(const std::string& kind) {
  const Json scheme = Json::object({{"name", "prefers-color-scheme"}, {"value", kind == "dark" ? "dark" : "light"}});
  call("Emulation.setEmulatedMedia",
       {{"media", kind == "print" ? "print" : "screen"}, {"features", Json::array({scheme})}}, true);
}

bool Browser::wait_for(const std::string& expression) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    if (evaluate(expression) == true) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace tern::testing
