#include "app/profile_command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "app/measured_profile.hpp"
#include "app/profile_images.hpp"
#include "app/profile_options.hpp"
#include "app/same_options.hpp"
#include "app/terminal.hpp"
#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "nn/layer.hpp"
#include "probe/launcher.hpp"

namespace dynpipe::app {
namespace {

/// One line that is written over, on a terminal.
std::function<void(const ProfileProgress&)> progress_line(const comm::World& world) {
  if (world.rank() != 0 || !Terminal::of_stdout()) return {};
  return [](const ProfileProgress& progress) {
    const std::string known = progress.uncertainty < 1 ? fmt::format(", medians known to {:.2f} %",
                                                                     100 * progress.uncertainty)
                                                       : "";
    fmt::print("\r\x1b[Kmeasuring layers: {:.1f} s, {} groups{}", progress.passed_s,
               progress.groups, known);
    std::fflush(stdout);
  };
}

void end_line(const comm::World& world) {
  if (world.rank() == 0 && Terminal::of_stdout()) fmt::print("\r\x1b[K");
}

model::Model shared_model(const std::string& file, comm::World& world) {
  std::string text;
  world.together([&] {
    if (world.rank() == 0) text = read_text_file(file);
  });
  text = world.broadcast(text);
  model::Model model;
  world.together([&] { model = model::parse_model(text, file, nn::layer_types()); });
  return model;
}

}  // namespace

void profile(const std::vector<std::string>& words, comm::World& world) {
  std::optional<ProfileOptions> options;
  world.together([&] {
    options = parse_profile_options(words);
    const std::string mismatch = probe::launcher_mismatch(world.size(), std::getenv);
    if (options && !mismatch.empty()) throw base::InputError("", "", mismatch);
  });
  require_same_options(options ? options->texts : OptionTexts{{"help", ""}}, world);
  if (!options) {
    if (world.rank() == 0) fmt::print("{}", profile_help());
    return;
  }
  world.set_deadline(options->train.deadline_s);
  const model::Model model = shared_model(options->train.model, world);
  const std::vector<std::int64_t> samples =
      microbatch_sizes(options->train.batch, options->microbatches);
  WriteImages images;
  world.together([&] {
    check_sizes(model, samples);
    const TrainOptions& train = options->train;
    if (!train.data.empty()) images = training_images(train.data, model, train.seed);
  });
  const MeasuredProfile measured = measure_profile(
      {model, options->train, samples, options->seconds, images}, world, progress_line(world));
  end_line(world);
  world.together([&] {
    if (world.rank() != 0) return;
    fmt::print("{}", describe_profile(measured, model));
    if (!options->out.empty()) {
      replace_text_file(options->out, model::to_json(measured.profile));
      fmt::print("profile written to {}\n", options->out);
    }
    std::fflush(stdout);
  });
}

}  // namespace dynpipe::app
