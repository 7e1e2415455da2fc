// Trains LeNet with a training::Trainer on synthetic digits, is stopped in the middle, and resumes from its checkpoint
// to the same weights as an uninterrupted training: `trainer [FOLDER]`. Ctrl-C stops it, too; started again with the
// same folder it continues.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <tern/tern.hpp>

using namespace tern;

namespace {

struct Run {
  training::Ended ended = training::Ended::finished;
  nn::State weights = {};
  double accuracy = 0;
};

/// Trains, starting from the folder's newest checkpoint if there is one; `stop` is called before each step.
Run train_in(const std::string& folder, const std::function<bool(std::int64_t step)>& stop) {
  models::LeNet net{/*seed=*/1};
  manual_seed(1);
  optim::SGD sgd{net.parameters(), {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 5e-4}};
  const data::Split digits = data::split(data::synthetic_digits(600), 0.2, /*seed=*/0);
  const data::LoaderOptions batches{
      .batch_size = 16, .seed = 1, .resident = true, .mean = data::mnist_mean, .deviation = data::mnist_deviation};
  const training::TrainerOptions options{.epochs = 4,
                                         .validation = data::DataLoader{digits.validation, batches},
                                         .schedule = optim::CosineLr{.total = 4},
                                         .clip_norm = 5,
                                         .patience = 4,
                                         .checkpoints = folder};
  const auto loss = [&](const Tensor& x, const Tensor& labels) {
    const Tensor logits = net(x);
    return parallel::ShardLoss{op::cross_entropy(logits, labels), nn::count_right(logits, labels)};
  };
  training::Trainer trainer{net, sgd, data::DataLoader{digits.train, batches}, loss, options};
  if (trainer.resume()) std::printf("going on after step %lld\n", static_cast<long long>(trainer.position().step));
  const training::Ended ended = trainer.run({
      .epoch =
          [](const training::EpochResult& epoch) {
            std::printf("epoch %lld: loss %.4f, of held-out digits %.4f, accuracy %.1f %%%s\n",
                        static_cast<long long>(epoch.epoch), epoch.loss, *epoch.validation_loss,
                        100 * *epoch.validation_accuracy, epoch.best ? ", the best so far" : "");
          },
      .stop = [&] { return training::SignalGuard::received() != 0 || stop(trainer.position().step); },
  });
  if (ended == training::Ended::interrupted) {
    std::printf("stopped; saved in %s\n", trainer.save().c_str());
    return {ended};
  }
  return {ended, trainer.result(), *trainer.kept().validation_accuracy};
}

bool equal(const nn::State& a, const nn::State& b) {
  bool all = a.size() == b.size();
  for (const auto& [name, tensor] : a) all = all && b.contains(name) && tensor.values() == b.at(name).values();
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const training::SignalGuard signals;
  const Device device;
  if (argc > 1) return train_in(argv[1], [](std::int64_t) { return false; }).weights.empty() ? 1 : 0;

  std::string path = (std::filesystem::temp_directory_path() / "tern-trainer-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return 1;
  const Run whole = train_in(path + "/whole", [](std::int64_t) { return false; });
  (void)train_in(path + "/stopped", [](std::int64_t step) { return step == 40; });
  const Run resumed = train_in(path + "/stopped", [](std::int64_t) { return false; });
  std::filesystem::remove_all(path);
  const bool same = equal(whole.weights, resumed.weights);
  std::printf("the best epoch knows %.1f %% of the held-out digits; stopped and resumed, its weights are %s\n",
              100 * whole.accuracy, same ? "the same" : "OTHERS");
  return same && whole.accuracy > 0.8 ? 0 : 1;
}
