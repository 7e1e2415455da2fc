// What a training's checkpoint holds besides its Trainer's part, and how a training resumes from it.

#include "blueprint_file.hpp"
#include "errors.hpp"
#include "tern/tensor/create.hpp"
#include "training.hpp"

namespace tern::tool {

namespace {

constexpr const char* refit_key = "refit";        // how many epochs are repeated
constexpr const char* searched_key = "searched";  // the epochs before

}  // namespace

io::Checkpoint Training::snapshot() const {
  io::Checkpoint checkpoint = trainer_->snapshot();
  checkpoint.tensors[refit_key] = scalar(refit_epochs_);
  if (refitting()) checkpoint.tensors[searched_key] = training::table_of(searched_);
  checkpoint.metadata["model"] = to_json(blueprint_).dump();
  return checkpoint;
}

void Training::restore(const io::Checkpoint& checkpoint, const std::string& file) {
  const auto need = [&](const char* name) {
    const auto found = checkpoint.tensors.find(name);
    expects<FileError>(found != checkpoint.tensors.end(), file, ": the checkpoint lacks '", name, "'");
    return found->second;
  };
  const Tensor refit = need(refit_key);
  expects<FileError>(refit.dtype() == DType::int64 && refit.numel() == 1, file, ": '", refit_key,
                     "' in the checkpoint is not a count");
  if (const auto epochs = refit.item<std::int64_t>(); epochs != 0) {
    const Tensor searched = need(searched_key);
    expects<FileError>(
        searched.dtype() == DType::float64 && searched.rank() == 2 && epochs > 0 && epochs <= searched.size(0), file,
        ": the checkpoint repeats ", epochs, " epochs of ", searched.shape());
    begin_refit(epochs);
    searched_ = training::epochs_in(searched);
    const auto known = static_cast<std::int64_t>(searched_.size());
    const std::int64_t since_best = kept().best ? known - kept().epoch : known;
    expects<UsageError>(
        known >= *settings_.epochs || (*settings_.early_stop > 0 && since_best >= *settings_.early_stop), file,
        ": this training has found its number of epochs and now trains on all ",
        "examples; more --epochs need another --run, or --refit no from the start");
  }
  trainer_->restore(checkpoint, file);
}

}  // namespace tern::tool
