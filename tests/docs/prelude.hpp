#pragma once
// What the snippets of the documentation assume.
#include <cstdio>
#include <tern/tern.hpp>
#include <thread>

using namespace tern;
namespace op = tern::operators;
