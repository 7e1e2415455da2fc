#pragma once
// Costs of the architecture 9.0, fitted to times on NVIDIA H100 80GB HBM3 at commit ec9acde.
// Written by `fit_costs fit`. Columns: costs.cuh.
// Of each member: the error of a time, and the time of a chosen cut over that of the fastest one,
// mean and 90th percentile of problems that it was not fitted to.
// strict_tiles             14 %  1.038  1.104
// rounded_tiles            10 %  1.016  1.028
// rounded_backward_tiles   13 %  1.050  1.157, of an earlier fit
// strict_slices             8 %  1.003  1.007
// strict_pairs             10 %  1.002  1.000
// strict_forward           26 %  1.069  1.100
// strict_grad_weight       15 %  1.023  1.026, of an earlier fit
// strict_grad_x            22 %  1.047  1.179
// rounded_slices            9 %  1.012  1.035
// rounded_pairs            10 %  1.019  1.052
// rounded_forward          24 %  1.015  1.033
// rounded_grad_weight      14 %  1.051  1.025, of an earlier fit
// rounded_grad_x           21 %  1.075  1.157, of an earlier fit

#include "cuda/tuning/costs.cuh"

namespace tern::cuda::tuning {

inline constexpr Costs sm90{
    // work_k, work_once, wait_k, wait_once
    .strict_tiles = {.of = {{4.62f, 1.83f, 12.6f, 1.7f},    // 32x16
                            {9.31f, 0.951f, 15.9f, 2.04f},  // 32x32
                            {14.9f, 1.25f, 25.9f, 2.16f},   // 64x32
                            {21.4f, 3.42f, 27.9f, 2.67f},   // 64x64
                            {40.7f, 3.33f, 59.5f, 3.81f},   // 128x64
                            {70.3f, 6.02f, 124, 2.14f}},    // 128x128
                     .split = 1.74f,
                     .part = 0.0221f,
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
    .strict_slices = {.of = {{0.837f, 0.978f, 3, 1.61f},      // 16x16/16
                             {0.149f, 0.232f, 3.63f, 1.76f},  // 16x16/16
                             {1.27f, 0.564f, 3.64f, 1.58f},   // 16x16/8
                             {2.49f, 0.485f, 4.79f, 2.1f},    // 16x32/8
                             {6.76f, 2.1f, 1.64f, 0.883f},    // 32x32/16
                             {6.61f, 1.23f, 2.95f, 1.4f},     // 32x32/8
                             {3.7f, 1.04f, 9.24f, 1.82f},     // 16x64/4
                             {2.89f, 0.798f, 21.9f, 3.44f}},  // 32x128/4
                      .resident = {1, 1, 2, 2, 1, 1, 2, 1},
                      .exposed = 0.535f,
                      .again = 0.703f},
    .rounded_slices = {.of = {{0.461f, 0.995f, 4.01f, 1.72f},  // 16x16/16
                              {0.163f, 0.27f, 2.57f, 1.96f},   // 16x16/16
                              {1.59f, 0.51f, 2.72f, 1.79f},    // 16x16/8
                              {1.92f, 0.524f, 3.34f, 1.88f},   // 16x32/8
                              {2.27f, 0.8f, 4.44f, 2.35f},     // 32x32/16
                              {3.52f, 0.729f, 5.31f, 2.18f},   // 32x32/8
                              {3.73f, 1.4f, 4.31f, 1.28f},     // 16x64/4
                              {13.5f, 2.02f, 2.71f, 1.32f}},   // 32x128/4
                       .resident = {2, 1, 3, 2, 1, 2, 2, 1},
                       .exposed = 0.564f,
                       .again = 0.826f},
    .strict_pairs = {.weight = {{3.69f, 0.82f, 7.86f, 1.91f},   // 16x32/8
                                {3.38f, 0.985f, 6.29f, 2.06f},  // 16x32/8
                                {3.12f, 1.5f, 12.7f, 2.15f},    // 16x64/4
                                {10.3f, 1.16f, 23.4f, 2.23f},   // 16x128/2
                                {2.64f, 1.52f, 3.47f, 2.52f},   // 16x32/16
                                {8.52f, 2.39f, 8.73f, 2.27f},   // 32x32/8
                                {16.4f, 2.21f, 18.2f, 1.76f},   // 32x64/4
                                {8.53f, 1.33f, 31.5f, 3.11f}},  // 32x128/2
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
    .rounded_pairs = {.weight = {{2.91f, 0.617f, 4.06f, 2},      // 16x32/8
                                 {2.05f, 0.596f, 8.31f, 1.38f},  // 16x32/8
                                 {3.07f, 0.758f, 12.2f, 2.08f},  // 16x64/4
                                 {9.25f, 0.754f, 20.9f, 2.35f},  // 16x128/2
                                 {2.26f, 1.18f, 0.921f, 1.52f},  // 16x32/16
                                 {3.59f, 0.762f, 7.07f, 2.01f},  // 32x32/8
                                 {9.12f, 1.15f, 14, 1.68f},      // 32x64/4
                                 {1.32f, 1.16f, 20.7f, 2.59f}},  // 32x128/2
                      .data = {{1.95f, 0.505f, 4.44f, 0.931f},   // 16x16/8
                               {2.44f, 0.172f, 5.26f, 1.82f},    // 16x32/8
                               {3.87f, 0.0617f, 6.31f, 1.08f},   // 16x32/8
                               {1.18f, 0.185f, 3.96f, 0.682f},   // 16x16/8
                               {1.78f, 1.17f, 1.41f, 0.869f},    // 16x16/16
                               {1.75f, 0.0678f, 5.67f, 1.29f},   // 16x32/8
                               {3.08f, 0.116f, 4.33f, 2.35f},    // 16x32/8
                               {2.5f, 0.116f, 5.19f, 0.682f}},   // 16x32/8
                      .resident = {1, 2, 2, 3, 1, 1, 3, 3},
                      .exposed = 0.774f,
                      .again = 0.0125f},
    .strict_forward =
        {.work = {.once = 0.812f, .packs = 2.63f, .slices = 0.905f, .columns = 1.5f, .splits = 1.99f, .tiles = 2.69f},
         .wait = {.once = 0.937f, .packs = 4.67f, .slices = 2.2f, .columns = 0.165f, .splits = 0.598f, .tiles = 7.05f},
         .exposed = 0.128f},
    .rounded_forward =
        {.work = {.once = 0.318f, .packs = 2.29f, .slices = 1.79f, .columns = 0, .splits = 2.78f, .tiles = 3.44f},
         .wait = {.once = 1.57f, .packs = 0, .slices = 1.01f, .columns = 0, .splits = 0.357f, .tiles = 2.21f},
         .exposed = 1.09f},
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
    .strict_grad_x = {.work = {.once = 0.94f, .weights = 0, .elements = 0.035f, .products = 3.79f, .sums = 1.26f},
                      .wait = {.once = 2.58f, .weights = 0.79f, .elements = 0.757f, .products = 2.88f, .sums = 0.273f},
                      .exposed = 0.363f},
    .rounded_grad_x =
        {.work = {.once = 0.637f, .weights = 0.0153f, .elements = 0.057f, .products = 0.745f, .sums = 0.193f},
         .wait = {.once = 3.15f, .weights = 0.455f, .elements = 0.663f, .products = 0.243f, .sums = 1.31f},
         .exposed = 0.504f},
    .strict_adding = 2.47f,
    .rounded_adding = 1.7f};

}  // namespace tern::cuda::tuning
