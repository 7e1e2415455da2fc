#include "tensorboard.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "errors.hpp"
#include "tern/io/file.hpp"

namespace tern::tool {

namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Word>
std::string little_endian(Word word) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof word; ++i) bytes += static_cast<char>(static_cast<unsigned char>(word >> (8 * i)));
  return bytes;
}

// ---- protocol buffers: a key is the field's number and how its value is written
// ---------------------------------------
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  return bytes + static_cast<char>(static_cast<unsigned char>(value));
}
std::string key(unsigned field, unsigned kind) { return varint(field << 3 | kind); }
std::string double_field(unsigned field, double value) {
  return key(field, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(unsigned field, float value) {
  return key(field, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string integer_field(unsigned field, std::int64_t value) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes_field(unsigned field, const std::string& value) {
  return key(field, 2) + varint(value.size()) + value;
}

std::uint32_t masked_sum(const std::string& bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

std::string event_at(std::int64_t step) { return double_field(1, wall_time()) + integer_field(2, step); }

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t entry = i;
      for (int bit = 0; bit < 8; ++bit) entry = (entry >> 1) ^ (entry & 1 ? 0x82f63b78u : 0);
      entries[i] = entry;
    }
    return entries;
  }();
  std::uint32_t sum = 0xffffffffu;
  for (const char c : bytes) sum = (sum >> 8) ^ table[(sum ^ static_cast<unsigned char>(c)) & 0xff];
  return sum ^ 0xffffffffu;
}

TensorBoard::TensorBoard(const std::string& folder, std::int64_t step) {
  io::make_folders(folder);
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  name_ = message(folder, "/events.out.tfevents.", static_cast<std::int64_t>(wall_time()), ".", host, ".", ::getpid());
  file_.open(name_, std::ios::binary);
  record(double_field(1, wall_time()) + bytes_field(3, "brain.Event:2"));
  if (step > 0) record(event_at(step + 1) + bytes_field(7, integer_field(1, 1)));  // a session begins here
}

void TensorBoard::record(const std::string& message_bytes) {
  const std::string length = little_endian(std::uint64_t{message_bytes.size()});
  file_ << length << little_endian(masked_sum(length)) << message_bytes << little_endian(masked_sum(message_bytes));
  file_.flush();
  expects<FileError>(file_.good(), name_, ": cannot be written");
}

void TensorBoard::scalar(const char* tag, const Json& event, const char* name) {
  const auto found = event.find(name);
  if (found == event.end() || !found->is_number()) return;
  const std::string value = bytes_field(1, tag) + float_field(2, found->get<float>());
  record(event_at(event.value("step", std::int64_t{0})) + bytes_field(5, bytes_field(1, value)));
}

void TensorBoard::write(const Json& event) {
  if (event["event"] == "step") scalar("loss/step", event, "loss");
  if (event["event"] != "epoch") return;
  scalar("loss/training", event, "loss");
  scalar("loss/validation", event, "validation_loss");
  scalar("accuracy/training", event, "accuracy");
  scalar("accuracy/validation", event, "validation_accuracy");
  scalar("r2/training", event, "r2");
  scalar("r2/validation", event, "validation_r2");
  scalar("rmse/validation", event, "validation_rmse");
  scalar("learning_rate", event, "learning_rate");
}

}  // namespace tern::tool
