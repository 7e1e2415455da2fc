#pragma once
// Shared by mnist_mlp and mnist_cnn besides the training itself: options, data, the progress line, the record of the
// run.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <tern/io/file.hpp>
#include <tern/tern.hpp>
#include <vector>

namespace mnist {

enum ExitCode : int { success = 0, failed = 1, usage = 2, data_error = 3, device_error = 4 };

struct Options {
  std::string name = {};  // of the program
  double claim = 0;       // the test accuracy that the defaults promise on the real digits
  std::int64_t epochs = 10;
  std::int64_t batch = 128;
  double learning_rate = 0.05;

  std::string mode = "fastest", data = {}, json = {};
  bool download = false, synthetic = false, quiet = false;
  std::int64_t limit = 0;
  int threads = 0;
  std::uint64_t seed = 1;
  double assert_accuracy = -1;  // below 0: the claim, if it applies
};

/// Parses the command line, runs `train` and turns exceptions into an exit code and a sentence.
inline int run(int argc, char** argv, Options options, int (*train)(const Options&)) {
  CLI::App app("Trains on MNIST and reports the test accuracy.", options.name);
  const std::int64_t usual_epochs = options.epochs;
  app.add_option("--mode", options.mode, "sequential, vectorized, cuda, fastest (of those present) or auto (by trial)");
  app.add_option("--data", options.data, "folder with the MNIST files; else $TERN_DATA_DIR, else the cache folder");
  app.add_flag("--download", options.download, "fetch missing MNIST files (11 MB)");
  app.add_flag("--synthetic", options.synthetic, "train on drawn digits");
  app.add_option("--epochs", options.epochs, "passes over the training set")->check(CLI::Range(1, 100000));
  app.add_option("--batch", options.batch, "images per step")->check(CLI::Range(1, 1000000));
  app.add_option("--learning-rate", options.learning_rate, "learning rate at the start")->check(CLI::PositiveNumber);
  app.add_option("--limit", options.limit, "use only the first N images of each set")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", options.seed, "of the weights and the order of the images");
  app.add_option("--threads", options.threads, "the most threads to use; 0: all")->check(CLI::Range(0, 4096));
  app.add_option("--json", options.json, "write the record of the run to this file");
  app.add_option("--assert", options.assert_accuracy, "fail below this test accuracy (0 to 1)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--quiet", options.quiet, "print the last line only");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? success : usage;
  }
  // A shortened run promises no accuracy.
  if (options.epochs < usual_epochs || options.limit > 0) options.claim = 0;
  try {
    return train(options);
  } catch (const tern::DeviceUnavailable& error) {
    std::fprintf(stderr, "%s: %s\n", options.name.c_str(), error.what());
    return device_error;
  } catch (const tern::FileError& error) {
    std::fprintf(stderr, "%s: %s\n", options.name.c_str(), error.what());
    return data_error;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", options.name.c_str(), error.what());
    return failed;
  }
}

/// The digits that the options name.
inline tern::data::Mnist load(const Options& options) {
  tern::data::MnistOptions wanted;
  wanted.folder = options.data;
  wanted.download = options.download;
  wanted.synthetic = options.synthetic;
  wanted.allow_synthetic = true;  // it reports that
  wanted.say = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); };
  tern::data::Mnist digits = tern::data::load_mnist(wanted);
  if (options.limit > 0) digits = {digits.train.take(options.limit), digits.test.take(options.limit)};
  return digits;
}

/// The fraction of the test images that `net` recognises.
inline double evaluate(tern::nn::Module& net, const tern::Tensor& images, const tern::Tensor& labels) {
  const tern::NoGrad no_grad;
  tern::nn::Accuracy accuracy;
  net.eval();
  for (std::int64_t begin = 0; begin < labels.size(0); begin += 1000) {
    const std::int64_t end = std::min<std::int64_t>(begin + 1000, labels.size(0));
    accuracy.update(net(images.slice(0, begin, end)), labels.slice(0, begin, end));
  }
  net.train();
  return accuracy.value();
}

/// Reports the training's progress: a line that is rewritten on a terminal, a line per epoch, the record in JSON.
class Report {
 public:
  Report(const Options& options, const tern::Device& device, const tern::data::Mnist& digits,
         const tern::nn::Module& net)
      : options_(options),
        device_(device.name() + " (" + device.description() + ")"),
        source_(digits.train.source),
        synthetic_(digits.train.synthetic),
        total_(digits.train.size() * options.epochs),
        bar_(!options.quiet && isatty(STDERR_FILENO) != 0),
        colour_(std::getenv("NO_COLOR") == nullptr),
        began_(now()) {
    if (options.quiet) return;
    std::printf("%s, %ld parameters, in mode %s\n", net.describe().c_str(), static_cast<long>(net.parameter_count()),
                device_.c_str());
    std::printf("%ld training and %ld test images: %s\n", static_cast<long>(digits.train.size()),
                static_cast<long>(digits.test.size()), source_.c_str());
    if (synthetic_)
      std::printf(
          "These digits are SYNTHETIC, drawn by a generator: the accuracy says nothing about MNIST.\n"
          "For the real ones: --download, or --data DIR.\n");
    std::fflush(stdout);
  }

