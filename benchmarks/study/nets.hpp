#pragma once
// The networks of the study and the images that they are trained on.

#include "study.hpp"

namespace tern::study {

/// alexnet, googlenet, vgg16, resnet18.
const std::vector<std::string>& net_names();
/// Throws Error for another name.
std::shared_ptr<models::ImageClassifier> make_net(const std::string& name, const Setting& setting);
/// Its parameters and operations, from one run on an empty image.
NetFacts facts_of(const models::ImageClassifier& net);
/// The least that a training step of one image keeps: a first estimate of a batch's memory.
double bytes_per_image(const models::ImageClassifier& net);

/// The images of a study at one size, decoded once and kept as float32, with a description.
data::Dataset load_images(const Setting& setting, std::int64_t size, std::int64_t classes_of_net);
std::string describe_images(const Setting& setting);

}  // namespace tern::study
