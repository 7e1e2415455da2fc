#include "tern/io/npy.hpp"

#include <bit>
#include <vector>

#include "io/tensor_bytes.hpp"
#include "tern/io/file.hpp"

namespace tern::io {

namespace {

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "<f4";
    case DType::float64:
      return "<f8";
    case DType::float16:
      return "<f2";
    case DType::int32:
      return "<i4";
    case DType::int64:
      return "<i8";
    case DType::uint8:
      return "|u1";
    case DType::boolean:
      return "|b1";
    default:
      throw DTypeError(message("save_npy: NumPy has no ", dtype, "; convert the tensor with to(DType::float32)"));
  }
}

}  // namespace

void save_npy(const std::string& file, const Tensor& tensor) {
  std::string header = message("{'descr': '", type_name(tensor.dtype()), "', 'fortran_order': False, 'shape': (");
  for (const std::int64_t size : tensor.shape()) header += std::to_string(size) + ",";
  header += "), }";
  // The elements begin on a multiple of 64, behind a line end: 6 bytes of magic, 2 of version, 2 of length.
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string start = "\x93NUMPY\x01";
  start.push_back('\0');
  start.push_back(static_cast<char>(header.size() & 0xff));
  start.push_back(static_cast<char>(header.size() >> 8));
  const Tensor whole = tensor.detach().contiguous();
  AtomicFile output(file);
  start += header;
  output.write(std::as_bytes(std::span(start)));
  std::vector<std::byte> turned;
  output.write(bytes_in(std::endian::little, whole, turned));  // as the type names say
  output.commit();
}

}  // namespace tern::io
