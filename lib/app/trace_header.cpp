#include "app/trace_header.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/text_file.hpp"
#include "app/train_report.hpp"
#include "base/utc.hpp"
#include "comm/mpi/mpi.hpp"

namespace dynpipe::app {

io::TraceHeader trace_header(const TrainOptions& options, const TrainInputs& inputs,
                             const std::string& backend,
                             const std::vector<probe::RankPlace>& places,
                             const std::vector<comm::ClockOffset>& offsets) {
  io::TraceHeader header;
  header.config = config_json(options, inputs.plan, backend)
                      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  header.model = read_text_file(options.model);
  const bool is_virtual = inputs.cluster && options.emulation_mode == EmulationMode::virtual_time;
  const comm::MpiFacts mpi = comm::mpi_facts();
  header.texts = {{"clock", is_virtual ? "virtual" : "real"},
                  {"emulated_cluster", inputs.cluster ? inputs.cluster->name : ""},
                  {"status", name_of(RunStatus::running)},
                  {"started", base::utc_now()},
                  {"backend", backend},
                  {"compiler", fmt::format("GCC {}", __VERSION__)},
                  {"mpi", mpi.library},
                  {"hdf5", io::library_facts().version}};
  header.numbers = {{"batch", options.batch},
                    {"training_samples", inputs.extent.train},
                    {"test_samples", inputs.extent.test}};
  for (const model::Layer& layer : inputs.model.layers) {
    header.layers.push_back({layer.spec.name, layer.spec.type, layer.facts.forward_flops,
                             layer.facts.parameter_elements(), layer.facts.output.elements()});
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    header.ranks.push_back({static_cast<std::int32_t>(rank), places[rank].host,
                            static_cast<std::int32_t>(places[rank].threads), offsets[rank].offset_s,
                            offsets[rank].error_s});
  }
  header.events = options.trace_events;
  return header;
}

std::vector<comm::ClockOffset> share_clock_offsets(comm::Channel& channel, comm::World& world,
                                                   const base::Clock& clock,
                                                   const std::vector<probe::RankPlace>& places) {
  const comm::ClockOffset own = comm::find_clock_offset(channel, world.size(), clock);
  const auto texts = world.gather(nlohmann::json({own.offset_s, own.error_s}).dump());
  std::vector<comm::ClockOffset> offsets;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto numbers = nlohmann::json::parse(texts[rank]);
    offsets.push_back({numbers[0], numbers[1]});
    if (places[rank].host == places.front().host) offsets.back() = {};
  }
  return offsets;
}

}  // namespace dynpipe::app
