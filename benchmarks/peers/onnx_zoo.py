"""Networks with random weights for onnx_nets.py: NAME -> (module, inputs). From torchvision, timm, transformers, and a
few written here. Those of `thirty` are the table's; the others are checked only."""

import torch
from torch import nn
from torch.nn import functional as F

thirty = """resnet50 mobilenet_v3_large efficientnet_b0 convnext_tiny densenet121 vit_b_16 swin_t regnet_y_400mf
shufflenet_v2_x1_0 squeezenet1_1 inception_v3 mnasnet1_0 deeplabv3_mobilenet_v3_large fcn_resnet50 maxvit_t
timm:deit_tiny_patch16_224 timm:mixer_s16_224 timm:convmixer_768_32 timm:efficientformer_l1 timm:ghostnet_100
timm:mobilevit_s timm:repvgg_a0 bert gpt2 unet lstm_tagger gru_net conv1d_net yolo_head super_resolution""".split()
more = """resnet18 resnext50_32x4d googlenet vgg11 alexnet swin_v2_t efficientnet_v2_s lraspp_mobilenet_v3_large r3d_18
timm:levit_128 timm:poolformer_s12 timm:hrnet_w18_small timm:xcit_nano_12_p16_224 timm:cait_xxs24_224 timm:coatnet_0_224
timm:edgenext_small timm:res2net50_26w_4s timm:dpn68 timm:nfnet_l0 timm:resmlp_12_224 timm:gmlp_s16_224 timm:pvt_v2_b0
timm:twins_pcpvt_small timm:crossvit_tiny_240 timm:beit_base_patch16_224 timm:fastvit_t8 timm:mobileone_s0
timm:tf_efficientnetv2_b0 timm:halonet26t timm:botnet26t_256 timm:lambda_resnet26t timm:volo_d1_224 timm:skresnet18
timm:selecsls42b timm:hardcorenas_a timm:vovnet39a timm:inception_v4 timm:xception41 timm:tresnet_m timm:gcresnet33ts
timm:focalnet_tiny_srf timm:davit_tiny timm:repvit_m1 timm:efficientvit_b0 timm:mvitv2_tiny timm:tiny_vit_5m_224
timm:nasnetalarge timm:pnasnet5large timm:cspdarknet53 timm:eca_resnet33ts timm:rexnet_100 timm:sequencer2d_s
timm:convit_tiny timm:tnt_s_patch16_224 timm:visformer_tiny timm:eva02_tiny_patch14_224 timm:hiera_tiny_224
timm:mambaout_femto timm:starnet_s1 timm:inception_next_atto timm:caformer_s18 timm:swinv2_cr_tiny_224 timm:nest_tiny
llama t5_encoder whisper_encoder wav2vec2 segformer distilbert albert electra opt mobilebert deberta roberta bloom
clip_vision qwen2 gptneox squeezebert funnel detr dpt grid_sampler tcn text_cnn autoencoder seq2seq_gru
vae3d""".split()


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        sizes = [width * 2**i for i in range(4)]
        self.down = nn.ModuleList([block(3, sizes[0])] + [block(a, b) for a, b in zip(sizes, sizes[1:])])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(sizes, sizes[1:])])
        self.join = nn.ModuleList([block(2 * a, a) for a in sizes[:-1]])
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(3)):
            x = self.join[i](torch.cat([self.up[i](x), kept[i]], 1))
        return self.head(x)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        self.lstm = nn.LSTM(128, 256, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(512, 20)

    def forward(self, words):
        return self.head(self.lstm(self.words(words))[0])


class GruNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(40, 192, 2, batch_first=True)
        self.head = nn.Linear(192, 30)

    def forward(self, sound):
        y, last = self.gru(sound)
        return self.head(y), last


class Conv1dNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 1
        for width, kernel, stride in ((64, 80, 16), (64, 3, 1), (128, 3, 1), (256, 3, 1), (512, 3, 1)):
            layers += [nn.Conv1d(channels, width, kernel, stride), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(4)]
            channels = width
        self.features, self.head = nn.Sequential(*layers), nn.Linear(512, 35)

    def forward(self, sound):
        return self.head(self.features(sound).mean(-1))


class YoloHead(nn.Module):
    """Three scales of a backbone, joined by resize and concat, boxes decoded from offsets and exponents."""
    def __init__(self, width=32, classes=20):
        super().__init__()
        def conv(a, b, k=3, s=1):
            return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())
        w = width
        self.stem = nn.Sequential(conv(3, w, 3, 2), conv(w, 2 * w, 3, 2))
        self.stages = nn.ModuleList([nn.Sequential(conv(2 * w, 2 * w, 3, 2), conv(2 * w, 2 * w)),
                                     nn.Sequential(conv(2 * w, 4 * w, 3, 2), conv(4 * w, 4 * w)),
                                     nn.Sequential(conv(4 * w, 8 * w, 3, 2), conv(8 * w, 8 * w))])
        self.pools, self.merge = nn.MaxPool2d(5, 1, 2), conv(32 * w, 8 * w, 1)
        self.laterals = nn.ModuleList([conv(4 * w + 8 * w, 4 * w), conv(2 * w + 4 * w, 2 * w)])
        self.heads = nn.ModuleList([nn.Conv2d(c, 3 * (5 + classes), 1) for c in (2 * w, 4 * w, 8 * w)])

    def forward(self, image):
        x, scales = self.stem(image), []
        for stage in self.stages:
            x = stage(x)
            scales.append(x)
        pools = [x]
        for _ in range(3):
            pools.append(self.pools(pools[-1]))
        x = self.merge(torch.cat(pools, 1))
        features = [x]
        for lateral, skip in zip(self.laterals, (scales[1], scales[0])):
            x = lateral(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), skip], 1))
            features.insert(0, x)
        boxes = []
        for head, y, step in zip(self.heads, features, (8.0, 16.0, 32.0)):
            n, _, h, w = y.shape
            out = head(y).view(n, 3, -1, h, w).permute(0, 1, 3, 4, 2)
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack([columns, rows], -1).view(1, 1, h, w, 2).to(out.dtype)
            centre = (out[..., 0:2].sigmoid() * 2 - 0.5 + grid) * step
            size = (out[..., 2:4].sigmoid() * 2) ** 2 * (4 * step)
            boxes.append(torch.cat([centre, size, out[..., 4:].sigmoid()], -1).reshape(n, -1, out.shape[-1]))
        return torch.cat(boxes, 1)


