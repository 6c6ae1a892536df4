// The function of products.cpp under the name by which compiled code looks for it.
//
// Names that all of a process shall find are given to it with everything that a library is linked to. This one is linked
// to nothing: products.cpp is linked to torch, whose names would then stand in the place of those of other libraries.

#include <cstdint>

extern "C" {
int32_t (*native_product_at)(void*, void*, void**, void**) = nullptr;

int32_t aoti_torch_cpu_native_product(void* left, void* right, void** bias, void** product) {
  return native_product_at(left, right, bias, product);
}
}
