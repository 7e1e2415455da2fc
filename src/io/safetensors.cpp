#include "tern/io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "io/safetensors_header.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"

namespace tern::io {

namespace {

constexpr auto order = std::endian::little;

// `read(position, bytes)` fills bytes from a source of `size` bytes. Files and memory share one path, so tests and
// fuzzing in memory cover reading files.
template <class Read>
Safetensors read_all(const std::string& file, std::uint64_t size, const SafetensorsOptions& options, Read read) {
  expects<FileError>(size >= 8, file, ": not a safetensors file: expected at least 8 bytes, found ", size);
  std::array<std::byte, 8> prefix{};
  read(0, std::span(prefix));
  std::array<std::byte, 8> length_bytes = prefix;
  reorder(length_bytes, 8, order);
  const auto length = std::bit_cast<std::uint64_t>(length_bytes);
  // torch.save writes a zip archive; older versions wrote a plain pickle.
  const auto starts = [&](std::initializer_list<int> bytes) {
    return std::equal(bytes.begin(), bytes.end(), prefix.begin(),
                      [](int byte, std::byte found) { return static_cast<std::byte>(byte) == found; });
  };
  expects<FileError>(!starts({'P', 'K', 3, 4}) && !starts({0x80, 2, 0x8a}), file,
                     ": a pickle of PyTorch, not a safetensors file; convert it in Python: "
                     "safetensors.torch.save_file(torch.load(FILE, weights_only=True), \"FILE.safetensors\")");
  // The first bytes of another kind of file claim a header larger than any disk; then a larger limit does not help.
  const char* const way_out = length >> 40 == 0 ? " (SafetensorsOptions::header_limit raises it)" : "";
  expects<FileError>(length <= options.header_limit, file, ": not a safetensors file: its header claims ", length,
                     " bytes, the limit is ", options.header_limit, way_out);
  expects<FileError>(length <= size - 8, file, ": the header claims ", length, " bytes, the file holds ", size - 8,
                     " after its length; it was cut short");
  std::string text(static_cast<std::size_t>(length), '\0');
  read(8, std::as_writable_bytes(std::span(text)));

  Header header = parse_header(text, size - 8 - length, file);
  Safetensors result;
  result.metadata = std::move(header.metadata);
  for (const HeaderEntry& entry : header.entries) {
    Tensor tensor(entry.shape, entry.dtype);
    const std::span<std::byte> bytes = writable_bytes(tensor);
    if (!bytes.empty()) read(8 + length + entry.begin, bytes);
    reorder(bytes, size_of(entry.dtype), order);
    if (entry.dtype == DType::boolean)
      for (const std::byte value : bytes)
        expects<FileError>(std::to_integer<int>(value) <= 1, file, ": tensor ", quoted_name(entry.name),
                           ": a BOOL is 0 or 1, found ", std::to_integer<int>(value));
    result.tensors.emplace(entry.name, std::move(tensor));
  }
  return result;
}

std::size_t alignment_order(DType dtype) { return 8 - size_of(dtype); }

}  // namespace

Safetensors load_safetensors(const std::string& file, const SafetensorsOptions& options) {
  const InputFile input(file);
  return read_all(file, input.size(), options,
                  [&](std::uint64_t position, std::span<std::byte> bytes) { input.read(position, bytes); });
}

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                              const SafetensorsOptions& options) {
  return read_all(name, bytes.size(), options, [&](std::uint64_t position, std::span<std::byte> to) {
    if (!to.empty()) std::memcpy(to.data(), bytes.data() + position, to.size());
  });
}

void save_safetensors(const std::string& file, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<HeaderEntry, Tensor>> parts;
  for (const auto& [name, tensor] : tensors) {
    expects<FileError>(tensor.defined(), file, ": tensor ", quoted_name(name), " is undefined and cannot be saved");
    expects<FileError>(name != "__metadata__" && is_utf8(name), file, ": ", quoted_name(name),
                       " cannot name a tensor: it is reserved or not UTF-8");
    parts.emplace_back(HeaderEntry{.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()}, tensor);
  }
  for (const auto& [key, value] : metadata)
    expects<FileError>(is_utf8(key) && is_utf8(value), file, ": the metadata ", quoted_name(key), " is not UTF-8");
  // Largest elements first keeps every tensor aligned to its elements; then by name, so that the bytes are
  // reproducible.
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::tuple(alignment_order(a.first.dtype), std::string_view(a.first.name)) <
           std::tuple(alignment_order(b.first.dtype), std::string_view(b.first.name));
  });

  Header header;
  header.metadata = metadata;
  std::uint64_t position = 0;
  for (auto& [entry, tensor] : parts) {
    entry.begin = position;
    position += byte_count(entry.shape, size_of(entry.dtype));
    entry.end = position;
    header.entries.push_back(entry);
  }
  const std::string text = write_header(header);

  AtomicFile output(file);
  auto length = std::bit_cast<std::array<std::byte, 8>>(std::uint64_t{text.size()});
  reorder(length, 8, order);
  output.write(length);
  output.write(std::as_bytes(std::span(text)));
  std::vector<std::byte> swapped;
  for (const auto& [entry, tensor] : parts) {
    const Tensor whole = tensor.detach().contiguous();
    output.write(bytes_in(order, whole, swapped));
  }
  output.commit();
}

}  // namespace tern::io