class SuperResolution(nn.Module):
    def __init__(self, scale=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 64, 3, padding=1),
                                    nn.PReLU(64), nn.Conv2d(64, 32, 3, padding=1), nn.LeakyReLU(0.1),
                                    nn.Conv2d(32, scale**2, 3, padding=1), nn.PixelShuffle(scale))
        self.scale = scale

    def forward(self, x):
        wide = F.interpolate(x, scale_factor=float(self.scale), mode="bicubic", align_corners=False)
        return (self.layers(x) + wide).clamp(0, 1)


class GridSampler(nn.Module):
    """A spatial transformer."""
    def __init__(self):
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(968, 6))
        self.net = nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2, ceil_mode=True), nn.Hardswish(), nn.Flatten(),
                                 nn.Linear(1440, 10), nn.LogSoftmax(1))

    def forward(self, x):
        theta = self.find(x).view(-1, 2, 3) * 0.1
        return self.net(F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False))


class Tcn(nn.Module):
    """Causal dilated convolutions with weight normalisation and gates."""
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.convs = nn.ModuleList([norm(nn.Conv1d(32, 64, 3, dilation=2**i)) for i in range(5)])
        self.into, self.out = nn.Conv1d(8, 32, 1), nn.Conv1d(32, 4, 1)

    def forward(self, x):
        x = self.into(x)
        for i, conv in enumerate(self.convs):
            gate, value = conv(F.pad(x, (2**(i + 1), 0))).chunk(2, 1)
            x = x + torch.sigmoid(gate) * torch.tanh(value)
        return self.out(x)


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(100, 64, mode="mean")
        self.table = nn.Embedding(1000, 64, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(64, 48, k) for k in (3, 4, 5)])
        self.head = nn.Linear(144, 4)

    def forward(self, words):
        x = self.table(words).transpose(1, 2)
        mask = (words != 0).unsqueeze(1).to(x.dtype)
        return self.head(torch.cat([F.relu(conv(x * mask)).amax(-1) for conv in self.convs], 1))


