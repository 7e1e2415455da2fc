// Zip files of .npy files, in the form that numpy.savez and numpy.savez_compressed write.

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "io/npy_bytes.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"
#include "tern/io/npy.hpp"

namespace tern::io {

namespace {

constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::uint64_t beyond = 0xffffffff;  // the number is in the entry's extra field
constexpr std::size_t local_size = 30, entry_size = 46, end_size = 22;

/// Little-endian numbers of a zip, each checked to lie inside the file.
class Reader {
 public:
  Reader(std::span<const std::byte> content, const std::string& file) : content_(content), file_(file) {}

  std::uint64_t number(std::uint64_t position, std::size_t bytes) const {
    std::uint64_t result = 0;
    const std::span<const std::byte> own = part(position, bytes);
    for (std::size_t i = bytes; i-- > 0;) result = result << 8 | static_cast<std::uint64_t>(own[i]);
    return result;
  }
  std::span<const std::byte> part(std::uint64_t position, std::uint64_t bytes) const {
    expects<FileError>(position <= content_.size() && bytes <= content_.size() - position, file_,
                       ": this zip file is damaged; copy it again");
    return content_.subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(bytes));
  }
  std::size_t size() const { return content_.size(); }
  const std::string& file() const { return file_; }

 private:
  std::span<const std::byte> content_;
  const std::string& file_;
};

struct Entry {
  std::string name = {};
  std::uint64_t method = 0, sum = 0, packed = 0, bytes = 0, local = 0;
  std::uint64_t size = 0;  ///< of the entry itself
};

Entry entry_at(const Reader& zip, std::uint64_t position) {
  expects<FileError>(zip.number(position, 4) == entry_mark, zip.file(), ": this zip file is damaged; copy it again");
  Entry entry{.method = zip.number(position + 10, 2),
              .sum = zip.number(position + 16, 4),
              .packed = zip.number(position + 20, 4),
              .bytes = zip.number(position + 24, 4),
              .local = zip.number(position + 42, 4)};
  const std::uint64_t name = zip.number(position + 28, 2), extra = zip.number(position + 30, 2),
                      comment = zip.number(position + 32, 2);
  const std::span<const std::byte> text = zip.part(position + entry_size, name);
  entry.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  entry.size = entry_size + name + extra + comment;
  // Numbers beyond 32 bits are, in this order, in the extra field of kind 1.
  for (std::uint64_t at = position + entry_size + name, end = at + extra; at + 4 <= end;) {
    const std::uint64_t kind = zip.number(at, 2), length = zip.number(at + 2, 2);
    std::uint64_t next = at + 4;
    if (kind == 1)
      for (std::uint64_t* field : {&entry.bytes, &entry.packed, &entry.local})
        if (*field == beyond && next + 8 <= at + 4 + length) {
          *field = zip.number(next, 8);
          next += 8;
        }
    at += 4 + length;
  }
  return entry;
}

/// The bytes of the file that an entry occupies, header included.
struct Extent {
  std::uint64_t begin = 0, bytes = 0, end = 0;
};

Extent extent_of(const Reader& zip, const Entry& entry) {
  expects<FileError>(zip.number(entry.local, 4) == local_mark, zip.file(), ": this zip file is damaged; copy it again");
  const std::uint64_t begin =
      entry.local + local_size + zip.number(entry.local + 26, 2) + zip.number(entry.local + 28, 2);
  zip.part(begin, entry.packed);
  return {entry.local, begin, begin + entry.packed};
}

/// Entries that share bytes would unpack to many times their honest size.
void check_apart(const Reader& zip, const std::vector<Entry>& entries) {
  std::vector<Extent> extents;
  for (const Entry& entry : entries) extents.push_back(extent_of(zip, entry));
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i)
    expects<FileError>(extents[i].begin >= extents[i - 1].end, zip.file(),
                       ": two of its arrays overlap; write it again with numpy.savez");
}

/// The bytes of an entry, unpacked and compared with their checksum.
std::vector<std::byte> unpacked(const Reader& zip, const Entry& entry) {
  const std::span<const std::byte> packed = zip.part(extent_of(zip, entry).bytes, entry.packed);
  std::vector<std::byte> bytes;
  if (entry.method == 0) {
    bytes.assign(packed.begin(), packed.end());
  } else {
    expects<FileError>(entry.method == Z_DEFLATED, zip.file(), ": ", entry.name, " is packed by method ", entry.method,
                       "; numpy.savez_compressed packs by deflate");
    // Deflate packs at most 1,032 bytes into one; a larger ratio is invalid.
    expects<FileError>(entry.bytes / 1032 <= entry.packed && entry.packed < (std::uint64_t{1} << 32), zip.file(), ": ",
                       entry.name, " says that ", entry.packed, " bytes hold ", entry.bytes);
    bytes.resize(static_cast<std::size_t>(entry.bytes));
    z_stream stream{};
    expects<FileError>(inflateInit2(&stream, -MAX_WBITS) == Z_OK, zip.file(), ": zlib failed to start");
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    int state = Z_OK;
    for (std::size_t done = 0; state == Z_OK;) {
      const std::size_t room = std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30);
      stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
      stream.avail_out = static_cast<uInt>(room);
      state = inflate(&stream, Z_NO_FLUSH);
      done += room - stream.avail_out;
      if (state == Z_OK && room == 0) break;  // more than declared
    }
    const bool whole = state == Z_STREAM_END && stream.total_out == bytes.size();
    inflateEnd(&stream);
    expects<FileError>(whole, zip.file(), ": ", entry.name, " is damaged; copy the file again");
  }
  uLong sum = crc32_z(0, nullptr, 0);
  sum = crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  expects<FileError>(bytes.size() == entry.bytes && sum == entry.sum, zip.file(), ": ", entry.name,
                     " is damaged: its check sum differs; copy the file again");
  return bytes;
}

