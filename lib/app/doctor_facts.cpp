#include "app/doctor_facts.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "app/rank_places.hpp"
#include "device/cpu/cpu_device.hpp"
#include "ops/ops.hpp"
#include "probe/crowding.hpp"
#include "probe/usage.hpp"

namespace dynpipe::app {
namespace {

using nlohmann::json;

constexpr double k_load_window_s = 0.3;
constexpr double k_product_window_s = 0.2;

int number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  const std::string_view view(text);
  int number = 0;
  std::from_chars(view.data(), view.data() + view.size(), number);
  return number;
}

/// Cores' worth of work on this host while its ranks sleep.
double measure_other_load(comm::World& world, const base::Clock& clock) {
  const auto ticks = [] {
    return probe::parse_cpu_ticks(probe::read_text("/proc/stat").value_or(""))
        .value_or(probe::CpuTicks{})
        .busy;
  };
  world.barrier();
  const double began_s = clock.now_s();
  const double own_began_s = probe::own_cpu_s();
  const std::int64_t before = ticks();
  std::this_thread::sleep_for(std::chrono::duration<double>(k_load_window_s));
  const std::int64_t passed = ticks() - before;
  return probe::other_load(passed, probe::ticks_per_s(),
                           (probe::own_cpu_s() - own_began_s) * world.local_size(),
                           clock.now_s() - began_s);
}

/// All ranks at once, as in training.
double measure_products(comm::World& world, int threads, const base::Clock& clock) {
  constexpr std::int64_t k_size = 512;
  constexpr double k_flops = 2.0 * k_size * k_size * k_size;
  device::CpuDevice device;
  const auto stream = device.make_stream("products");
  const auto ops = ops::make_onednn_ops(threads);
  const device::Buffer memory = device.allocate(3 * k_size * k_size * sizeof(float));
  const auto matrix = [&](std::size_t index) {
    return tensor::Tensor{memory.data() + index * k_size * k_size * sizeof(float),
                          tensor::DType::float32,
                          tensor::Layout::plain,
                          {k_size, k_size}};
  };
  for (std::size_t index = 0; index < 3; ++index) ops->fill(*stream, 0.5, matrix(index));
  ops->linear(*stream, matrix(0), matrix(1), {}, matrix(2));
  world.barrier();
  const double began_s = clock.now_s();
  int products = 0;
  do {
    ops->linear(*stream, matrix(0), matrix(1), {}, matrix(2));
    ++products;
  } while (clock.now_s() - began_s < k_product_window_s);
  return products * k_flops / (clock.now_s() - began_s) / 1e9;
}

probe::LinkTiming measure_links(comm::World& world, bool has_its_cores, const base::Clock& clock) {
  comm::WaitPolicy napping;
  napping.spin_s = has_its_cores ? comm::WaitPolicy::k_spin_on_own_core_s : 0;
  comm::WaitPolicy attentive;
  attentive.spin_s = 1;
  const auto first = comm::make_mpi_channel(world, clock, attentive);
  const auto second = comm::make_mpi_channel(world, clock, napping);
  return probe::time_links(world, *first, *second, clock);
}

json to_json(const probe::HostState& host) {
  return {host.shm_bytes,     host.open_files, host.locked_bytes,
          host.name_resolves, host.gpu_driver, host.fabrics};
}

probe::HostState host_from(const json& text) {
  return {text[0], text[1], text[2], text[3], text[4], text[5]};
}

}  // namespace

std::string pack(const DoctorFacts& f) {
  return json{
      {"place", pack(f.place)},
      {"room", pack(f.room)},
      {"host", to_json(f.host)},
      {"mpi", {f.mpi.library, f.mpi.standard, f.mpi.thread_level}},
      {"maths", {f.maths.onednn, f.maths.isa, f.maths.blas, f.maths.has_fma}},
      {"hdf5", {f.hdf5.version, f.hdf5.deflates}},
      {"cpu", f.cpu},
      {"slurm_step_tasks", f.slurm_step_tasks},
      {"other_cores", f.other_cores},
      {"gigaflops", f.gigaflops},
      {"link", {f.next_link.latency_s, f.next_link.bytes_per_s, f.next_link.woken_latency_s}}}
      .dump();
}

DoctorFacts unpack_doctor_facts(const std::string& text) {
  const json from = json::parse(text);
  const json& mpi = from["mpi"];
  const json& maths = from["maths"];
  const json& hdf5 = from["hdf5"];
  const json& link = from["link"];
  return {unpack_place(from["place"]),
          unpack_room(from["room"]),
          host_from(from["host"]),
          {mpi[0], mpi[1], mpi[2]},
          {maths[0], maths[1], maths[2], maths[3]},
          {hdf5[0], hdf5[1]},
          from["cpu"],
          from["slurm_step_tasks"],
          from["other_cores"],
          from["gigaflops"],
          {link[0], link[1], link[2]}};
}

DoctorFacts find_facts(comm::World& world) {
  const base::SteadyClock clock;
  const std::vector<probe::RankPlace> places = share_places(world, std::nullopt);
  DoctorFacts facts;
  facts.place = places[static_cast<std::size_t>(world.rank())];
  facts.room = own_room(world.host(), resident_bytes());
  facts.host = probe::host_state();
  facts.mpi = comm::mpi_facts();
  facts.maths = ops::maths_libraries();
  facts.hdf5 = io::library_facts();
  facts.cpu = probe::parse_cpuinfo(probe::read_text("/proc/cpuinfo").value_or("")).name;
  if (std::getenv("SLURM_STEP_ID") != nullptr) {
    facts.slurm_step_tasks = number_in_environment("SLURM_STEP_NUM_TASKS");
  }
  facts.other_cores = measure_other_load(world, clock);
  facts.gigaflops = measure_products(world, facts.place.threads, clock);
  facts.next_link = measure_links(world, probe::has_its_cores(places, world.rank()), clock);
  return facts;
}

}  // namespace dynpipe::app
