#include "tern/io/npy.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "io/npy_bytes.hpp"
#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"

namespace tern::io {

namespace {

std::string_view type_text(DType dtype) {
  const std::string_view name = facts_of(dtype).npy;
  expects<DTypeError>(!name.empty(), "save_npy: NumPy has no ", dtype, "; convert the tensor with to(DType::float32)");
  return name;
}

/// The content of a header.
struct NpyHeader {
  DType dtype = DType::float32;
  std::endian order = std::endian::little;
  bool fortran = false;
  Shape shape;
};

/// Reads the Python dictionary of a header, in the form that NumPy writes.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  NpyHeader read() {
    NpyHeader header;
    bool described = false, ordered = false, shaped = false;
    take('{');
    while (!next_is('}')) {
      const std::string_view key = quoted();
      take(':');
      if (key == "descr" && !std::exchange(described, true))
        read_type(header);
      else if (key == "fortran_order" && !std::exchange(ordered, true))
        header.fortran = truth();
      else if (key == "shape" && !std::exchange(shaped, true))
        header.shape = shape();
      else
        fail("an unexpected entry of its header");
      if (!next_is(',')) {
        take('}');
        break;
      }
    }
    if (!described || !ordered || !shaped) fail("a header without descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw FileError(message(file_, ": this NumPy file cannot be read: ", what));
  }
  void skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool next_is(char letter) {
    skip();
    if (text_.empty() || text_[0] != letter) return false;
    text_.remove_prefix(1);
    return true;
  }
  void take(char letter) {
    if (!next_is(letter)) fail("its header is malformed");
  }
  std::string_view quoted() {
    take('\'');
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) fail("its header is malformed");
    const std::string_view inside = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return inside;
  }
  bool truth() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    fail("fortran_order is neither True nor False");
  }
  Shape shape() {
    Shape sizes;
    take('(');
    while (!next_is(')')) {
      skip();
      std::int64_t size = 0;
      std::size_t digits = 0;
      for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits)
        if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, text_[digits] - '0', &size))
          fail("a size beyond 2^63");
      if (digits == 0) fail("its header is malformed");
      text_.remove_prefix(digits);
      if (sizes.rank() == Shape::max_rank) fail("more than eight dimensions");
      sizes.push_back(size);
      if (!next_is(',')) {
        take(')');
        break;
      }
    }
    return sizes;
  }
  void read_type(NpyHeader& header) {
    const std::string_view type = quoted();
    for (const DTypeFacts& facts : dtype_facts)
      if (type.size() == 3 && !facts.npy.empty() && type.substr(1) == facts.npy.substr(1)) {
        header.dtype = facts.dtype;
        header.order = type[0] == '>' ? std::endian::big : type[0] == '=' ? std::endian::native : std::endian::little;
        return;
      }
    throw FileError(message(file_, ": elements of NumPy's type '", type,
                            "', which Tern does not support; save array.astype('float32') or 'int64'"));
  }

  std::string_view text_;
  const std::string& file_;
};

}  // namespace

std::string npy_start(const Tensor& tensor) {
  std::string header = message("{'descr': '", type_text(tensor.dtype()), "', 'fortran_order': False, 'shape': (");
  for (const std::int64_t size : tensor.shape()) header += std::to_string(size) + ",";
  header += "), }";
  // The elements begin at a multiple of 64, after a line end: 6 bytes of magic, 2 of version, 2 of length.
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string start = "\x93NUMPY\x01";
  start.push_back('\0');
  start.push_back(static_cast<char>(header.size() & 0xff));
  start.push_back(static_cast<char>(header.size() >> 8));
  return start + header;
}

void save_npy(const std::string& file, const Tensor& tensor) {
  const std::string start = npy_start(tensor);
  const Tensor whole = tensor.detach().contiguous();
  AtomicFile output(file);
  output.write(std::as_bytes(std::span(start)));
  std::vector<std::byte> swapped;
  output.write(bytes_in(std::endian::little, whole, swapped));  // as the type names say
  output.commit();
}

Tensor load_npy(const std::string& file) { return parse_npy(content_of(file), file); }

Tensor parse_npy(std::span<const std::byte> content, const std::string& name) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(content[i]); };
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  expects<FileError>(text.starts_with("\x93NUMPY") && content.size() >= 10, name,
                     ": this is not a NumPy file; numpy.save writes one");
  // Version 1 has a two-byte length, later versions four bytes.
  const std::size_t begin = byte(6) == 1 ? 10 : 12;
  expects<FileError>(byte(6) >= 1 && byte(6) <= 3 && content.size() >= begin, name, ": a NumPy file of version ",
                     byte(6), ", which is unknown");
  const std::size_t length =
      byte(6) == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  expects<FileError>(length <= content.size() - begin, name, ": the file ends in its header");
  const NpyHeader header = HeaderReader(text.substr(begin, length), name).read();
  const std::span<const std::byte> elements = content.subspan(begin + length);
  auto bytes = static_cast<std::uint64_t>(size_of(header.dtype));
  std::int64_t reach = static_cast<std::int64_t>(bytes);  // limits also a shape without elements
  for (const std::int64_t size : header.shape) {
    expects<FileError>(!__builtin_mul_overflow(reach, std::max<std::int64_t>(size, 1), &reach), name, ": a shape ",
                       header.shape, " that no file holds");
    bytes *= static_cast<std::uint64_t>(size);
  }
  expects<FileError>(bytes == elements.size(), name, ": ", elements.size(), " bytes of elements, expected ", bytes,
                     " for ", header.dtype, ' ', header.shape);
  Shape shape = header.shape;
  std::vector<std::int64_t> back;
  for (int i = header.shape.rank() - 1; i >= 0; --i) {
    if (header.fortran) shape[header.shape.rank() - 1 - i] = header.shape[i];
    back.push_back(i);
  }
  Tensor tensor(shape, header.dtype);
  const std::span<std::byte> target = writable_bytes(tensor);
  std::ranges::copy(elements, target.begin());
  reorder(target, size_of(header.dtype), header.order);
  if (header.dtype == DType::boolean)
    for (std::byte& truth : target) truth = truth == std::byte{0} ? std::byte{0} : std::byte{1};
  return header.fortran ? tensor.permute(back).contiguous() : tensor;
}

}  // namespace tern::io
