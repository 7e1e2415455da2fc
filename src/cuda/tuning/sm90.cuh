#pragma once
// Figures of the architecture 9.0, fitted to times on an H100 and an H200. Columns: costs.cuh.

#include "cuda/tuning/costs.cuh"

namespace tern::cuda::tuning {

inline constexpr Costs sm90{
    // work_k, work_once, wait_k, wait_once
    .strict_tiles = {.of = {{8.29f, 1.53f, 11.9f, 1.41f},   // 32x16
                            {7.56f, 0.977f, 19.6f, 1.04f},  // 32x32
                            {12.9f, 1.4f, 25.7f, 3.45f},    // 64x32
                            {20.2f, 4.06f, 25.4f, 4.05f},   // 64x64
                            {39.3f, 4.56f, 52.8f, 5.13f},   // 128x64
                            {96.9f, 5.56f, 89.1f, 2.45f}},  // 128x128
                     .split = 0.518f,
                     .part = 0.128f,
                     .reached = {1, 1, 1, 1}},
    .rounded_tiles = {.of = {{2.86f, 1.23f, 5.77f, 2.25f},
                             {4.61f, 1.39f, 8.26f, 2.2f},
                             {5.64f, 1.16f, 12.9f, 2.06f},
                             {13.8f, 3.92f, 0, 0},
                             {25.2f, 4.39f, 0, 0},
                             {46.1f, 5.44f, 0, 0}},
                      .split = 0.711f,
                      .part = 0.0405f,
                      .reached = {1, 0.955f, 0.909f, 0.848f}},
    .rounded_backward_tiles = {.of = {{7.5f, 0.96f, 5.9f, 3.5f},
                                      {3.6f, 0.66f, 10, 0.79f},
                                      {5.9f, 1.4f, 16.5f, 2.3f},
                                      {8.7f, 4.4f, 22, 2.5f},
                                      {35, 3.9f, 35, 4.8f},
                                      {12, 2, 86, 1.5f}},
                               .split = 1.16f,
                               .part = 0.074f,
                               .reached = {1, 1, 0.915f, 0.815f}},
    .strict_slices = {.of = {{1.45f, 0.843f, 2.29f, 1.26f},   // 16x16/16/1
                             {0.161f, 0.28f, 2.65f, 1.46f},   // 16x16/16/4
                             {0.138f, 1.1f, 4.34f, 0.686f},   // 16x16/8/2
                             {2.47f, 0.865f, 5.44f, 1.35f},   // 16x32/8/2
                             {5.82f, 2.14f, 3.49f, 1.03f},    // 32x32/16/1
                             {7.08f, 1.16f, 3.3f, 1.19f},     // 32x32/8/2
                             {3.91f, 1.23f, 11.3f, 1.42f},    // 16x64/4/2
                             {3.57f, 0.637f, 20.7f, 3.66f}},  // 32x128/4/1
                      .resident = {1, 1, 2, 2, 1, 1, 2, 1},
                      .exposed = 0.396f,
                      .again = 0.992f},
    .rounded_slices = {.of = {{0.52f, 1.18f, 3.95f, 0.846f},
                              {0.16f, 0.257f, 2.1f, 1.57f},
                              {1.17f, 0.786f, 3.18f, 1.07f},
                              {1.96f, 0.619f, 3.67f, 1.31f},
                              {2.48f, 0.951f, 4.06f, 1.91f},
                              {4.32f, 0.766f, 4.53f, 1.78f},
                              {4.45f, 0.936f, 4.02f, 1.35f},
                              {13.8f, 1.63f, 3.23f, 1.43f}},
                       .resident = {2, 1, 3, 2, 1, 2, 2, 1},
                       .exposed = 0.491f,
                       .again = 1.09f},
    .strict_pairs = {.weight = {{3.99f, 0.655f, 7.04f, 1.63f},  // 16x32/8
                                {4.14f, 0.624f, 6.7f, 1.64f},   // 16x32/8
                                {6.4f, 0.872f, 13.5f, 1.95f},   // 16x64/4
                                {13, 0.878f, 26.2f, 2.18f},     // 16x128/2
                                {3.92f, 1.33f, 4.49f, 1.82f},   // 16x32/16
                                {8.08f, 1.23f, 6.56f, 2.08f},   // 32x32/8
                                {13.3f, 2.29f, 19.1f, 0.737f},  // 32x64/4
                                {24.9f, 1.88f, 28.5f, 2.49f}},  // 32x128/2
                     .data = {{2.3f, 0.591f, 6.4f, 1.11f},      // 16x16/8
                              {3.2f, 0.804f, 11, 0.987f},       // 16x32/8
                              {4.54f, 0.506f, 10.4f, 1.04f},    // 16x32/8
                              {2.73f, 0.387f, 6.36f, 0.906f},   // 16x16/8
                              {3.5f, 1.01f, 5.37f, 0.843f},     // 16x16/16
                              {6.35f, 0.76f, 11.9f, 0.158f},    // 16x32/8
                              {5.08f, 0.778f, 5.24f, 1.58f},    // 16x32/8
                              {7.46f, 0.149f, 7.85f, 0.527f}},  // 16x32/8
                     .resident = {2, 2, 2, 2, 1, 1, 2, 2},
                     .exposed = 0.329f,
                     .again = 0.0934f},
    .rounded_pairs = {.weight = {{4.11f, 0.726f, 6.89f, 1.71f},
                                 {3.81f, 0.74f, 6.79f, 1.62f},
                                 {6.4f, 0.874f, 14, 1.82f},
                                 {14, 0.808f, 24.4f, 2.16f},
                                 {3.54f, 1.49f, 4.66f, 1.3f},
                                 {5.18f, 0.781f, 8.88f, 1.97f},
                                 {8.86f, 1.18f, 17.4f, 2.81f},
                                 {2.39f, 1.19f, 49.9f, 2.93f}},
                      .data = {{2.09f, 0.579f, 8.88f, 0.922f},
                               {3.24f, 0.522f, 10.8f, 1.01f},
                               {5.95f, 0.0733f, 6.65f, 1.58f},
                               {3.17f, 0.408f, 7.15f, 0.721f},
                               {2.13f, 1.48f, 2.25f, 1.19f},
                               {5.21f, 0.145f, 8.08f, 1.21f},
                               {4.63f, 0.22f, 6.33f, 1.91f},
                               {7.03f, 0.0461f, 7.93f, 0.764f}},
                      .resident = {2, 2, 2, 2, 1, 1, 2, 2},
                      .exposed = 0.329f,
                      .again = 0.0256f},
    .strict_forward =
        {.work = {.once = 0.759f, .packs = 2.58f, .slices = 0.586f, .columns = 1.66f, .splits = 1.54f, .tiles = 2.47f},
         .wait = {.once = 0.977f, .packs = 4.46f, .slices = 2.08f, .columns = 0.173f, .splits = 0.439f, .tiles = 6.53f},
         .exposed = 0.0579f},
    .rounded_forward =
        {.work = {.once = 0.476f, .packs = 1.16f, .slices = 1.45f, .columns = 0, .splits = 1.35f, .tiles = 2.87f},
         .wait = {.once = 0.539f, .packs = 0, .slices = 1.29f, .columns = 0, .splits = 0.525f, .tiles = 2.75f},
         .exposed = 1.32f},
    .strict_grad_weight =
        {.work = {.once = 0, .packs = 4.29f, .slices = 0, .columns = 1.46f, .splits = 3.47f, .tiles = 6.36f},
         .wait = {.once = 0.592f,
                  .packs = 4.85f,
                  .slices = 3.45f,
                  .columns = 0.651f,
                  .splits = 1.1f,
                  .tiles = 0.593f,
                  .rounds = 0.155f},
         .exposed = 0.117f},
    .rounded_grad_weight =
        {.work = {.once = 0.0942f, .packs = 1.13f, .slices = 0.274f, .columns = 0.0499f, .splits = 0, .tiles = 5.19f},
         .wait = {.once = 2.09f,
                  .packs = 5.45f,
                  .slices = 2.84f,
                  .columns = 0.257f,
                  .splits = 0.604f,
                  .tiles = 0.868f,
                  .rounds = 0},
         .exposed = 0.771f},
    .strict_grad_x = {.work = {.once = 0.438f, .weights = 0, .elements = 0.083f, .products = 3.67f, .sums = 1.49f},
                      .wait = {.once = 3.9f, .weights = 0.818f, .elements = 1.04f, .products = 1.09f, .sums = 0.248f},
                      .exposed = 0.265f},
    .rounded_grad_x =
        {.work = {.once = 0.637f, .weights = 0.0153f, .elements = 0.057f, .products = 0.745f, .sums = 0.193f},
         .wait = {.once = 3.15f, .weights = 0.455f, .elements = 0.663f, .products = 0.243f, .sums = 1.31f},
         .exposed = 0.504f},
    .strict_adding = 2.47f,
    .rounded_adding = 1.7f};

}  // namespace tern::cuda::tuning
