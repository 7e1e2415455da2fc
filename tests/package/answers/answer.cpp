// A program to ship: answer STEM... runs each STEM.tern on the tensors of STEM.in, in four threads, and compares the
// results with STEM.out. It prints what differs. `answer --once STEM` answers once, for timing.

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tern/autograd/tape.hpp"
#include "tern/graph/program.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/modes/device.hpp"

using namespace tern;

namespace {

std::vector<Tensor> read(const std::string& file) {
  const std::map<std::string, Tensor> named = io::load_safetensors(file).tensors;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < named.size(); ++i) tensors.push_back(named.at(std::to_string(i)));
  return tensors;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor whole = a.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(b.numel()) * size_of(b.dtype());
  const auto at = [](const Tensor& x) {
    return static_cast<const std::byte*>(x.storage().read_host()) +
           static_cast<std::size_t>(x.offset()) * size_of(x.dtype());
  };
  return bytes == 0 || std::memcmp(at(whole), at(b), bytes) == 0;
}

int differing(const graph::Program& program, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int call = 0; call < 3; ++call) try {
          const std::vector<Tensor> results = program(inputs);
          wrong += results.size() != expected.size();
          for (std::size_t k = 0; k < results.size(); ++k) wrong += !same(results[k], expected.at(k));
        } catch (const std::exception& error) {
          if (wrong++ == 0) std::printf("%s\n", error.what());
        }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device{"vectorized"};
  if (argc == 3 && std::string(argv[1]) == "--once") {
    const std::string stem = argv[2];
    return static_cast<int>(graph::Program::load(stem + ".tern")(read(stem + ".in")).size()) - 1;
  }
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string stem = argv[i];
    const graph::Program program = graph::Program::load(stem + ".tern");
    if (differing(program, read(stem + ".in"), read(stem + ".out")) == 0) continue;
    std::printf("%s differs:\n%s", stem.c_str(), program.graph().text().c_str());
    ++failed;
  }
  return failed != 0;
} catch (const Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
