#include "tern/models/timm_names.hpp"

#include <iterator>

namespace tern::models {

std::vector<nn::Rename> timm_vision_transformer_names(std::int64_t layers) {
  std::vector<nn::Rename> names{{"cls_token", "class_token"},
                                {"pos_embed", "encoder.pos_embedding"},
                                {"patch_embed.proj.", "conv_proj."},
                                {"norm.", "encoder.ln."},
                                {"head.", "heads.head."}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string there = message("blocks.", i, '.'), here = message("encoder.layers.encoder_layer_", i, '.');
    for (const auto& [from, to] : {nn::Rename{"norm1.", "ln_1."}, nn::Rename{"attn.qkv.", "self_attention.in_proj_"},
                                   nn::Rename{"attn.proj.", "self_attention.out_proj."}, nn::Rename{"norm2.", "ln_2."},
                                   nn::Rename{"mlp.fc1.", "mlp.0."}, nn::Rename{"mlp.fc2.", "mlp.3."}})
      names.push_back({there + from, here + to});
  }
  return names;
}

std::vector<nn::Rename> timm_mobilenet_v2_names() {
  std::vector<nn::Rename> names{{"conv_stem.", "features.0.0."},
                                {"bn1.", "features.0.1."},
                                {"conv_head.", "features.18.0."},
                                {"bn2.", "features.18.1."},
                                {"classifier.", "classifier.1."}};
  constexpr std::int64_t blocks[]{1, 2, 3, 4, 3, 3, 1};  // of each stage
  std::int64_t feature = 1;
  for (std::int64_t stage = 0; stage < std::ssize(blocks); ++stage)
    for (std::int64_t block = 0; block < blocks[stage]; ++block, ++feature) {
      const std::string there = message("blocks.", stage, '.', block, '.'),
                        here = message("features.", feature, ".conv.");
      // The first stage does not widen its input.
      std::vector<nn::Rename> parts{{"conv_dw.", "0.0."}, {"bn1.", "0.1."}, {"conv_pw.", "1."}, {"bn2.", "2."}};
      if (stage > 0)
        parts = {{"conv_pw.", "0.0."}, {"bn1.", "0.1."},    {"conv_dw.", "1.0."},
                 {"bn2.", "1.1."},     {"conv_pwl.", "2."}, {"bn3.", "3."}};
      for (const auto& [from, to] : parts) names.push_back({there + from, here + to});
    }
  return names;
}

}  // namespace tern::models
