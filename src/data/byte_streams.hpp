#pragma once
// Sequential readers of the bytes of a file, as they are or unpacked from gzip.

#ifndef TERN_WITHOUT_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/error.hpp"

namespace tern::data {

/// Bytes at a position of the file or memory.
struct Source {
  std::string name;
  std::uint64_t size = 0;
  std::function<void(std::uint64_t position, std::span<std::byte> bytes)> read;
};

/// A sequential reader of raw bytes.
class PlainStream {
 public:
  explicit PlainStream(const Source& source) : source_(source) {}
  /// Fills as much of `bytes` as is available and returns the count.
  std::size_t read(std::span<std::byte> bytes) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), source_.size - position_));
    source_.read(position_, bytes.first(count));
    position_ += count;
    return count;
  }

  /// The number of bytes left, at most `most`.
  std::uint64_t count(std::uint64_t most) const { return std::min(most, source_.size - position_); }

 private:
  const Source& source_;
  std::uint64_t position_ = 0;
};

#ifndef TERN_WITHOUT_ZLIB

/// A sequential reader of gzipped bytes.
class PackedStream {
 public:
  explicit PackedStream(const Source& source) : source_(source), input_(chunk) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw OutOfMemory(source.name + ": no memory to unpack the file");
  }
  PackedStream(const PackedStream&) = delete;
  PackedStream& operator=(const PackedStream&) = delete;
  ~PackedStream() { inflateEnd(&stream_); }

  std::size_t read(std::span<std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size() && !ended_) {
      const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30));
      stream_.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
      stream_.avail_out = room;
      step();
      done += room - stream_.avail_out;
    }
    return done;
  }

  /// The number of bytes left, at most `most`: inflates and drops them.
  std::uint64_t count(std::uint64_t most) {
    std::vector<std::byte> scratch(chunk);
    std::uint64_t found = 0;
    for (std::size_t part = 1; part > 0 && found < most; found += part)
      part = read(std::span(scratch).first(static_cast<std::size_t>(std::min<std::uint64_t>(chunk, most - found))));
    return found;
  }

 private:
  static constexpr std::size_t chunk = std::size_t{1} << 16;
  void step() {
    if (stream_.avail_in == 0) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, source_.size - position_));
      expects<FileError>(count > 0, source_.name, ": the gzip data ends early; the file was cut short, fetch it again");
      source_.read(position_, std::span(input_).first(count));
      position_ += count;
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(count);
    }
    const int status = inflate(&stream_, Z_NO_FLUSH);
    ended_ = status == Z_STREAM_END;
    expects<FileError>(ended_ || status == Z_OK || status == Z_BUF_ERROR, source_.name, ": the gzip data is damaged (",
                       stream_.msg != nullptr ? stream_.msg : "no reason given", "); fetch the file again");
    expects<FileError>(!ended_ || (stream_.avail_in == 0 && position_ == source_.size), source_.name,
                       ": bytes follow the end of the gzip data");
  }

  const Source& source_;
  std::vector<std::byte> input_;
  z_stream stream_{};
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

#else

/// In tern_single.hpp, which links with nothing.
class PackedStream {
 public:
  explicit PackedStream(const Source& source) {
    throw FileError(source.name +
                    ": this program reads no gzip; unpack the file, or define TERN_ZLIB and link with -lz");
  }
  std::size_t read(std::span<std::byte>) { return 0; }
  std::uint64_t count(std::uint64_t) { return 0; }
};

#endif

}  // namespace tern::data
