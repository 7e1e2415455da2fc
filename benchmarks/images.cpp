// Images per second that a DataLoader delivers from a folder of photographs and from SyntheticImages, with several
// numbers of workers, and the processor time per image. Prints a table in Markdown.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <tern/tern.hpp>
#include <vector>

namespace {

using namespace tern;

struct Options {
  std::string folder;
  std::vector<int> workers{1, 2};
  std::int64_t batch = 32, size = 224, short_side = 256;
  int passes = 5;
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void measure(const char* title, const std::shared_ptr<const data::ExampleSource>& source, int workers,
             const Options& options) {
  const data::DataLoader loader{source, {.batch_size = options.batch, .workers = workers}};
  std::vector<double> rates;
  double processor = 0;
  std::int64_t images = 0;
  for (int pass = 0; pass <= options.passes; ++pass) {  // the first one warms up
    const auto start = std::chrono::steady_clock::now();
    const double processor_start = processor_seconds();
    std::int64_t count = 0;
    for (const data::Batch& batch : loader.epoch(pass)) count += batch.size;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (pass == 0) continue;
    rates.push_back(static_cast<double>(count) / time.count());
    processor += processor_seconds() - processor_start;
    images += count;
  }
  std::ranges::sort(rates);
  std::printf("| %s | %d | %.0f (%.0f to %.0f) | %.2f |\n", title, workers, rates[rates.size() / 2], rates.front(),
              rates.back(), 1000 * processor / static_cast<double>(images));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Images per second of the data loader"};
  app.add_option("folder", options.folder, "a folder with a folder of JPEG and PNG images per class")->required();
  app.add_option("--workers", options.workers, "numbers of threads")->delimiter(',')->capture_default_str();
  app.add_option("--batch", options.batch, "images per batch")->capture_default_str();
  app.add_option("--size", options.size, "height and width of an image")->capture_default_str();
  app.add_option("--short-side", options.short_side, "the shorter side before the crop")->capture_default_str();
  app.add_option("--passes", options.passes, "passes over the set that are measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const auto photographs = std::make_shared<const data::ImageFolder>(
        options.folder,
        data::ImageFolderOptions{
            .size = options.size, .short_side = options.short_side, .crop = data::Crop::random, .mirror = true});
    const auto drawn = std::make_shared<const data::SyntheticImages>(data::SyntheticImagesOptions{
        .count = photographs->size(), .size = options.size, .classes = photographs->classes()});
    std::printf("%lld images, %lld x %lld, batches of %lld\n\n", static_cast<long long>(photographs->size()),
                static_cast<long long>(options.size), static_cast<long long>(options.size),
                static_cast<long long>(options.batch));
    std::printf("| source | workers | images/s | processor ms per image |\n|---|---|---|---|\n");
    for (const int workers : options.workers) measure("ImageFolder", photographs, workers, options);
    for (const int workers : options.workers) measure("SyntheticImages", drawn, workers, options);
  } catch (const Error& error) {
    std::fprintf(stderr, "images: %s\n", error.what());
    return 1;
  }
}
