#include "modes/explanations.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace tern {

namespace {

constexpr std::size_t most = 64;

struct Book {
  std::mutex mutex;
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::string>>> by_device;
};
Book& book() {
  static Book* const book = new Book;  // never destroyed: a Device may outlive static destructors
  return *book;
}

}  // namespace

void explain(std::uint64_t device, std::uint64_t subject, std::string sentence) {
  const std::lock_guard lock(book().mutex);
  auto& sentences = book().by_device[device];
  std::erase_if(sentences, [&](const auto& known) { return known.first == subject; });
  if (sentences.size() == most) sentences.erase(sentences.begin());
  sentences.emplace_back(subject, std::move(sentence));
}

std::vector<std::string> explanations(std::uint64_t device) {
  const std::lock_guard lock(book().mutex);
  std::vector<std::string> result;
  for (const auto& [subject, sentence] : book().by_device[device]) result.push_back(sentence);
  return result;
}

void forget_explanations(std::uint64_t device) noexcept {
  const std::lock_guard lock(book().mutex);
  book().by_device.erase(device);
}

}  // namespace tern
