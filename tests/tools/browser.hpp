#pragma once
// A page in headless Chromium, driven through its debugging pipe.

#include <nlohmann/json.hpp>
#include <string>

namespace tern::testing {

class Browser {
 public:
  /// Whether there is a Chromium here.
  static bool available();
  /// Opens a page.
  explicit Browser(const std::string& address);
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser();

  /// The value of a JavaScript expression.
  nlohmann::json evaluate(const std::string& expression);
  /// Makes the window so many pixels wide.
  void resize(int width);
  /// Shows the page on a "light" or "dark" screen, or as it is printed ("print").
  void show_as(const std::string& kind);
  /// Waits until an expression is true; false when 20 seconds passed.
  bool wait_for(const std::string& expression);
  /// What the page complained of: exceptions and errors on its console.
  const std::string& complaints() const { return complaints_; }

 private:
  nlohmann::json call(const std::string& method, nlohmann::json parameters, bool of_page);
  nlohmann::json receive();

  int pid_ = -1, to_ = -1, from_ = -1, number_ = 0;
  std::string session_, buffer_, profile_, complaints_;
};

}  // namespace tern::testing