void append(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

/// The fields that an entry and its local header have in common; version 2.0, stored, no time.
std::string common_fields(std::uint64_t sum, std::uint64_t bytes, std::uint64_t name) {
  std::string fields;
  append(fields, 20, 2);
  append(fields, 0, 2);
  append(fields, 0, 2);
  append(fields, 0, 2);
  append(fields, 0x21, 2);  // the first of January 1980, the earliest date
  append(fields, sum, 4);
  append(fields, bytes, 4);
  append(fields, bytes, 4);
  append(fields, name, 2);
  append(fields, 0, 2);
  return fields;
}

}  // namespace

std::vector<std::byte> content_of(const std::string& file) {
  const InputFile input(file);
  std::vector<std::byte> content(static_cast<std::size_t>(input.size()));
  input.read(0, content);
  return content;
}

void save_npz(const std::string& file, const std::map<std::string, Tensor>& tensors) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  expects<FileError>(tensors.size() < 65535, file, ": ", tensors.size(), " tensors; a zip holds at most 65,534");
  AtomicFile output(file);
  std::string entries;
  std::uint64_t position = 0;
  for (const auto& [key, tensor] : tensors) {
    const std::string name = key + ".npy", start = npy_start(tensor);
    expects<FileError>(name.size() < 65536, file, ": a name of ", name.size(), " bytes");
    const Tensor whole = tensor.detach().contiguous();
    std::vector<std::byte> swapped;
    const std::span<const std::byte> elements = bytes_in(std::endian::little, whole, swapped);
    uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(start.data()), start.size());
    if (!elements.empty())  // zlib restarts the sum for a null pointer
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(elements.data()), elements.size());
    const std::uint64_t bytes = start.size() + elements.size();
    const std::string fields = common_fields(sum, bytes, name.size());
    std::string local;
    append(local, local_mark, 4);
    local += fields + name + start;
    append(entries, entry_mark, 4);
    append(entries, 20, 2);
    entries += fields;
    append(entries, 0, 2);
    append(entries, 0, 2);
    append(entries, 0, 2);
    append(entries, 0, 4);
    append(entries, position, 4);
    entries += name;
    position += local.size() + elements.size();
    expects<FileError>(position + entries.size() + end_size < most, file,
                       ": more than 4 GiB; save safetensors, or several files");
    output.write(std::as_bytes(std::span(local)));
    output.write(elements);
  }
  std::string end;
  append(end, end_mark, 4);
  append(end, 0, 4);
  append(end, tensors.size(), 2);
  append(end, tensors.size(), 2);
  append(end, entries.size(), 4);
  append(end, position, 4);
  append(end, 0, 2);
  entries += end;
  output.write(std::as_bytes(std::span(entries)));
  output.commit();
}

std::map<std::string, Tensor> load_npz(const std::string& file) { return parse_npz(content_of(file), file); }

std::map<std::string, Tensor> parse_npz(std::span<const std::byte> content, const std::string& name) {
  const Reader zip(content, name);
  const bool small = content.size() < end_size;
  expects<FileError>(!small && (zip.number(0, 4) == local_mark || zip.number(0, 4) == end_mark), name,
                     ": this is not an .npz file; numpy.savez writes one");
  // A comment of up to 65,535 bytes may follow the end record.
  std::uint64_t end = zip.size() - end_size;
  while (zip.number(end, 4) != end_mark) {
    expects<FileError>(end > 0 && zip.size() - end < end_size + 65536, name,
                       ": this zip file is damaged; copy it again");
    --end;
  }
  std::uint64_t count = zip.number(end + 10, 2), position = zip.number(end + 16, 4);
  constexpr std::uint64_t wide_end = 56, locator = 20;  // of a zip beyond 32 bits, before the end record
  if (position == beyond && end >= locator && zip.number(end - locator, 4) == 0x07064b50) {
    const std::uint64_t wide = zip.number(end - locator + 8, 8);
    zip.part(wide, wide_end);
    count = zip.number(wide + 32, 8);
    position = zip.number(wide + 48, 8);
  }
  std::vector<Entry> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    entries.push_back(entry_at(zip, position));
    position += entries.back().size;
  }
  check_apart(zip, entries);
  std::map<std::string, Tensor> tensors;
  for (const Entry& entry : entries) {
    expects<FileError>(entry.name.ends_with(".npy"), name, ": ", entry.name,
                       " in it is not an array; numpy.savez puts .npy files into its zip");
    const std::string key = entry.name.substr(0, entry.name.size() - 4);
    expects<FileError>(!tensors.contains(key), name, ": two arrays are named ", key);
    tensors.emplace(key, parse_npy(unpacked(zip, entry), message(name, ": ", entry.name)));
  }
  return tensors;
}

}  // namespace tern::io