  /// Called after each step. Reads the loss, which waits for the device, only when the line is due.
  void step(std::int64_t epoch, std::int64_t images, const tern::Tensor& loss) {
    done_ += images;
    if (!bar_ || now() < next_line_) return;
    const double rate = static_cast<double>(done_) / (now() - began_);
    const auto left = static_cast<long>(static_cast<double>(total_ - done_) / rate);
    constexpr std::int64_t width = 24;
    const auto filled = static_cast<std::size_t>(width * done_ / total_);
    const std::string bar = std::string(filled, '=') + std::string(width - filled, '.');
    std::fprintf(stderr, "\r\033[Kepoch %ld/%ld %s%s%s loss %.4f, %.0f images/s, ETA %ld:%02ld",
                 static_cast<long>(epoch + 1), static_cast<long>(options_.epochs), colour_ ? "\033[32m" : "",
                 bar.c_str(), colour_ ? "\033[0m" : "", loss.item(), rate, left / 60, left % 60);
    std::fflush(stderr);
    next_line_ = now() + 0.1;
  }

  /// Called after each epoch's steps, before the test: `loss` is the mean over the epoch.
  void trained(double loss) {
    tern::expects<tern::NumericError>(std::isfinite(loss), "the loss is ", loss, "; try a smaller --learning-rate");
    epochs_.push_back({.loss = loss, .seconds = now() - epoch_began_});
  }
  /// Called after the epoch's test.
  void tested(double accuracy) {
    Epoch& epoch = epochs_.back();
    epoch.accuracy = accuracy;
    const double images = static_cast<double>(total_ / options_.epochs);
    epoch.rate = images / epoch.seconds;
    if (bar_) std::fputs("\r\033[K", stderr);
    if (!options_.quiet)
      std::printf("epoch %zu/%ld: loss %.4f, test accuracy %.2f %%, %.0f images/s\n", epochs_.size(),
                  static_cast<long>(options_.epochs), epoch.loss, 100 * accuracy, epoch.rate);
    std::fflush(stdout);
    epoch_began_ = now();
  }

  /// The last line, the record, and whether the run reached its target.
  int finish() const {
    const double accuracy = epochs_.back().accuracy;
    if (!options_.json.empty()) write_json();
    const double wanted = options_.assert_accuracy >= 0 ? options_.assert_accuracy : options_.claim;
    if (accuracy < wanted)
      std::fprintf(stderr, "%s: the test accuracy %.4f is below %.4f\n", options_.name.c_str(), accuracy, wanted);
    std::printf("test accuracy: %.2f %%\n", 100 * accuracy);
    return accuracy < wanted ? failed : success;
  }

 private:
  struct Epoch {
    double loss = 0, seconds = 0, accuracy = 0, rate = 0;
  };
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + '"';
  }
  void write_json() const {
    std::ostringstream text;
    text << std::setprecision(9) << "{\"program\": " << quoted(options_.name)
         << ", \"version\": " << quoted(tern::version()) << ", \"device\": " << quoted(device_)
         << ", \"data\": " << quoted(source_) << ", \"synthetic\": " << (synthetic_ ? "true" : "false")
         << ", \"seed\": " << options_.seed << ", \"batch\": " << options_.batch
         << ", \"learning_rate\": " << options_.learning_rate << ",\n \"epochs\": [";
    for (std::size_t i = 0; i < epochs_.size(); ++i)
      text << (i == 0 ? "" : ",") << "\n  {\"epoch\": " << i + 1 << ", \"loss\": " << epochs_[i].loss
           << ", \"test_accuracy\": " << epochs_[i].accuracy << ", \"training_seconds\": " << epochs_[i].seconds
           << ", \"images_per_second\": " << epochs_[i].rate << "}";
    text << "],\n \"test_accuracy\": " << epochs_.back().accuracy << "}\n";
    tern::io::AtomicFile file(options_.json);
    const std::string record = text.str();
    file.write(std::as_bytes(std::span(record)));
    file.commit();
  }

  const Options& options_;
  std::string device_, source_;
  bool synthetic_;
  std::int64_t total_, done_ = 0;
  bool bar_, colour_;
  double began_, next_line_ = 0, epoch_began_ = began_;
  std::vector<Epoch> epochs_;
};

}  // namespace mnist
