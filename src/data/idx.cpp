#include "tern/data/idx.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "data/byte_streams.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"

namespace tern::data {

namespace {

struct Header {
  DType dtype = DType::uint8;
  Shape shape;
  std::uint64_t bytes = 0;  // of the elements
};

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = (value << 8) | std::to_integer<std::uint32_t>(byte);
  return value;
}

DType dtype_of_code(unsigned code, const std::string& name) {
  switch (code) {
    case 0x08:
      return DType::uint8;
    case 0x0c:
      return DType::int32;
    case 0x0d:
      return DType::float32;
    case 0x0e:
      return DType::float64;
    case 0x09:
      return DType::int8;
    case 0x0b:
      throw FileError(message(name,
                              ": IDX elements of int16 are not supported; expected uint8, int8, int32, float32 "
                              "or float64"));
    default:
      throw FileError(message(name, ": unknown IDX element type ", code, "; expected 8, 9, 12, 13 or 14"));
  }
}

template <class Stream>
Header read_header(Stream& stream, const std::string& name, const IdxOptions& options) {
  std::array<std::byte, 4> magic{};
  expects<FileError>(stream.read(magic) == 4, name, ": not an IDX file: it ends inside the first 4 bytes");
  expects<FileError>(magic[0] == std::byte{0} && magic[1] == std::byte{0}, name,
                     ": not an IDX file: expected it (or what is packed in it) to begin with two zero bytes, found ",
                     std::to_integer<int>(magic[0]), " and ", std::to_integer<int>(magic[1]));
  Header header;
  header.dtype = dtype_of_code(std::to_integer<unsigned>(magic[2]), name);
  const int rank = std::to_integer<int>(magic[3]);
  expects<FileError>(rank >= 1 && rank <= Shape::max_rank, name, ": an IDX file of rank ", rank, "; expected 1 to ",
                     Shape::max_rank);
  expects<FileError>(options.rank == 0 || options.rank == rank, name, ": expected an IDX file of rank ", options.rank,
                     ", found rank ", rank, "; are images and labels swapped?");
  // Zeros are left out of the product that is limited: the strides of [0, huge, huge] must not overflow.
  std::uint64_t extent = size_of(header.dtype);
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    std::array<std::byte, 4> size{};
    expects<FileError>(stream.read(size) == 4, name, ": the IDX file ends inside its header");
    const std::uint64_t value = big_endian(size);
    header.shape.push_back(static_cast<std::int64_t>(value));
    empty = empty || value == 0;
    expects<FileError>(value == 0 || extent <= static_cast<std::uint64_t>(options.limit) / value, name,
                       ": declares more than ", options.limit, " bytes: shape ", header.shape,
                       "... (IdxOptions::limit raises the limit)");
    extent *= value == 0 ? 1 : value;
  }
  header.bytes = empty ? 0 : extent;
  return header;
}

template <class Stream>
void check_size(Stream& stream, const Header& header, const std::string& name) {
  const std::uint64_t found = stream.count(header.bytes + 1);
  expects<FileError>(found >= header.bytes, name, ": declares ", header.dtype, ' ', header.shape, " = ", header.bytes,
                     " bytes, found only ", found, "; the file was cut short, fetch it again");
  expects<FileError>(found == header.bytes, name, ": declares ", header.dtype, ' ', header.shape, " = ", header.bytes,
                     " bytes, but more follow; the header is wrong or the file damaged");
}

// Reads the file twice: first to check the declared size, then into a tensor of that size.
template <class Stream>
Tensor read_with(const Source& source, const IdxOptions& options) {
  {
    Stream stream(source);
    check_size(stream, read_header(stream, source.name, options), source.name);
  }
  Stream stream(source);
  const Header header = read_header(stream, source.name, options);
  Tensor result(header.shape, header.dtype);
  const std::span<std::byte> bytes = io::writable_bytes(result);
  expects<FileError>(stream.read(bytes) == bytes.size(), source.name, ": the file changed while it was read");
  io::reorder(bytes, size_of(header.dtype), std::endian::big);
  return result;
}

Tensor read_source(const Source& source, const IdxOptions& options) {
  std::array<std::byte, 2> magic{};
  if (source.size >= 2) source.read(0, magic);
  const bool packed = magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b};
  return packed ? read_with<PackedStream>(source, options) : read_with<PlainStream>(source, options);
}

}  // namespace

Tensor read_idx(const std::string& file, const IdxOptions& options) {
  const io::InputFile input(file);
  return read_source(
      {file, input.size(), [&](std::uint64_t position, std::span<std::byte> bytes) { input.read(position, bytes); }},
      options);
}

Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name, const IdxOptions& options) {
  return read_source({name, bytes.size(),
                      [&](std::uint64_t position, std::span<std::byte> to) {
                        if (!to.empty()) std::memcpy(to.data(), bytes.data() + position, to.size());
                      }},
                     options);
}

void write_idx(const std::string& file, const Tensor& tensor) {
  const auto code = [&]() -> std::uint8_t {
    switch (tensor.dtype()) {
      case DType::uint8:
        return 0x08;
      case DType::int8:
        return 0x09;
      case DType::int32:
        return 0x0c;
      case DType::float32:
        return 0x0d;
      case DType::float64:
        return 0x0e;
      case DType::bfloat16:
      case DType::float16:
      case DType::int64:
      case DType::boolean:
        break;
    }
    throw DTypeError(message("write_idx: expected uint8, int8, int32, float32 or float64, found ", tensor.dtype()));
  }();
  expects<ShapeError>(tensor.rank() >= 1, "write_idx: expected a tensor of rank 1 or more");
  std::vector<std::byte> header{std::byte{0}, std::byte{0}, std::byte{code}, static_cast<std::byte>(tensor.rank())};
  for (const std::int64_t size : tensor.shape()) {
    expects<ShapeError>(size <= 0xffffffff, "write_idx: a dimension of ", size, " does not fit the format's 32 bits");
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<std::byte>(size >> shift));
  }
  const Tensor whole = tensor.detach().contiguous();
  std::vector<std::byte> swapped;
  io::AtomicFile output(file);
  output.write(header);
  output.write(io::bytes_in(std::endian::big, whole, swapped));
  output.commit();
}

}  // namespace tern::data
