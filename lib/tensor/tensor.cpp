#include "tensor/tensor.hpp"

namespace dynpipe::tensor {

std::size_t size_of(DType dtype) {
  return dtype == DType::float64 ? 8 : 4;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
  }
  return "?";
}

}  // namespace dynpipe::tensor
