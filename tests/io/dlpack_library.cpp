// What dlpack_numpy.py calls: tensors to lend, and others' tensors to take, behind functions of C.

#include <cstring>
#include <memory>

#include "tern/io/dlpack.hpp"
#include "tern/tensor/create.hpp"

namespace {

std::weak_ptr<tern::Storage> last_lent;

}  // namespace

extern "C" {

/// 0 ... 23 as [2, 3, 4] of that dtype, its last two dimensions exchanged, every second of the last.
DLManagedTensor* lend(int dtype) {
  const tern::Tensor x =
      tern::arange(0, 24, 1, tern::DType::float64).reshape({2, 3, 4}).to(static_cast<tern::DType>(dtype));
  last_lent = x.shared_storage();
  return tern::io::to_dlpack(x.transpose(1, 2).slice(2, 0, 3, 2));
}

bool lent_is_gone() { return last_lent.expired(); }

/// Writes "dtype [shape] values" into `text`, or the message of the error: false.
bool take(DLManagedTensor* managed, char* text, std::size_t size) {
  std::string result;
  bool taken = true;
  try {
    const tern::Tensor x = tern::io::from_dlpack(managed);
    result = tern::message(x.dtype(), ' ', x.shape());
    for (const double value : x.values()) result += tern::message(' ', value);
  } catch (const tern::Error& error) {
    taken = false;
    result = error.what();
  }
  std::strncpy(text, result.c_str(), size - 1);
  return taken;
}

}  // extern "C"