class Seq2Seq(nn.Module):
    """GRU with attention and the end of a packed encoder as its state."""
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 64)
        self.encode = nn.GRU(64, 64, bidirectional=True, batch_first=True)
        self.decode = nn.GRU(64, 128, batch_first=True)
        self.head = nn.Linear(256, 500)

    def forward(self, source, target):
        memory, last = self.encode(self.words(source))
        state = torch.cat([last[0], last[1]], -1).unsqueeze(0)
        y, _ = self.decode(self.words(target), state)
        weights = (y @ memory.transpose(1, 2) / 8).softmax(-1)
        return self.head(torch.cat([y, weights @ memory], -1)).log_softmax(-1)


def autoencoder():
    return nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ELU(),
                         nn.ReflectionPad2d(1), nn.Conv2d(16, 32, 3, 2), nn.GroupNorm(4, 32), nn.Softplus(),
                         nn.ConvTranspose2d(32, 16, 3, 2, 1, output_padding=1), nn.LocalResponseNorm(5), nn.Mish(),
                         nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                         nn.ReplicationPad2d(1), nn.Conv2d(16, 3, 3), nn.Softsign())


def volumes():
    return nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU6(), nn.MaxPool3d(2),
                         nn.Conv3d(8, 16, 3, stride=2, padding=1), nn.CELU(), nn.AvgPool3d(2, ceil_mode=True),
                         nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 6), nn.Softmax(-1))


def picture(size=224, channels=3):
    return (torch.randn(1, channels, size, size),)


def words(length=128, count=1000):
    return (torch.randint(1, count, (1, length)),)


class Plain(nn.Module):
    """A module of transformers with tensors in and out."""
    def __init__(self, net, **options):
        super().__init__()
        self.net, self.options = net, options

    def forward(self, x):
        y = self.net(x, return_dict=False, **self.options)
        return y[0] if isinstance(y, (tuple, list)) else y


def of_transformers(name):
    import transformers as t
    small = dict(num_hidden_layers=3, attn_implementation="eager")
    plain = dict(use_cache=False)
    kinds = {
        "bert": lambda: (Plain(t.BertModel(t.BertConfig(attn_implementation="eager"))), words()),
        "gpt2": lambda: (Plain(t.GPT2LMHeadModel(t.GPT2Config(attn_implementation="eager")), **plain), words()),
        "llama": lambda: (Plain(t.LlamaForCausalLM(t.LlamaConfig(
            hidden_size=256, intermediate_size=688, num_attention_heads=8, num_key_value_heads=2, vocab_size=2000,
            **small)), **plain), words(64)),
        "qwen2": lambda: (Plain(t.Qwen2ForCausalLM(t.Qwen2Config(
            hidden_size=256, intermediate_size=688, num_attention_heads=8, num_key_value_heads=2, vocab_size=2000,
            **small)), **plain), words(64)),
        "gptneox": lambda: (Plain(t.GPTNeoXForCausalLM(t.GPTNeoXConfig(
            hidden_size=256, intermediate_size=688, num_attention_heads=8, vocab_size=2000, **small)), **plain),
            words(64)),
        "opt": lambda: (Plain(t.OPTForCausalLM(t.OPTConfig(
            hidden_size=256, ffn_dim=512, num_attention_heads=8, vocab_size=2000, word_embed_proj_dim=256, **small)),
            **plain), words(64)),
        "bloom": lambda: (Plain(t.BloomForCausalLM(t.BloomConfig(
            hidden_size=256, n_layer=3, n_head=8, vocab_size=2000)), **plain), words(64)),
        "distilbert": lambda: (Plain(t.DistilBertModel(t.DistilBertConfig(n_layers=3))), words()),
        "albert": lambda: (Plain(t.AlbertModel(t.AlbertConfig(hidden_size=256, num_attention_heads=8,
                                                              intermediate_size=512, **small))), words()),
        "electra": lambda: (Plain(t.ElectraModel(t.ElectraConfig(**small))), words()),
        "roberta": lambda: (Plain(t.RobertaModel(t.RobertaConfig(**small))), words()),
        "mobilebert": lambda: (Plain(t.MobileBertModel(t.MobileBertConfig(**small))), words()),
        "deberta": lambda: (Plain(t.DebertaV2Model(t.DebertaV2Config(
            hidden_size=256, num_attention_heads=8, intermediate_size=512, relative_attention=True,
            pos_att_type=["p2c", "c2p"], **small))), words(64)),
        "squeezebert": lambda: (Plain(t.SqueezeBertModel(t.SqueezeBertConfig(num_hidden_layers=3))), words()),
        "funnel": lambda: (Plain(t.FunnelBaseModel(t.FunnelConfig(block_sizes=[1, 1, 1], d_model=128, n_head=4,
                                                                  d_head=32, d_inner=256))), words(64)),
        "t5_encoder": lambda: (Plain(t.T5EncoderModel(t.T5Config(d_model=256, d_ff=512, num_layers=3, num_heads=8,
                                                                 d_kv=32))), words(64)),
        "whisper_encoder": lambda: (Plain(t.WhisperModel(t.WhisperConfig(
            d_model=128, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=256)).encoder),
            (torch.randn(1, 80, 3000),)),
        "wav2vec2": lambda: (Plain(t.Wav2Vec2Model(t.Wav2Vec2Config(num_hidden_layers=2, hidden_size=192,
                                                                    num_attention_heads=4, intermediate_size=384))),
                             (torch.randn(1, 8000),)),
        "segformer": lambda: (Plain(t.SegformerForSemanticSegmentation(t.SegformerConfig())), picture()),
        "clip_vision": lambda: (Plain(t.CLIPVisionModel(t.CLIPVisionConfig(**small))), picture()),
        "dpt": lambda: (Plain(t.DPTForDepthEstimation(t.DPTConfig(
            num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], image_size=224))), picture()),
        "detr": lambda: (Plain(t.DetrModel(t.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, encoder_layers=1, decoder_layers=1,
            backbone_config=t.ResNetConfig(out_features=["stage4"], depths=[1, 1, 1, 1])))), picture()),
    }
    return kinds[name]() if name in kinds else None


