#pragma once
// Costs of the architecture 9.0, fitted to times on NVIDIA H100 80GB HBM3 at commit ec9acde.
// Written by `fit_costs fit`. Columns: costs.cuh.
// Of each member: the error of a time, and the time of a chosen cut over that of the fastest one,
// mean and 90th percentile of problems that it was not fitted to.
// strict_tiles             15 %  1.046  1.132
// rounded_tiles            10 %  1.016  1.028
// rounded_backward_tiles   13 %  1.050  1.157, of an earlier fit
// strict_slices             9 %  1.009  1.009
// strict_pairs             10 %  1.002  1.000
// strict_forward           23 %  1.086  1.328
// strict_grad_weight       18 %  1.023  1.054, of an earlier fit
// strict_grad_x            22 %  1.047  1.216
// rounded_slices            9 %  1.018  1.049
// rounded_pairs            10 %  1.020  1.052
// rounded_forward          27 %  1.023  1.076
// rounded_grad_weight      16 %  1.043  1.025, of an earlier fit
// rounded_grad_x           22 %  1.031  1.094

#include "cuda/tuning/costs.cuh"

namespace tern::cuda::tuning {

inline constexpr Costs sm90{
    // work_k, work_once, wait_k, wait_once
    .strict_tiles = {.of = {{3.72f, 1.76f, 12.1f, 1.78f},   // 32x16
                            {14.7f, 0.827f, 15.9f, 1.67f},  // 32x32
                            {13.9f, 1.89f, 29.4f, 2.04f},   // 64x32
                            {28, 3.27f, 31.1f, 2.95f},      // 64x64
                            {25.8f, 5.81f, 71.5f, 3.03f},   // 128x64
                            {65.7f, 6.45f, 118, 2.03f}},    // 128x128
                     .split = 1.73f,
                     .part = 0.0173f,
                     .reached = {1, 1, 0.94f, 0.94f}},
    .rounded_tiles = {.of = {{2.11f, 1.58f, 6.9f, 2.04f},   // 32x16
                             {5.47f, 1.63f, 10.6f, 1.91f},  // 32x32
                             {5.1f, 1.93f, 13.6f, 2.33f},   // 64x32
                             {13.9f, 4.59f, 0, 0},          // 64x64
                             {24.2f, 4.92f, 0, 0},          // 128x64
                             {45.3f, 5.79f, 0, 0}},         // 128x128
                      .split = 1.72f,
                      .part = 0.0451f,
                      .reached = {1, 1, 0.94f, 0.94f}},
    .rounded_backward_tiles = {.of = {{7.5f, 0.96f, 5.9f, 3.5f},  // 32x16
                                      {3.6f, 0.66f, 10, 0.79f},   // 32x32
                                      {5.9f, 1.4f, 16.5f, 2.3f},  // 64x32
                                      {8.7f, 4.4f, 22, 2.5f},     // 64x64
                                      {35, 3.9f, 35, 4.8f},       // 128x64
                                      {12, 2, 86, 1.5f}},         // 128x128
                               .split = 1.16f,
                               .part = 0.074f,
                               .reached = {1, 1, 0.915f, 0.815f}},
    .strict_slices = {.of = {{1.11f, 0.919f, 2.12f, 1.73f},   // 16x16/16
                             {0.141f, 0.31f, 3.08f, 1.81f},   // 16x16/16
                             {0.546f, 0.568f, 3.5f, 1.74f},   // 16x16/8
                             {2.08f, 0.633f, 4.57f, 2.27f},   // 16x32/8
                             {6.48f, 2.03f, 3.06f, 0.774f},   // 32x32/16
                             {6.55f, 1.19f, 2.4f, 1.35f},     // 32x32/8
                             {4.01f, 1.12f, 5.74f, 1.94f},    // 16x64/4
                             {3.15f, 0.612f, 22.1f, 3.43f}},  // 32x128/4
                      .resident = {1, 1, 2, 2, 1, 1, 2, 1},
                      .exposed = 0.583f,
                      .again = 0.777f},
    .rounded_slices = {.of = {{0.538f, 0.89f, 2.94f, 2.1f},    // 16x16/16
                              {0.139f, 0.237f, 2.45f, 1.93f},  // 16x16/16
                              {0.682f, 0.663f, 2.69f, 1.88f},  // 16x16/8
                              {2.28f, 0.521f, 3.21f, 1.89f},   // 16x32/8
                              {2.33f, 0.944f, 4.48f, 2.43f},   // 32x32/16
                              {3.68f, 0.892f, 4.49f, 2.29f},   // 32x32/8
                              {3.14f, 1.28f, 5.57f, 1.5f},     // 16x64/4
                              {14.2f, 2.04f, 3.14f, 1.18f}},   // 32x128/4
                       .resident = {2, 1, 3, 2, 1, 2, 2, 1},
                       .exposed = 0.539f,
                       .again = 0.867f},
    .strict_pairs = {.weight = {{3.69f, 0.82f, 7.86f, 1.91f},   // 16x32/8
                                {3.38f, 0.985f, 6.29f, 2.06f},  // 16x32/8
                                {3.12f, 1.49f, 12.7f, 2.15f},   // 16x64/4
                                {10.3f, 1.16f, 23.4f, 2.23f},   // 16x128/2
                                {2.63f, 1.52f, 3.47f, 2.52f},   // 16x32/16
                                {8.51f, 2.39f, 8.74f, 2.27f},   // 32x32/8
                                {16.4f, 2.21f, 18.2f, 1.76f},   // 32x64/4
                                {8.54f, 1.33f, 31.5f, 3.11f}},  // 32x128/2
                     .data = {{1.32f, 0.372f, 4.62f, 1.23f},    // 16x16/8
                              {2.62f, 0.577f, 5.66f, 2.07f},    // 16x32/8
                              {2.96f, 0.347f, 4.97f, 1.93f},    // 16x32/8
                              {1.54f, 0.151f, 3.72f, 1.21f},    // 16x16/8
                              {2.66f, 0.627f, 3.58f, 0.985f},   // 16x16/16
                              {2.23f, 0.588f, 7.74f, 0.601f},   // 16x32/8
                              {3.75f, 0.539f, 4.23f, 2.57f},    // 16x32/8
                              {9.12f, 0.158f, 7.19f, 0.355f}},  // 16x32/8
                     .resident = {1, 1, 3, 3, 1, 2, 3, 1},
                     .exposed = 0.355f,
                     .again = 0.0268f},
    .rounded_pairs = {.weight = {{3.63f, 0.655f, 6.57f, 1.86f},   // 16x32/8
                                 {2.53f, 0.587f, 8.75f, 1.32f},   // 16x32/8
                                 {4.16f, 0.763f, 11.3f, 2.09f},   // 16x64/4
                                 {7.19f, 0.789f, 17.2f, 2.52f},   // 16x128/2
                                 {1.36f, 1.12f, 1.03f, 1.56f},    // 16x32/16
                                 {2.28f, 0.684f, 7.19f, 2.06f},   // 32x32/8
                                 {7.49f, 0.691f, 11.9f, 2.07f},   // 32x64/4
                                 {1.42f, 0.873f, 20.7f, 2.73f}},  // 32x128/2
                      .data = {{1.37f, 0.381f, 4.56f, 0.678f},    // 16x16/8
                               {1.88f, 0.263f, 6.09f, 1.78f},     // 16x32/8
                               {3.97f, 0.0617f, 5.86f, 1.23f},    // 16x32/8
                               {1.85f, 0.242f, 3.23f, 0.992f},    // 16x16/8
                               {1.88f, 1.26f, 1.44f, 0.962f},     // 16x16/16
                               {2.26f, 0.0699f, 6.06f, 1.79f},    // 16x32/8
                               {3.45f, 0.122f, 4.2f, 2.71f},      // 16x32/8
                               {2.75f, 0.154f, 6, 0.877f}},       // 16x32/8
                      .resident = {1, 2, 2, 3, 1, 1, 3, 3},
                      .exposed = 0.75f,
                      .again = 0.0151f},
    .strict_forward =
        {.work = {.once = 0.445f, .packs = 3.55f, .slices = 1.18f, .columns = 0.963f, .splits = 1.64f, .tiles = 2.9f},
         .wait = {.once = 2.53f, .packs = 3.08f, .slices = 0.549f, .columns = 0.34f, .splits = 0.238f, .tiles = 1.53f},
         .exposed = 0.713f},
    .rounded_forward =
        {.work = {.once = 0.248f, .packs = 3.16f, .slices = 1.55f, .columns = 0, .splits = 1.38f, .tiles = 3.7f},
         .wait = {.once = 1.28f, .packs = 0, .slices = 1.1f, .columns = 0, .splits = 0.494f, .tiles = 2.32f},
         .exposed = 1.29f},
    .strict_grad_weight =
        {.work =
             {.once = 0, .packs = 4.29f, .slices = 0, .columns = 1.46f, .splits = 3.47f, .tiles = 6.36f, .rounds = 0},
         .wait = {.once = 0.592f,
                  .packs = 4.85f,
                  .slices = 3.45f,
                  .columns = 0.651f,
                  .splits = 1.1f,
                  .tiles = 0.593f,
                  .rounds = 0.155f},
         .exposed = 0.117f},
    .rounded_grad_weight = {.work = {.once = 0.0942f,
                                     .packs = 1.13f,
                                     .slices = 0.274f,
                                     .columns = 0.0499f,
                                     .splits = 0,
                                     .tiles = 5.19f,
                                     .rounds = 0},
                            .wait = {.once = 2.09f,
                                     .packs = 5.45f,
                                     .slices = 2.84f,
                                     .columns = 0.257f,
                                     .splits = 0.604f,
                                     .tiles = 0.868f,
                                     .rounds = 0},
                            .exposed = 0.771f},
    .strict_grad_x = {.work = {.once = 0.72f, .weights = 0, .elements = 0.042f, .products = 4.64f, .sums = 0.818f},
                      .wait = {.once = 3.55f, .weights = 0.449f, .elements = 0.44f, .products = 3.29f, .sums = 0.132f},
                      .exposed = 0.349f},
    .rounded_grad_x =
        {.work = {.once = 0.694f, .weights = 0.0123f, .elements = 0.0336f, .products = 0.923f, .sums = 0.201f},
         .wait = {.once = 2.97f, .weights = 0.727f, .elements = 0.76f, .products = 0.36f, .sums = 0.932f},
         .exposed = 0.708f},
    .strict_adding = 2.47f,
    .rounded_adding = 1.7f};

}  // namespace tern::cuda::tuning
