#include "tern/nn/pooling.hpp"

#include <typeinfo>

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

bool MaxPool2d::fusable_max_pool2d() const {
  const auto is = [](Pair pair, std::int64_t both) { return pair.h == both && pair.w == both; };
  return typeid(*this) == typeid(MaxPool2d) && is(kernel_, 2) && is(options_.stride.value_or(kernel_), 2) &&
         is(options_.padding, 0) && is(options_.end_padding.value_or(0), 0) && is(options_.dilation, 1) &&
         !options_.ceil_mode;
}

std::string MaxPool2d::describe() const { return describe_pool("MaxPool2d", kernel_, options_); }
std::string AvgPool2d::describe() const { return describe_pool("AvgPool2d", kernel_, options_); }

}  // namespace tern::nn