def of_own(name):
    kinds = {
        "unet": lambda: (UNet(), picture(128)),
        "lstm_tagger": lambda: (Tagger(), words(64, 5000)),
        "gru_net": lambda: (GruNet(), (torch.randn(1, 100, 40),)),
        "conv1d_net": lambda: (Conv1dNet(), (torch.randn(1, 1, 32000),)),
        "yolo_head": lambda: (YoloHead(), picture(320)),
        "super_resolution": lambda: (SuperResolution(), (torch.rand(1, 1, 96, 96),)),
        "grid_sampler": lambda: (GridSampler(), (torch.randn(1, 1, 28, 28),)),
        "tcn": lambda: (Tcn(), (torch.randn(1, 8, 200),)),
        "text_cnn": lambda: (TextCnn(), words(40)),
        "seq2seq_gru": lambda: (Seq2Seq(), words(20, 500) + words(12, 500)),
        "autoencoder": lambda: (autoencoder(), picture(64)),
        "vae3d": lambda: (volumes(), (torch.randn(1, 1, 16, 24, 24),)),
    }
    return kinds[name]() if name in kinds else None


def of_torchvision(name):
    import torchvision.models as models
    options = dict(weights=None)
    if "deeplab" in name or "fcn" in name or "lraspp" in name:
        class Out(nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x):
                return self.net(x)["out"]
        net = models.get_model(name, weights_backbone=None, **options)
        return Out(net), picture()
    if "inception" in name or name == "googlenet":
        options.update(init_weights=False, aux_logits=False)
    net = models.get_model(name, **options)
    if name == "r3d_18":
        return net, (torch.randn(1, 3, 8, 64, 64),)
    return net, picture(299 if "inception" in name else 224)


def of_timm(name):
    import timm
    net = timm.create_model(name, pretrained=False)
    size = timm.data.resolve_model_data_config(net)["input_size"]
    return net, (torch.randn(1, *size),)


def make(name, seed=0):
    """The module in evaluation with random weights and statistics, and its inputs."""
    torch.manual_seed(seed)
    if name.startswith("timm:"):
        net, inputs = of_timm(name[5:])
    else:
        net, inputs = of_own(name) or of_transformers(name) or of_torchvision(name)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.7, 1.4)
                module.weight.uniform_(0.8, 1.2)
                module.bias.normal_(0, 0.1)
        for parameter in net.parameters():  # scales and heads that begin as zeros, ones or 1e-6
            if parameter.numel() > 1 and parameter.std() == 0:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return net.eval(), inputs
