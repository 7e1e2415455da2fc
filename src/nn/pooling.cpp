#include "tern/nn/pooling.hpp"

#include "nn/layer.hpp"

namespace tern::nn {
namespace {

template <class Options>
std::string describe_pool(const char* name, Pair kernel, const Options& options) {
  const Pair stride = options.stride.value_or(kernel);
  const std::string padding = describe_padding(options.padding, options.end_padding);
  return message(name, "(", kernel.h, 'x', kernel.w, ", stride ", stride.h, 'x', stride.w, padding,
                 options.ceil_mode ? ", ceil" : "", ")");
}

}  // namespace

AsOperator MaxPool2d::as_operator(bool) const {
  return {{&operators::op("max_pool2d"), operators::Attributes({kernel_, options_})}};
}

std::string MaxPool2d::describe() const { return describe_pool("MaxPool2d", kernel_, options_); }
std::string AvgPool2d::describe() const { return describe_pool("AvgPool2d", kernel_, options_); }

}  // namespace tern::nn
