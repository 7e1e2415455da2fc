// What must be equal in all ranks of a training, one line each.

#include <algorithm>
#include <array>
#include <charconv>

#include "tern/data/fingerprint.hpp"
#include "tern/training/trainer.hpp"

namespace tern::training {

namespace {

/// All digits, independent of the locale.
std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// The order of the examples, and a checksum over those in memory; a source is identified by its labels.
std::string text_of(const char* what, const data::DataLoader& loader, const std::string& sum) {
  const data::LoaderOptions& options = loader.options();
  return message(what, ": ", loader.dataset().size(), " examples of ", loader.dataset().classes,
                 " classes, fingerprint ", sum, ", batch size ", options.batch_size, ", shuffle ", options.shuffle,
                 ", seed ", options.seed, ", drop_last ", options.drop_last, ", mean ", exact(options.mean),
                 ", deviation ", exact(options.deviation), ", resident ", options.resident, '\n');
}

std::string sum_of(const data::DataLoader& loader) {
  return data::Fingerprint().add(loader.dataset()).add(loader.options().targets).text();
}

/// A function is identified by sample values.
std::string text_of(const optim::Schedule& schedule, std::int64_t last) {
  if (!schedule) return "none";
  std::string text;
  for (std::int64_t at = 0, next = 1; at <= last; next = at + std::max<std::int64_t>(1, at / 2), at = next)
    text += message(text.empty() ? "" : ", ", exact(schedule(at)));
  return text;
}

std::string text_of(const std::optional<optim::GradScalerOptions>& options, bool scales) {
  if (!scales) return "none";
  const optim::GradScalerOptions scaler = options.value_or(optim::GradScalerOptions{});
  return message("scale ", exact(scaler.scale), ", growth ", exact(scaler.growth), ", backoff ", exact(scaler.backoff),
                 ", interval ", scaler.interval);
}

std::string text_of(const data::AugmentOptions& augment) {
  std::string text =
      message("shift ", augment.shift, ", mirror ", augment.mirror, ", rotation ", exact(augment.rotation),
              ", brightness ", exact(augment.brightness), ", contrast ", exact(augment.contrast), ", saturation ",
              exact(augment.saturation), ", cutout ", augment.cutout, ", cover ", exact(augment.cover), ", mix ",
              exact(augment.mix), ", seed ", augment.seed);
  for (const double mean : augment.mean) text += ", mean " + exact(mean);
  for (const double deviation : augment.deviation) text += ", deviation " + exact(deviation);
  return text;
}

}  // namespace

std::string Trainer::described() const {
  const std::int64_t last = options_.schedule_by_step ? options_.epochs * position_.batches : options_.epochs;
  std::string text =
      message("epochs ", options_.epochs, "\nclip_norm ", exact(options_.clip_norm), "\naverage ",
              exact(options_.average), "\npatience ", options_.patience,
              "\nscaler: ", text_of(options_.scaler, scaler_.has_value()), "\ncheckpoint_every ",
              options_.checkpoint_every, "\nshards ", options_.shards, "\nfirst_step ", options_.first_step,
              "\nschedule by ", options_.schedule_by_step ? "step: " : "epoch: ", text_of(options_.schedule, last),
              "\naugment: ", text_of(options_.augment), "\noptimiser: ", optimizer_->describe(), ", learning rate ",
              exact(optimizer_->learning_rate()), "\nrandom numbers: seed ", default_generator().seed(), ", position ",
              default_generator().position(), "\nposition: epoch ", position_.epoch, ", batch ", position_.batch,
              ", step ", position_.step, '\n');
  for (const EpochResult& epoch : history_) text += message("epoch ", epoch.epoch, ": loss ", exact(epoch.loss), '\n');
  text += text_of("training", loader_, fingerprints_.substr(0, 16));
  if (options_.validation) text += text_of("validation", *options_.validation, fingerprints_.substr(16));
  return text;
}

void Trainer::take_fingerprints() {
  if (!fingerprints_.empty()) return;
  fingerprints_ = sum_of(loader_);
  if (options_.validation) fingerprints_ += sum_of(*options_.validation);
}

}  // namespace tern::training
