// Tensors of other libraries; tests/io/dlpack_numpy.py does the same with NumPy in one process.

#include "tern/io/dlpack.hpp"

#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

#if TERN_TEST_DLPACK

#include <dlpack/dlpack.h>

namespace tern::io {

namespace {

// Another library's tensor of int32, which counts how often it is deleted.
struct Foreign {
  std::vector<std::int32_t> elements{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<std::int64_t> shape{3, 2}, strides{1, 6};
  int deleted = 0;
  DLManagedTensor managed{};

  Foreign() {
    managed.dl_tensor.data = elements.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLInt, 32, 1};
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

template <class Kind, class Change>
void check_refused(const char* word, Change change) {
  Foreign foreign;
  change(foreign);
  INFO(word);
  CHECK_THROWS_AS(from_dlpack(&foreign.managed), Kind);
  CHECK_THROWS_WITH(from_dlpack(&foreign.managed), Catch::ContainsSubstring(word));
  CHECK(foreign.deleted == 0);  // still the caller's
}

}  // namespace

TEST_CASE("dlpack: another library's tensor comes in and is deleted once", "[io]") {
  Foreign foreign;
  const Tensor taken = from_dlpack(&foreign.managed);
  CHECK(foreign.deleted == 1);
  foreign.elements.assign(12, -1);  // Tern has its own
  CHECK(taken.dtype() == DType::int32);
  CHECK(taken.shape() == Shape{3, 2});
  CHECK(taken.values() == std::vector<double>{0, 6, 1, 7, 2, 8});
  Foreign backwards;
  backwards.strides = {-2, -1};
  backwards.managed.dl_tensor.byte_offset = 11 * sizeof(std::int32_t);
  CHECK(from_dlpack(&backwards.managed).values() == std::vector<double>{11, 10, 9, 8, 7, 6});
  Foreign dense;
  dense.managed.dl_tensor.strides = nullptr;
  CHECK(from_dlpack(&dense.managed).values() == std::vector<double>{0, 1, 2, 3, 4, 5});
  Foreign empty;
  empty.shape = {0, 2};
  empty.managed.dl_tensor.data = nullptr;
  CHECK(from_dlpack(&empty.managed).shape() == Shape{0, 2});
}

TEST_CASE("dlpack: what cannot come in is refused and stays the caller's", "[io]") {
  check_refused<DeviceUnavailable>("kind 2", [](Foreign& f) { f.managed.dl_tensor.device = {kDLCUDA, 0}; });
  check_refused<DeviceUnavailable>("kind 10", [](Foreign& f) { f.managed.dl_tensor.device = {kDLROCM, 0}; });
  check_refused<DTypeError>("128 bits", [](Foreign& f) { f.managed.dl_tensor.dtype = {kDLComplex, 128, 1}; });
  check_refused<DTypeError>("16 bits", [](Foreign& f) { f.managed.dl_tensor.dtype = {kDLInt, 16, 1}; });
  check_refused<DTypeError>("4 lanes", [](Foreign& f) { f.managed.dl_tensor.dtype = {kDLFloat, 32, 4}; });
  check_refused<ShapeError>("9 dimensions", [](Foreign& f) { f.managed.dl_tensor.ndim = 9; });
  check_refused<ShapeError>("size -3", [](Foreign& f) { f.shape[0] = -3; });
  check_refused<Error>("null", [](Foreign& f) { f.managed.dl_tensor.data = nullptr; });
  CHECK_THROWS_AS(from_dlpack(nullptr), Error);
}

TEST_CASE("dlpack: a tensor goes out with its strides and lives until it is deleted", "[io]") {
  std::weak_ptr<Storage> storage;
  DLManagedTensor* lent = nullptr;
  {
    const Tensor x = arange(0, 12, 1, DType::float64).reshape({3, 4});
    storage = x.shared_storage();
    const Tensor view = x.slice(0, 1).transpose(0, 1);
    lent = to_dlpack(view);
    CHECK(static_cast<const std::byte*>(lent->dl_tensor.data) + lent->dl_tensor.byte_offset ==
          reinterpret_cast<const std::byte*>(x.read<double>().data() + 4));
  }
  CHECK(lent->dl_tensor.ndim == 2);
  CHECK(lent->dl_tensor.shape[0] == 4);
  CHECK(lent->dl_tensor.strides[0] == 1);
  CHECK(lent->dl_tensor.strides[1] == 4);
  CHECK(!storage.expired());
  CHECK(from_dlpack(lent).values() == std::vector<double>{4, 8, 5, 9, 6, 10, 7, 11});
  CHECK(storage.expired());
  for (const DTypeFacts& facts : dtype_facts) {
    const DType dtype = facts.dtype;
    const Tensor back = from_dlpack(to_dlpack(ones({2, 0, 3}, dtype)));
    CHECK(back.dtype() == dtype);
    CHECK(back.shape() == Shape{2, 0, 3});
    CHECK(from_dlpack(to_dlpack(full({}, 1, dtype))).item() == 1);
  }
  // Of bools every byte but 0 is true, and true is 1.
  Foreign bools;
  bools.elements = {0x01000100, static_cast<std::int32_t>(0x0380ff02)};
  bools.shape = {8};
  bools.strides = {1};
  bools.managed.dl_tensor.ndim = 1;
  bools.managed.dl_tensor.dtype = {6, 8, 1};  // kDLBool
  CHECK(from_dlpack(&bools.managed).values() == std::vector<double>{0, 1, 0, 1, 1, 1, 1, 1});
  CHECK_THROWS_AS(to_dlpack(ones({2}).set_requires_grad()), AutogradError);
  CHECK_THROWS_AS(to_dlpack(Tensor()), Error);
}

}  // namespace tern::io

#else

TEST_CASE("dlpack: without its header there is a way out", "[io]") {
  CHECK_THROWS_WITH(tern::io::to_dlpack(tern::ones({2})), Catch::ContainsSubstring("libdlpack-dev"));
  CHECK_THROWS_WITH(tern::io::from_dlpack(nullptr), Catch::ContainsSubstring("libdlpack-dev"));
}

#endif
