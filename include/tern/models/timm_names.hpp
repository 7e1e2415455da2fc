#pragma once
// The names that timm gives to the parameters of networks which here have torchvision's names. For
// nn::ImportOptions::rename. timm's ResNets have torchvision's names already.

#include <string>
#include <vector>

#include "tern/nn/load.hpp"

namespace tern::models {

/// Of timm's vit_*_patch*, for a VisionTransformer of so many layers.
///
///     nn::load(net, "vit_base_patch16_224.safetensors", {.rename = models::timm_vision_transformer_names(12)});
///
std::vector<nn::Rename> timm_vision_transformer_names(std::int64_t layers);
/// Of timm's mobilenetv2_100, for a MobileNetV2.
std::vector<nn::Rename> timm_mobilenet_v2_names();

}  // namespace tern::models
